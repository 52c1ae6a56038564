//! An environment from outside the crate: it is registered once and stepped like the others, in
//! float64.
#![allow(clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_core::Error;
use rlox_core::env::registry::{self, Entry};
use rlox_core::env::{Actions, Env, Precision, Seeding, Spec, StepOut, Tiling, VecEnv};
use rlox_core::seed::Stream;
use rlox_core::space::{ActionSpace, BoxSpace};

const SPEC: Spec = Spec {
    id: "Counter-v0",
    max_episode_steps: 5,
    state_dim: 1,
    observation: BoxSpace { low: &[0.0], high: &[9.0] },
    action: ActionSpace::Discrete { n: 2 },
    nanoseconds_per_step: 1,
};

/// Counts the actions that are 1; the episode terminates at 3.
struct Counter(Spec);

static COUNTER: Counter = Counter(SPEC);
static TWIN: Counter = Counter(SPEC);
static UNEVEN: Counter =
    Counter(Spec { id: "Uneven-v0", observation: BoxSpace { low: &[0.0], high: &[] }, ..SPEC });
static ENDLESS: Counter = Counter(Spec { id: "Endless-v0", max_episode_steps: 0, ..SPEC });

impl Env for Counter {
    fn spec(&self) -> &'static Spec {
        match self.0.id {
            "Uneven-v0" => &UNEVEN.0,
            "Endless-v0" => &ENDLESS.0,
            _ => &SPEC,
        }
    }

    fn start(&self, _stream: &mut Stream, state: &mut [f64]) {
        state.fill(0.0);
    }

    fn step(&self, state: &mut [f64], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        let rows = state.iter_mut().zip(actions.discrete()).zip(rewards.iter_mut().zip(terminated));
        for ((count, &action), (reward, terminated)) in rows {
            *count += if action == 1 { 1.0 } else { 0.0 };
            *reward = *count;
            *terminated = *count >= 3.0;
        }
    }

    fn observe(&self, state: &[f64], _rows: usize, obs: &mut [f32]) {
        for (obs, count) in obs.iter_mut().zip(state) {
            *obs = if *count > 2.5 {
                3.0
            } else if *count > 1.5 {
                2.0
            } else {
                f32::from(*count > 0.5)
            };
        }
    }
}

#[test]
fn an_environment_is_registered_once_and_stepped_like_the_others() {
    assert!(matches!(VecEnv::new("Counter-v0", 1, Seeding::Run(0)), Err(Error::UnknownName { .. })));
    registry::register(Entry::new(&COUNTER)).unwrap();
    assert!(registry::ids().contains(&"Counter-v0"));

    let mut envs = VecEnv::new("Counter-v0", 2, Seeding::Run(0)).unwrap();
    let (mut obs, mut rewards) = ([0.0; 2], [0.0; 2]);
    let (mut terminated, mut truncated) = ([false; 2], [false; 2]);
    let mut outputs = Vec::new();
    for _ in 0..5 {
        let out = StepOut {
            obs: &mut obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        envs.step_into(Actions::Discrete(&[1, 0]), out).unwrap();
        outputs.push((terminated, truncated, envs.episode_ends().obs.to_vec()));
    }
    assert_eq!(outputs[2], ([true, false], [false, false], vec![3.0]));
    assert_eq!(outputs[4], ([false, false], [false, true], vec![0.0]));

    let duplicate_error = registry::register(Entry::new(&TWIN)).unwrap_err().to_string();
    assert!(duplicate_error.starts_with("environment id is Counter-v0, expected an id"), "{duplicate_error}");
    let single = VecEnv::with_tiling("Counter-v0", 1, Seeding::Run(0), Precision::F32, Tiling::default());
    let message = single.err().unwrap().to_string();
    assert_eq!(message, "precision is f32, expected f64: Counter-v0 has no f32 kernel");
}

#[test]
fn specs_that_contradict_themselves_are_refused() {
    for (entry, name) in [(Entry::new(&UNEVEN), "bounds"), (Entry::new(&ENDLESS), "max_episode")] {
        let message = registry::register(entry).unwrap_err().to_string();
        assert!(message.starts_with(name), "{message}");
    }
}
