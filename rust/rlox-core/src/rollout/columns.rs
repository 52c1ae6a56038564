//! Collects steps of environments into the columns of a rollout, in any memory.

use super::episodes::{Episode, RunningEpisodes};
use crate::env::StepOut;
use crate::env::vector_env::VectorEnv;
use crate::error::{Error, Result, check_len};
use crate::interrupt;
use crate::policy::{ActionsMut, Policy, PolicyInput, PolicyOutput};
use crate::seed::Stream;

/// Name of the stream that gives the noise of a rollout.
const STREAM: &str = "action";

/// The columns of T steps of N environments, time-major.
pub struct Columns<'a> {
    /// o_t, `[T + 1, N, obs_dim]`; row 0 has the present observations of the environments.
    pub obs: &'a mut [f32],
    /// a_t, `[T, N]` or `[T, N, action_dim]`.
    pub actions: ActionsMut<'a>,
    /// r_t, `[T, N]`, rounded to float32.
    pub rewards: &'a mut [f32],
    /// Whether s_{t+1} is terminal, `[T, N]`.
    pub terminated: &'a mut [bool],
    /// Whether the time limit was reached, `[T, N]`.
    pub truncated: &'a mut [bool],
    /// log pi(a_t | o_t), `[T, N]`.
    pub log_probs: &'a mut [f32],
    /// V(o_t), `[T + 1, N]`.
    pub values: &'a mut [f32],
    /// V of the state after step t, `[T, N]`: 0 if the state is terminal, the value of the final
    /// observation if the episode was truncated.
    pub next_values: &'a mut [f32],
}

/// The end of an episode within a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndPosition {
    /// Index of the step that ended the episode.
    pub step: usize,
    /// Index of the environment.
    pub env: usize,
}

/// Ends of episodes, in the order of steps and then of environments.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RolloutEnds {
    /// The steps and environments of the ends.
    pub positions: Vec<EndPosition>,
    /// The last observation of each episode, `[k, obs_dim]`.
    pub obs: Vec<f32>,
    /// Sums over each whole episode, also over one that began in an earlier rollout.
    pub episodes: Vec<Episode>,
}

impl RolloutEnds {
    /// Appends the ends of later steps, of which the first one is step `first_step`.
    pub fn append(&mut self, first_step: usize, later: Self) {
        let positions = later.positions.into_iter();
        self.positions.extend(positions.map(|end| EndPosition { step: first_step + end.step, ..end }));
        self.obs.extend(later.obs);
        self.episodes.extend(later.episodes);
    }
}

/// Scratch memory for one step.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    /// Rewards as the environments return them, `[N]`.
    rewards: Vec<f64>,
    /// Noise of the policy, `[N, k]`.
    noise: Vec<f32>,
}

/// Identifies a rollout of a run.
#[derive(Debug, Clone, Copy)]
pub struct RolloutKey {
    /// Seed of the run.
    pub seed: u64,
    /// Number of earlier rollouts.
    pub rollout: u64,
}

impl RolloutEnds {
    fn clear(&mut self) {
        self.positions.clear();
        self.obs.clear();
        self.episodes.clear();
    }
}

/// Writes the noise of step t of rollout `key` to `out`, `[n, k]`.
///
/// The stream (`seed`, "action", `rollout`) gives the noise step by step and environment by
/// environment. If the policy keeps its noise for several steps, only the first of these steps draws
/// from the stream. So no generator state has to be saved, and nothing else can shift the noise.
pub fn noise(policy: &dyn Policy, key: RolloutKey, t: usize, out: &mut [f32]) {
    let mut stream = Stream::new(key.seed, STREAM, key.rollout);
    let n_drawn = t / policy.steps_per_noise().get() * out.len();
    stream.set_position((n_drawn as u64).saturating_mul(crate::policy::Noise::WORDS));
    policy.noise().draw(&mut stream, out);
}

impl Columns<'_> {
    /// Collects T steps of every environment, then computes the values of the states after them.
    /// Row 0 of the observations must be filled.
    ///
    /// # Errors
    /// [`Error::Shape`] for columns that do not fit; [`Error::Interrupted`]; errors of environments
    /// and policy. If a step fails, row T of the observations also has the present observations of
    /// the environments.
    pub fn collect(
        &mut self,
        envs: &mut dyn VectorEnv,
        policy: &dyn Policy,
        key: RolloutKey,
        running: &mut RunningEpisodes<'_>,
        (rollout_ends, scratch): (&mut RolloutEnds, &mut Scratch),
    ) -> Result<()> {
        let sizes = self.check_sizes(envs, running)?;
        rollout_ends.clear();
        scratch.rewards.resize(sizes.n, 0.0);
        scratch.noise.resize(sizes.n * policy.noise().dim(), 0.0);
        let mut stream = Stream::new(key.seed, STREAM, key.rollout);
        for t in 0..sizes.steps {
            if t.is_multiple_of(policy.steps_per_noise().get()) {
                policy.noise().draw(&mut stream, &mut scratch.noise);
            }
            if let Err(error) = self.step(envs, policy, (running, rollout_ends, scratch), (t, sizes)) {
                let width = sizes.n * sizes.obs_dim;
                self.obs.copy_within(t * width..(t + 1) * width, sizes.steps * width);
                return Err(error);
            }
        }
        self.compute_values(policy, rollout_ends, sizes)
    }

    fn step(
        &mut self,
        envs: &mut dyn VectorEnv,
        policy: &dyn Policy,
        (running, rollout_ends, scratch): (&mut RunningEpisodes<'_>, &mut RolloutEnds, &mut Scratch),
        (t, sizes): (usize, Sizes),
    ) -> Result<()> {
        interrupt::check()?;
        let Sizes { n, obs_dim, action_dim, .. } = sizes;
        let (before, after) = self.obs.split_at_mut((t + 1) * n * obs_dim);
        let input = PolicyInput { obs: row(before, t, n * obs_dim), noise: &scratch.noise };
        let values: &mut [f32] =
            if policy.has_separate_values() { &mut [] } else { row_mut(self.values, t, n) };
        policy.act(
            input,
            PolicyOutput {
                actions: step_actions(&mut self.actions, t, n * action_dim),
                log_probs: row_mut(self.log_probs, t, n),
                values,
            },
        )?;
        let out = StepOut {
            obs: row_mut(after, 0, n * obs_dim),
            rewards: &mut scratch.rewards,
            terminated: row_mut(self.terminated, t, n),
            truncated: row_mut(self.truncated, t, n),
        };
        envs.step(step_actions(&mut self.actions, t, n * action_dim).view(), out)?;
        for (column_reward, reward) in row_mut(self.rewards, t, n).iter_mut().zip(&scratch.rewards) {
            *column_reward = to_f32(*reward);
        }
        running.add(&scratch.rewards);
        let episode_ends = envs.episode_ends();
        running.finish(episode_ends.indices, &mut rollout_ends.episodes);
        rollout_ends.positions.extend(episode_ends.indices.iter().map(|&env| EndPosition { step: t, env }));
        rollout_ends.obs.extend_from_slice(episode_ends.obs);
        Ok(())
    }

    /// Computes the values that the steps did not, and those of the states after every step.
    fn compute_values(&mut self, policy: &dyn Policy, ends: &RolloutEnds, sizes: Sizes) -> Result<()> {
        let Sizes { n, obs_dim, steps, .. } = sizes;
        let first = if policy.has_separate_values() { 0 } else { steps };
        let obs = self.obs.get(first * n * obs_dim..).unwrap_or_default();
        policy.values(obs, self.values.get_mut(first * n..).unwrap_or_default())?;
        self.next_values.copy_from_slice(self.values.get(n..).unwrap_or_default());
        let mut values = vec![0.0; ends.positions.len()];
        check_len("final_obs", ends.obs.len(), values.len() * obs_dim, "one per end")?;
        policy.values(&ends.obs, &mut values)?;
        for (end, value) in ends.positions.iter().zip(values) {
            let index = end.step * n + end.env;
            if let (Some(next), Some(&terminated)) =
                (self.next_values.get_mut(index), self.terminated.get(index))
            {
                *next = if terminated { 0.0 } else { value };
            }
        }
        Ok(())
    }

    /// Returns the sizes of a rollout of `envs`, after checking all columns against them.
    fn check_sizes(&self, envs: &dyn VectorEnv, running: &RunningEpisodes<'_>) -> Result<Sizes> {
        let (n, spec) = (envs.n_envs(), envs.spec());
        let sizes = Sizes {
            n,
            steps: self.rewards.len() / n.max(1),
            obs_dim: spec.observation.dim(),
            action_dim: spec.action.dim(),
        };
        let rows = sizes.steps * n;
        let n_numbers = match &self.actions {
            ActionsMut::Discrete(actions) => actions.len(),
            ActionsMut::Box(actions) => actions.len(),
        };
        for (name, len, expected) in [
            ("rewards", self.rewards.len(), rows),
            ("obs", self.obs.len(), (rows + n) * sizes.obs_dim),
            ("actions", n_numbers, rows * sizes.action_dim),
            ("terminated", self.terminated.len(), rows),
            ("truncated", self.truncated.len(), rows),
            ("log_probs", self.log_probs.len(), rows),
            ("values", self.values.len(), rows + n),
            ("next_values", self.next_values.len(), rows),
            ("totals", running.totals.len(), n),
            ("steps", running.steps.len(), n),
        ] {
            check_len(name, len, expected, "as a rollout of these environments has")?;
        }
        if rows == 0 {
            return Err(Error::config("rows of a rollout", 0, "at least 1"));
        }
        Ok(sizes)
    }
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    steps: usize,
    n: usize,
    obs_dim: usize,
    action_dim: usize,
}

/// Returns row t of a column whose rows have `width` elements.
pub(super) fn row<T>(column: &[T], t: usize, width: usize) -> &[T] {
    column.get(t * width..(t + 1) * width).unwrap_or_default()
}

/// Returns row t of a column whose rows have `width` elements, for writing.
pub(super) fn row_mut<T>(column: &mut [T], t: usize, width: usize) -> &mut [T] {
    column.get_mut(t * width..(t + 1) * width).unwrap_or_default()
}

/// Returns the actions of step t, which consist of `width` numbers.
pub(super) fn step_actions<'a>(actions: &'a mut ActionsMut<'_>, t: usize, width: usize) -> ActionsMut<'a> {
    match actions {
        ActionsMut::Discrete(all) => ActionsMut::Discrete(row_mut(all, t, width)),
        ActionsMut::Box(all) => ActionsMut::Box(row_mut(all, t, width)),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "columns are float32")]
pub(super) const fn to_f32(value: f64) -> f32 {
    value as f32
}
