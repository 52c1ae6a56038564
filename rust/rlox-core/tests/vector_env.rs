//! Environments behind the object-safe trait: native ones, and one that a client builds from a text.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_core::env::{Actions, EpisodeEnds, Seeding, Snapshot, StepOut, VecEnv, registry};
use rlox_core::space::{ActionSpace, BoxSpace};
use rlox_core::{EnvSpec, Error, Result, VectorEnv};

/// A client of a remote environment, whose id and bounds are known only at run time.
struct RemoteEnv {
    spec: EnvSpec,
    count: f32,
    final_obs: Vec<f32>,
}

impl RemoteEnv {
    fn from_description(description: &str) -> Self {
        let (id, high) = description.split_once(' ').unwrap();
        let bounds = BoxSpace { low: vec![0.0], high: vec![high.parse().unwrap()] };
        let action = ActionSpace::Discrete { n: 2 };
        let spec = EnvSpec { id: id.to_owned(), max_episode_steps: None, observation: bounds, action };
        Self { spec, count: 0.0, final_obs: Vec::new() }
    }
}

impl VectorEnv for RemoteEnv {
    fn spec(&self) -> &EnvSpec {
        &self.spec
    }

    fn n_envs(&self) -> usize {
        1
    }

    fn reset(&mut self, obs: &mut [f32]) -> Result<()> {
        self.count = 0.0;
        self.observe(obs)
    }

    fn step(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        let Actions::Discrete([1]) = actions else {
            let field = format!("action of {}", self.spec.id);
            return Err(Error::config(field, format!("{actions:?}"), "1"));
        };
        self.count += 1.0;
        out.truncated.fill(false);
        out.terminated[0] = self.count >= self.spec.observation.high[0];
        out.rewards[0] = f64::from(self.count);
        self.final_obs.clear();
        if out.terminated[0] {
            self.final_obs.push(self.count);
            self.count = 0.0;
        }
        self.observe(out.obs)
    }

    fn episode_ends(&self) -> EpisodeEnds<'_> {
        EpisodeEnds { indices: if self.final_obs.is_empty() { &[] } else { &[0] }, obs: &self.final_obs }
    }

    fn observe(&self, obs: &mut [f32]) -> Result<()> {
        obs.fill(self.count);
        Ok(())
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        Ok(self.count.to_le_bytes().to_vec())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        let bytes = snapshot.try_into().map_err(|_| Error::snapshot("bytes", snapshot.len(), 4))?;
        self.count = f32::from_le_bytes(bytes);
        Ok(())
    }
}

/// Takes `steps` steps with action 1 (in a Box 0.5). Returns the observations, rewards and final
/// observations of each step.
fn play(envs: &mut dyn VectorEnv, steps: usize) -> Vec<(Vec<f32>, Vec<f64>, Vec<f32>)> {
    let (n, dim) = (envs.n_envs(), envs.spec().observation.dim());
    let (discrete, boxed) = (vec![1; n], vec![0.5; n * envs.spec().action.dim()]);
    let (mut terminated, mut truncated) = (vec![false; n], vec![false; n]);
    let mut records = Vec::new();
    for _ in 0..steps {
        let (mut obs, mut rewards) = (vec![0.0; n * dim], vec![0.0; n]);
        let out = StepOut {
            obs: &mut obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        let actions = match envs.spec().action {
            ActionSpace::Discrete { .. } => Actions::Discrete(&discrete),
            ActionSpace::Box(_) => Actions::Box(&boxed),
        };
        envs.step(actions, out).unwrap();
        records.push((obs, rewards, envs.episode_ends().obs.to_vec()));
    }
    records
}

fn make_every_kind() -> Vec<Box<dyn VectorEnv>> {
    let native = |id: &&str| -> Box<dyn VectorEnv> { Box::new(VecEnv::new(id, 5, Seeding::Run(3)).unwrap()) };
    let mut all: Vec<_> = registry::ids().iter().map(native).collect();
    all.push(Box::new(RemoteEnv::from_description("counter@10.0.0.1 4")));
    all
}

#[test]
fn environments_of_every_kind_go_on_from_a_snapshot_and_from_a_reset() {
    for (mut envs, mut other) in make_every_kind().into_iter().zip(make_every_kind()) {
        let mut first = vec![f32::NAN; envs.n_envs() * envs.spec().observation.dim()];
        let mut current = first.clone();
        envs.reset(&mut first).unwrap();
        envs.observe(&mut current).unwrap();
        assert_eq!(first, current);
        play(&mut *envs, 30);
        let saved = envs.snapshot().unwrap();
        let expected = play(&mut *envs, 250);
        assert!(expected.iter().any(|step| !step.2.is_empty()) || envs.spec().id != "CartPole-v1");
        other.restore(&saved).unwrap();
        assert_eq!(play(&mut *other, 250), expected, "{}", envs.spec().id);
    }
}

#[test]
fn an_error_of_a_client_has_the_id_that_its_server_sent() {
    let mut remote = RemoteEnv::from_description("counter@10.0.0.1 4");
    let (mut obs, mut rewards, mut terminated_flags, mut truncated_flags) = ([0.0], [0.0], [false], [false]);
    let out = StepOut {
        obs: &mut obs,
        rewards: &mut rewards,
        terminated: &mut terminated_flags,
        truncated: &mut truncated_flags,
    };
    let message = remote.step(Actions::Discrete(&[0]), out).unwrap_err().to_string();
    assert_eq!(message, "action of counter@10.0.0.1 is Discrete([0]), expected 1");
}

#[test]
fn the_owned_spec_of_a_native_environment_equals_its_spec() {
    for id in registry::ids() {
        let envs = VecEnv::new(id, 1, Seeding::Run(0)).unwrap();
        let (native, owned) = (envs.spec(), VectorEnv::spec(&envs));
        assert_eq!((native.id, Some(native.max_episode_steps)), (&*owned.id, owned.max_episode_steps));
        assert_eq!(native.observation.low, owned.observation.low);
        assert_eq!(native.observation.high, owned.observation.high);
        assert_eq!(native.action.size(), owned.action.size());
        let bounds = native.action.bounds().map(|space| (space.low.to_vec(), space.high.to_vec()));
        let owned = owned.action.bounds().map(|space| (space.low.clone(), space.high.clone()));
        assert_eq!(bounds, owned);
    }
}

#[test]
fn snapshot_bytes_with_any_byte_changed_missing_or_added_are_refused() {
    let mut envs = VecEnv::new("Pendulum-v1", 3, Seeding::PerEnv(vec![5, u64::MAX, 0])).unwrap();
    play(&mut envs, 7);
    let saved = envs.snapshot().unwrap();
    let bytes = saved.to_bytes();
    assert_eq!(Snapshot::from_bytes(&bytes).unwrap(), saved);
    for position in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut wrong = bytes.clone();
            wrong[position] ^= 1 << bit;
            let error = Snapshot::from_bytes(&wrong).unwrap_err();
            assert!(matches!(error, Error::Snapshot { .. }), "byte {position}: {error}");
        }
        assert!(Snapshot::from_bytes(&bytes[..position]).is_err());
    }
    assert!(Snapshot::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    let message = Snapshot::from_bytes(b"rloxenv\x02and then something").unwrap_err().to_string();
    assert!(message.contains("snapshot field format") && message.contains(", 2]"), "{message}");
}
