//! Collects transitions of environments for a replay buffer.

use super::columns::{EndPosition, RolloutEnds, row, row_mut, step_actions, to_f32};
use super::episodes::RunningEpisodes;
use zerocopy::IntoBytes;

use crate::buffer::{Buffer, EnvIndex, Sampler, Transitions};
use crate::env::StepOut;
use crate::env::vector_env::VectorEnv;
use crate::error::{Error, Result, check_len};
use crate::interrupt;
use crate::policy::ActionsMut;

/// Chooses the actions of a chunk of steps.
pub trait ExplorationPolicy {
    /// Writes the actions of step `t` of the chunk for `obs`, `[N, obs_dim]`. If `actions` holds
    /// actions already, this method may leave them unchanged.
    ///
    /// # Errors
    /// If slices do not fit, or the policy does not choose actions of this kind.
    fn act(&mut self, t: usize, obs: &[f32], actions: ActionsMut<'_>) -> Result<()>;
}

/// The columns of T steps of N environments, time-major.
pub struct TransitionChunk<'a> {
    /// o_t, `[T + 1, N, obs_dim]`; row 0 has the present observations of the environments.
    pub obs: &'a mut [f32],
    /// Observation after step t, `[T, N, obs_dim]`; the last one of an episode that the step ended.
    pub next_obs: &'a mut [f32],
    /// a_t, `[T, N]` or `[T, N, action_dim]`.
    pub actions: ActionsMut<'a>,
    /// r_t, `[T, N]`.
    pub rewards: &'a mut [f64],
    /// Whether s_{t+1} is terminal, `[T, N]`.
    pub terminated: &'a mut [bool],
    /// Whether the time limit was reached, `[T, N]`.
    pub truncated: &'a mut [bool],
}

/// Bounds of Box actions, `[action_dim]` each. Actions in [-1, 1] are scaled to these bounds.
#[derive(Debug, Clone, Copy)]
pub struct ActionBounds<'a> {
    /// The value that -1 is scaled to.
    pub low: &'a [f32],
    /// The value that 1 is scaled to.
    pub high: &'a [f32],
}

impl ActionBounds<'_> {
    /// Scales `actions` `[n, action_dim]` from [-1, 1] to the bounds.
    fn scale(&self, actions: &[f32], out: &mut Vec<f32>) {
        out.clear();
        for row in actions.chunks_exact(self.low.len().max(1)) {
            out.extend(row.iter().zip(self.low).zip(self.high).map(|((&action, &low), &high)| {
                (low + 0.5 * (action + 1.0) * (high - low)).max(low).min(high)
            }));
        }
    }
}

impl TransitionChunk<'_> {
    /// Returns part i of `count` parts of equally many steps of `n` environments.
    ///
    /// # Errors
    /// [`Error::Config`] unless the steps divide into `count` parts, of which this is one.
    pub fn part(&mut self, (i, count): (usize, usize), n: usize) -> Result<TransitionChunk<'_>> {
        let steps = self.rewards.len() / n.max(1);
        if count == 0 || !steps.is_multiple_of(count) || i >= count {
            let expected = format!("one of equal parts of {steps} steps");
            return Err(Error::config("part", format!("{i} of {count}"), expected));
        }
        let part_steps = steps / count;
        let obs_width = self.obs.len() / (steps + 1);
        let obs_start = i * part_steps * obs_width;
        let obs_end = obs_start + (part_steps + 1) * obs_width;
        Ok(TransitionChunk {
            obs: self.obs.get_mut(obs_start..obs_end).unwrap_or_default(),
            next_obs: part_mut(self.next_obs, i, count),
            actions: match &mut self.actions {
                ActionsMut::Discrete(actions) => ActionsMut::Discrete(part_mut(actions, i, count)),
                ActionsMut::Box(actions) => ActionsMut::Box(part_mut(actions, i, count)),
            },
            rewards: part_mut(self.rewards, i, count),
            terminated: part_mut(self.terminated, i, count),
            truncated: part_mut(self.truncated, i, count),
        })
    }

    /// Collects T steps of every environment. Row 0 of the observations must be filled. The
    /// explorer chooses the actions. If `bounds` is present, it scales them for the environments.
    ///
    /// # Errors
    /// [`Error::Shape`] for columns that do not fit; [`Error::Interrupted`]; errors of environments
    /// and explorer. The environments then keep the state that they have reached.
    pub fn collect(
        &mut self,
        envs: &mut dyn VectorEnv,
        explorer: &mut dyn ExplorationPolicy,
        bounds: Option<ActionBounds<'_>>,
        running: &mut RunningEpisodes<'_>,
    ) -> Result<RolloutEnds> {
        let sizes = self.check_sizes(envs, bounds, running)?;
        let (mut rollout_ends, mut scaled_actions) = (RolloutEnds::default(), Vec::new());
        for t in 0..self.rewards.len() / sizes.n {
            interrupt::check()?;
            self.step(envs, explorer, (bounds, &mut scaled_actions), (t, sizes))?;
            running.add(row(self.rewards, t, sizes.n));
            let episode_ends = envs.episode_ends();
            running.finish(episode_ends.indices, &mut rollout_ends.episodes);
            rollout_ends
                .positions
                .extend(episode_ends.indices.iter().map(|&env| EndPosition { step: t, env }));
            rollout_ends.obs.extend_from_slice(episode_ends.obs);
        }
        Ok(rollout_ends)
    }

    /// Checks that all numbers are finite.
    ///
    /// # Errors
    /// [`Error::NonFinite`] with the name of the column.
    pub fn check_finite(&self) -> Result<()> {
        let n_obs = self.obs.len().min(self.next_obs.len());
        check_column_finite("obs", self.obs.get(..n_obs).unwrap_or_default(), f64::from)?;
        check_column_finite("next_obs", self.next_obs, f64::from)?;
        check_column_finite("rewards", self.rewards, |reward| reward)?;
        match &self.actions {
            ActionsMut::Discrete(_) => Ok(()),
            ActionsMut::Box(actions) => check_column_finite("actions", actions, f64::from),
        }
    }

    /// Stores the transitions of the `n` environments.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the buffer has the columns of these actions and of float32
    /// observations and rewards; the errors of [`Buffer::push`].
    pub fn store<S: Sampler + ?Sized>(&self, n: usize, buffer: &mut Buffer<S>) -> Result<()> {
        let rows = self.rewards.len();
        let n_obs = self.obs.len().min(self.next_obs.len());
        let rewards: Vec<f32> = self.rewards.iter().map(|&reward| to_f32(reward)).collect();
        let actions = match &self.actions {
            ActionsMut::Discrete(actions) => actions.as_bytes(),
            ActionsMut::Box(actions) => actions.as_bytes(),
        };
        let env_ids: Vec<usize> = (0..if n > 1 { rows } else { 0 }).map(|row| row % n).collect();
        let transitions = Transitions {
            n: rows,
            obs: &[self.obs.get(..n_obs).unwrap_or_default().as_bytes()],
            next_obs: Some(&[self.next_obs.as_bytes()]),
            columns: &[actions, rewards.as_bytes()],
            terminated: self.terminated.as_bytes(),
            truncated: self.truncated.as_bytes(),
        };
        let env_index = if n > 1 { EnvIndex::Ids(&env_ids) } else { EnvIndex::One(0) };
        buffer.push(env_index, transitions, None)
    }

    /// Takes one step and writes its results.
    fn step(
        &mut self,
        envs: &mut dyn VectorEnv,
        explorer: &mut dyn ExplorationPolicy,
        (bounds, scaled_actions): (Option<ActionBounds<'_>>, &mut Vec<f32>),
        (t, sizes): (usize, Sizes),
    ) -> Result<()> {
        let width = sizes.n * sizes.obs_dim;
        let (before, after) = self.obs.split_at_mut((t + 1) * width);
        explorer.act(t, row(before, t, width), step_actions(&mut self.actions, t, sizes.numbers_per_step))?;
        let mut actions = step_actions(&mut self.actions, t, sizes.numbers_per_step);
        if let (ActionsMut::Box(chunk_actions), Some(bounds)) = (&mut actions, bounds) {
            bounds.scale(chunk_actions, scaled_actions);
            actions = ActionsMut::Box(scaled_actions);
        }
        let out = StepOut {
            obs: row_mut(after, 0, width),
            rewards: row_mut(self.rewards, t, sizes.n),
            terminated: row_mut(self.terminated, t, sizes.n),
            truncated: row_mut(self.truncated, t, sizes.n),
        };
        envs.step(actions.view(), out)?;
        let next = row_mut(self.next_obs, t, width);
        next.copy_from_slice(row(after, 0, width));
        let episode_ends = envs.episode_ends();
        for (&env, final_obs) in
            episode_ends.indices.iter().zip(episode_ends.obs.chunks_exact(sizes.obs_dim.max(1)))
        {
            row_mut(next, env, sizes.obs_dim).copy_from_slice(final_obs);
        }
        Ok(())
    }

    /// Returns the sizes of steps of `envs`, after checking all columns against them.
    fn check_sizes(
        &self,
        envs: &dyn VectorEnv,
        bounds: Option<ActionBounds<'_>>,
        running: &RunningEpisodes<'_>,
    ) -> Result<Sizes> {
        let (n, spec) = (envs.n_envs(), envs.spec());
        let (obs_dim, action_dim) = (spec.observation.dim(), spec.action.dim());
        let rows = self.rewards.len() / n.max(1) * n;
        let n_numbers = match &self.actions {
            ActionsMut::Discrete(actions) => actions.len(),
            ActionsMut::Box(actions) => actions.len(),
        };
        let bounds = bounds.map_or([action_dim; 2], |bounds| [bounds.low.len(), bounds.high.len()]);
        for (name, len, expected) in [
            ("rewards", self.rewards.len(), rows),
            ("obs", self.obs.len(), (rows + n) * obs_dim),
            ("next_obs", self.next_obs.len(), rows * obs_dim),
            ("actions", n_numbers, rows * action_dim),
            ("terminated", self.terminated.len(), rows),
            ("truncated", self.truncated.len(), rows),
            ("totals", running.totals.len(), n),
            ("steps", running.steps.len(), n),
            ("low", bounds[0], action_dim),
            ("high", bounds[1], action_dim),
        ] {
            check_len(name, len, expected, "as steps of these environments have")?;
        }
        if rows == 0 {
            return Err(Error::config("steps of a chunk", 0, "at least 1"));
        }
        Ok(Sizes { n, obs_dim, numbers_per_step: n * action_dim })
    }
}

/// Returns part i of `count` equal parts.
fn part_mut<T>(values: &mut [T], i: usize, count: usize) -> &mut [T] {
    let len = values.len() / count.max(1);
    values.get_mut(i * len..(i + 1) * len).unwrap_or_default()
}

fn check_column_finite<T: Copy>(name: &str, column: &[T], to_f64: impl Fn(T) -> f64) -> Result<()> {
    if column.iter().fold(true, |all, &value| all & to_f64(value).is_finite()) {
        return Ok(());
    }
    let mut values = column.iter().map(|&value| to_f64(value)).enumerate();
    let first_invalid = values.find(|(_, value)| !value.is_finite());
    first_invalid
        .map_or(Ok(()), |(index, value)| Err(Error::NonFinite { name: name.to_owned().into(), index, value }))
}

#[derive(Debug, Clone, Copy)]
struct Sizes {
    n: usize,
    obs_dim: usize,
    /// Numbers in the actions of one step of all environments.
    numbers_per_step: usize,
}
