//! Collecting several steps in one call gives the same results as stepping by hand.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::float_cmp,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    missing_docs
)]

use rlox_core::buffer::{
    BatchKind, BatchPart, InMemoryBuffer, ObsField, OwnedBatch, ReplayBuffer, Schema, sampler_by_name,
};
use rlox_core::env::{Actions, Seeding, StepOut, VecEnv};
use rlox_core::policy::ActionsMut;
use rlox_core::rollout::{
    ActionBounds, Episode, ExplorationPolicy, RolloutEnds, RunningEpisodes, TransitionChunk,
};
use rlox_core::{Dtype, Error, Field, Result, VectorEnv};

const N: usize = 3;
const T: usize = 60;

/// Chooses actions by the observations and the number of the step.
struct StepNumberPolicy;

impl ExplorationPolicy for StepNumberPolicy {
    fn act(&mut self, t: usize, obs: &[f32], actions: ActionsMut<'_>) -> Result<()> {
        match actions {
            ActionsMut::Discrete(actions) => {
                for (env, action) in actions.iter_mut().enumerate() {
                    *action = i64::from(obs[env * obs.len() / N] > 0.0) ^ i64::from(t.is_multiple_of(3));
                }
            }
            ActionsMut::Box(actions) => {
                let first_numbers = obs.iter().step_by(obs.len() / N);
                for (action, x) in actions.iter_mut().zip(first_numbers) {
                    *action = (x * 3.0 + t as f32).sin();
                }
            }
        }
        Ok(())
    }
}

/// The columns of `T` steps of `N` environments.
#[derive(PartialEq)]
struct Columns {
    obs: Vec<f32>,
    next_obs: Vec<f32>,
    choices: Vec<i64>,
    vectors: Vec<f32>,
    rewards: Vec<f64>,
    flags: [Vec<bool>; 2],
    totals: Vec<f64>,
    steps: Vec<u64>,
}

impl Columns {
    fn new(envs: &VecEnv) -> Self {
        let dim = VectorEnv::spec(envs).observation.dim();
        let rows = T * N;
        Self {
            obs: vec![0.0; (rows + N) * dim],
            next_obs: vec![9.0; rows * dim],
            choices: vec![-1; rows],
            vectors: vec![9.0; rows],
            rewards: vec![9.0; rows],
            flags: [vec![false; rows], vec![false; rows]],
            totals: vec![0.0; N],
            steps: vec![0; N],
        }
    }

    /// Borrows the columns for a collection whose actions are vectors or choices.
    fn view(&mut self, is_box: bool) -> TransitionChunk<'_> {
        let [terminated, truncated] = &mut self.flags;
        TransitionChunk {
            obs: &mut self.obs,
            next_obs: &mut self.next_obs,
            actions: if is_box {
                ActionsMut::Box(&mut self.vectors)
            } else {
                ActionsMut::Discrete(&mut self.choices)
            },
            rewards: &mut self.rewards,
            terminated,
            truncated,
        }
    }

    fn collect(&mut self, envs: &mut VecEnv, bounds: Option<ActionBounds<'_>>) -> Result<RolloutEnds> {
        let is_box = VectorEnv::spec(envs).action.bounds().is_some();
        let (mut totals, mut steps) = (self.totals.clone(), self.steps.clone());
        let mut running = RunningEpisodes { totals: &mut totals, steps: &mut steps };
        let rollout_ends = self.view(is_box).collect(envs, &mut StepNumberPolicy, bounds, &mut running);
        (self.totals, self.steps) = (totals, steps);
        rollout_ends
    }

    /// Steps by hand and fills the columns. Actions in [-1, 1] are scaled to the range from `low` to
    /// `high`.
    fn step(&mut self, envs: &mut VecEnv, (low, high): (f32, f32)) -> Vec<(usize, Episode)> {
        let dim = self.next_obs.len() / (T * N);
        let (mut ended, width) = (Vec::new(), N * dim);
        let is_discrete = VectorEnv::spec(envs).action.bounds().is_none();
        for t in 0..T {
            let (before, after) = self.obs.split_at_mut((t + 1) * width);
            let (rows, current_obs) = (t * N..(t + 1) * N, &before[t * width..]);
            let (discrete_actions, vectors) =
                (&mut self.choices[rows.clone()], &mut self.vectors[rows.clone()]);
            if is_discrete {
                StepNumberPolicy.act(t, current_obs, ActionsMut::Discrete(discrete_actions)).unwrap();
            } else {
                StepNumberPolicy.act(t, current_obs, ActionsMut::Box(vectors)).unwrap();
            }
            let scaled_actions: Vec<f32> =
                vectors.iter().map(|action| low + 0.5 * (action + 1.0) * (high - low)).collect();
            let [terminated, truncated] = &mut self.flags;
            let out = StepOut {
                obs: &mut after[..width],
                rewards: &mut self.rewards[rows.clone()],
                terminated: &mut terminated[rows.clone()],
                truncated: &mut truncated[rows.clone()],
            };
            let actions =
                if is_discrete { Actions::Discrete(discrete_actions) } else { Actions::Box(&scaled_actions) };
            VectorEnv::step(envs, actions, out).unwrap();
            self.next_obs[t * width..(t + 1) * width].copy_from_slice(&after[..width]);
            for env in 0..N {
                self.totals[env] += self.rewards[t * N + env];
                self.steps[env] += 1;
            }
            let finals = VectorEnv::episode_ends(envs);
            for (k, &env) in finals.indices.iter().enumerate() {
                let offset = (t * N + env) * dim;
                self.next_obs[offset..offset + dim].copy_from_slice(&finals.obs[k * dim..(k + 1) * dim]);
                let (total, steps) = (self.totals[env], self.steps[env]);
                ended.push((t, Episode { env, total, steps }));
                (self.totals[env], self.steps[env]) = (0.0, 0);
            }
        }
        ended
    }
}

fn start_envs(id: &str) -> (VecEnv, Columns) {
    let mut envs = VecEnv::new(id, N, Seeding::Run(4)).unwrap();
    let mut columns = Columns::new(&envs);
    let width = columns.obs.len() / (T + 1);
    VectorEnv::reset(&mut envs, &mut columns.obs[..width]).unwrap();
    (envs, columns)
}

#[test]
fn collecting_a_chunk_equals_stepping_by_hand() {
    for (id, bounds) in [("CartPole-v1", None), ("Pendulum-v1", Some(([-2.0], [2.0])))] {
        let ((mut envs, mut columns), (mut other_envs, mut by_hand)) = (start_envs(id), start_envs(id));
        let bounds = bounds.as_ref().map(|(low, high)| ActionBounds { low, high });
        let result = columns.collect(&mut envs, bounds).unwrap();
        let ended = by_hand.step(&mut other_envs, (-2.0, 2.0));
        assert!(columns == by_hand, "{id}");
        let steps: Vec<usize> = result.positions.iter().map(|end| end.step).collect();
        let end_envs: Vec<usize> = result.positions.iter().map(|end| end.env).collect();
        assert_eq!(steps, ended.iter().map(|(t, _)| *t).collect::<Vec<_>>());
        assert_eq!(end_envs, ended.iter().map(|(_, episode)| episode.env).collect::<Vec<_>>());
        assert_eq!(result.episodes, ended.iter().map(|(_, episode)| *episode).collect::<Vec<_>>());
        assert_eq!(result.episodes.is_empty(), id == "Pendulum-v1");
        assert_eq!(VectorEnv::snapshot(&envs).unwrap(), VectorEnv::snapshot(&other_envs).unwrap());
    }
}

#[test]
fn a_chunk_collected_in_parts_equals_the_whole_chunk() {
    /// Chooses the actions of part `i`, whose steps are counted from its first step.
    struct PartPolicy(usize);
    impl ExplorationPolicy for PartPolicy {
        fn act(&mut self, t: usize, obs: &[f32], actions: ActionsMut<'_>) -> Result<()> {
            StepNumberPolicy.act(self.0 + t, obs, actions)
        }
    }
    for id in ["CartPole-v1", "Pendulum-v1"] {
        let ((mut envs, mut columns), (mut other_envs, mut in_parts)) = (start_envs(id), start_envs(id));
        let expected = columns.collect(&mut envs, None).unwrap();
        let count = 5;
        let (mut totals, mut steps) = (vec![0.0; N], vec![0; N]);
        let mut rollout_ends = RolloutEnds::default();
        for i in 0..count {
            let mut running = RunningEpisodes { totals: &mut totals, steps: &mut steps };
            let mut whole = in_parts.view(id == "Pendulum-v1");
            let mut part = whole.part((i, count), N).unwrap();
            let first_step = i * T / count;
            let later =
                part.collect(&mut other_envs, &mut PartPolicy(first_step), None, &mut running).unwrap();
            rollout_ends.append(first_step, later);
        }
        (in_parts.totals, in_parts.steps) = (totals, steps);
        assert!(columns == in_parts, "{id}");
        assert_eq!(rollout_ends, expected);
    }
    let (_, mut columns) = start_envs("CartPole-v1");
    for (i, count) in [(0, 0), (0, 7), (5, 5)] {
        let message = columns.view(false).part((i, count), N).err().unwrap().to_string();
        assert_eq!(message, format!("part is {i} of {count}, expected one of equal parts of 60 steps"));
    }
}

#[test]
fn a_stored_chunk_can_be_read_from_the_buffer() {
    let (mut envs, mut columns) = start_envs("CartPole-v1");
    columns.collect(&mut envs, None).unwrap();
    let obs = ObsField { field: Field::new("", Dtype::F32, [4]), stack: None };
    let schema = Schema::new(vec![obs], (Dtype::I64, vec![]), Dtype::F32, Vec::new()).unwrap();
    let make_buffer = || ReplayBuffer::new(schema.clone(), T * N, N, 0, sampler_by_name("uniform").unwrap());
    let mut buffer = make_buffer().unwrap();
    columns.view(false).store(N, &mut buffer).unwrap();
    let indices: Vec<u64> = (0..(T * N) as u64).collect(); // time-major, as the columns are
    let rows = indices.iter().map(|&index| buffer.rows().rings().find(index));
    let rows: Vec<_> = rows.collect::<Result<_>>().unwrap();
    let mut out = OwnedBatch::new(&schema, BatchKind::Transitions, T * N);
    out.fill(|batch| buffer.gather(&rows, None, batch)).unwrap();
    assert_eq!(out.f32(BatchPart::Obs(0)), columns.obs[..T * N * 4]);
    assert_eq!(out.f32(BatchPart::NextObs(0)), columns.next_obs);
    let rewards: Vec<f32> = columns.rewards.iter().map(|&reward| reward as f32).collect();
    assert_eq!(out.f32(BatchPart::Column(Schema::REWARDS)), rewards);
    let actions = out.bytes(BatchPart::Column(Schema::ACTIONS)).as_chunks().0.iter();
    assert!(actions.map(|&bytes| i64::from_ne_bytes(bytes)).eq(columns.choices.iter().copied()));
    let [terminated, truncated] = &columns.flags;
    assert!(out.bytes(BatchPart::Terminated).iter().map(|&flag| flag != 0).eq(terminated.clone()));
    assert!(out.bytes(BatchPart::Truncated).iter().map(|&flag| flag != 0).eq(truncated.clone()));
    // The buffer takes choices, not Pendulum's vectors.
    let (_, mut vectors) = start_envs("Pendulum-v1");
    assert!(vectors.view(true).store(N, &mut make_buffer().unwrap()).is_err());
}

#[test]
fn a_number_that_is_not_finite_is_named_by_its_column() {
    let (mut envs, mut columns) = start_envs("Pendulum-v1");
    columns.collect(&mut envs, None).unwrap();
    columns.view(true).check_finite().unwrap();
    *columns.obs.last_mut().unwrap() = f32::NAN; // belongs to the next collection
    columns.view(true).check_finite().unwrap();
    for name in ["actions", "rewards", "next_obs", "obs"] {
        match name {
            "actions" => columns.vectors[4] = f32::INFINITY,
            "rewards" => columns.rewards[4] = f64::NAN,
            "next_obs" => columns.next_obs[4] = f32::NAN,
            _ => columns.obs[4] = f32::NAN,
        }
        let error = columns.view(true).check_finite().unwrap_err();
        assert!(
            matches!(&error, Error::NonFinite { name: named_column, index: 4, .. } if *named_column == *name),
            "{error}"
        );
    }
}

#[test]
fn columns_of_another_size_are_refused() {
    let (mut envs, mut columns) = start_envs("CartPole-v1");
    columns.next_obs.pop();
    assert!(matches!(columns.collect(&mut envs, None), Err(Error::Shape { .. })));
    let (mut envs, mut columns) = start_envs("Pendulum-v1");
    let bounds = ActionBounds { low: &[], high: &[2.0] };
    assert!(columns.collect(&mut envs, Some(bounds)).is_err());
    let (mut envs, mut columns) = start_envs("CartPole-v1");
    columns.rewards.clear();
    assert!(columns.collect(&mut envs, None).is_err());
}
