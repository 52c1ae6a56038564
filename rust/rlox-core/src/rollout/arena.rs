//! The memory of a rollout.

use super::columns::{Columns, EndPosition, RolloutEnds, Scratch, row_mut};
use super::episodes::{Episode, RolloutProgress};
use crate::advantage::gae::Out;
use crate::env::vector_env::{EnvSpec, VectorEnv};
use crate::error::{Error, Result, check_len};
use crate::policy::ActionsMut;
use crate::space::ActionSpace;

/// The memory of one rollout of T steps in N environments. It is time-major, allocated once and
/// used again for each rollout.
///
/// Columns are `[T, N, ...]`. Observations and values have a row T for the states after the last
/// step.
#[derive(Debug, Clone)]
pub struct Arena {
    pub(super) n_steps: usize,
    pub(super) n_envs: usize,
    pub(super) obs_dim: usize,
    pub(super) action_dim: usize,
    pub(super) obs: Vec<f32>,
    pub(super) actions: ActionColumn,
    pub(super) rewards: Vec<f32>,
    pub(super) terminated: Vec<bool>,
    pub(super) truncated: Vec<bool>,
    pub(super) log_probs: Vec<f32>,
    pub(super) values: Vec<f32>,
    pub(super) next_values: Vec<f32>,
    pub(super) advantages: Vec<f32>,
    pub(super) returns: Vec<f32>,
    pub(super) ends: RolloutEnds,
    pub(super) scratch: Scratch,
    pub(super) progress: RolloutProgress,
    /// Whether row T of the observations holds the present observations of the environments.
    pub(super) has_started: bool,
}

/// The actions of a rollout.
#[derive(Debug, Clone, PartialEq)]
pub enum ActionColumn {
    /// `[T, N]`.
    Discrete(Vec<i64>),
    /// `[T, N, action_dim]`.
    Box(Vec<f32>),
}

/// The columns, the ends with the scratch memory, the running episodes, and the estimates.
type ArenaParts<'a> =
    (Columns<'a>, (&'a mut RolloutEnds, &'a mut Scratch), &'a mut RolloutProgress, Out<'a, f32>);

impl Arena {
    /// Allocates memory for `n_steps` steps of `n_envs` environments.
    ///
    /// # Errors
    /// [`Error::Config`] unless both are at least 1 and the bytes of a column fit `isize`.
    pub fn new(spec: &EnvSpec, n_steps: usize, n_envs: usize) -> Result<Self> {
        let (obs_dim, action_dim) = (spec.observation.dim(), spec.action.dim());
        let max_row_bytes = obs_dim.max(action_dim).max(1) * size_of::<i64>();
        let rows = n_steps.checked_add(1).and_then(|steps| steps.checked_mul(n_envs));
        let total_bytes = rows.and_then(|rows| rows.checked_mul(max_row_bytes));
        if n_steps == 0 || n_envs == 0 || total_bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            let got = format!("{n_steps} steps of {n_envs} environments");
            return Err(Error::config("a rollout", got, "at least 1 of both, and no more than memory holds"));
        }
        let size = n_steps * n_envs;
        Ok(Self {
            n_steps,
            n_envs,
            obs_dim,
            action_dim,
            obs: vec![0.0; (size + n_envs) * obs_dim],
            actions: match spec.action {
                ActionSpace::Discrete { .. } => ActionColumn::Discrete(vec![0; size]),
                ActionSpace::Box(_) => ActionColumn::Box(vec![0.0; size * action_dim]),
            },
            rewards: vec![0.0; size],
            terminated: vec![false; size],
            truncated: vec![false; size],
            log_probs: vec![0.0; size],
            values: vec![0.0; size + n_envs],
            next_values: vec![0.0; size],
            advantages: vec![0.0; size],
            returns: vec![0.0; size],
            ends: RolloutEnds::default(),
            scratch: Scratch::default(),
            progress: RolloutProgress::new(n_envs),
            has_started: false,
        })
    }

    /// Returns T and N.
    #[must_use]
    pub const fn shape(&self) -> (usize, usize) {
        (self.n_steps, self.n_envs)
    }

    /// Returns the number of elements of an observation.
    #[must_use]
    pub const fn obs_dim(&self) -> usize {
        self.obs_dim
    }

    /// Returns what the next rollout depends on besides the environments and the policy. A
    /// checkpoint saves it with the snapshot of the environments.
    #[must_use]
    pub const fn progress(&self) -> &RolloutProgress {
        &self.progress
    }

    /// Continues from a saved `progress` with restored `envs`.
    ///
    /// # Errors
    /// [`Error::Shape`] for progress of another number of environments; errors of `envs`.
    pub fn resume(&mut self, envs: &dyn VectorEnv, progress: RolloutProgress) -> Result<()> {
        check_len("totals", progress.totals.len(), self.n_envs, "n_envs")?;
        check_len("steps", progress.steps.len(), self.n_envs, "n_envs")?;
        envs.observe(row_mut(&mut self.obs, self.n_steps, self.n_envs * self.obs_dim))?;
        self.progress = progress;
        self.has_started = true;
        Ok(())
    }

    /// Returns o_t, `[T + 1, N, obs_dim]`. After the end of an episode it is the first observation
    /// of the next episode.
    #[must_use]
    pub fn obs(&self) -> &[f32] {
        &self.obs
    }

    /// Returns a_t.
    #[must_use]
    pub const fn actions(&self) -> &ActionColumn {
        &self.actions
    }

    /// Returns r_t, `[T, N]`, rounded to float32.
    #[must_use]
    pub fn rewards(&self) -> &[f32] {
        &self.rewards
    }

    /// Returns whether s_{t+1} is terminal, `[T, N]`.
    #[must_use]
    pub fn terminated(&self) -> &[bool] {
        &self.terminated
    }

    /// Returns whether the time limit was reached, `[T, N]`; may be true together with
    /// `terminated`.
    #[must_use]
    pub fn truncated(&self) -> &[bool] {
        &self.truncated
    }

    /// Returns log pi(a_t | o_t), `[T, N]`.
    #[must_use]
    pub fn log_probs(&self) -> &[f32] {
        &self.log_probs
    }

    /// Returns V(o_t), `[T + 1, N]`.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns V of the state after step t, `[T, N]`: 0 if the state is terminal, the value of the
    /// final observation if the episode was truncated.
    #[must_use]
    pub fn next_values(&self) -> &[f32] {
        &self.next_values
    }

    /// Returns A_t, `[T, N]`.
    #[must_use]
    pub fn advantages(&self) -> &[f32] {
        &self.advantages
    }

    /// Returns A_t + V(o_t), `[T, N]`.
    #[must_use]
    pub fn returns(&self) -> &[f32] {
        &self.returns
    }

    /// Returns the ends of episodes, in the order of steps and then of environments. Each comes
    /// with the last observation of its episode, `[obs_dim]`.
    #[must_use]
    pub fn episode_ends(&self) -> impl ExactSizeIterator<Item = (EndPosition, &[f32])> {
        let RolloutEnds { positions: finals, obs, .. } = &self.ends;
        finals.iter().copied().zip(obs.chunks_exact(self.obs_dim.max(1)))
    }

    /// Returns the episodes that ended in this rollout, in the order of [`Arena::episode_ends`]. Sums
    /// of rewards cover whole episodes, also those that began in an earlier rollout.
    #[must_use]
    pub fn episodes(&self) -> &[Episode] {
        &self.ends.episodes
    }

    /// Splits the arena into the columns to fill and the other parts.
    pub(super) fn split_mut(&mut self) -> ArenaParts<'_> {
        let columns = Columns {
            obs: &mut self.obs,
            actions: match &mut self.actions {
                ActionColumn::Discrete(actions) => ActionsMut::Discrete(actions),
                ActionColumn::Box(actions) => ActionsMut::Box(actions),
            },
            rewards: &mut self.rewards,
            terminated: &mut self.terminated,
            truncated: &mut self.truncated,
            log_probs: &mut self.log_probs,
            values: &mut self.values,
            next_values: &mut self.next_values,
        };
        let out = Out { advantages: &mut self.advantages, returns: &mut self.returns };
        (columns, (&mut self.ends, &mut self.scratch), &mut self.progress, out)
    }
}
