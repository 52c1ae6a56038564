//! Memory for the results of a step, and its division among shards.

use super::{Actions, Spec};
use crate::error::{Result, check_len};

/// Memory for the results of a step; row i belongs to environment i.
pub struct StepOut<'a> {
    /// o_{t+1} of each environment, `[n, obs_dim]`. If an episode ended, it is the first observation
    /// of the next one.
    pub obs: &'a mut [f32],
    /// r_t, `[n]`.
    pub rewards: &'a mut [f64],
    /// Whether s_{t+1} is terminal, `[n]`.
    pub terminated: &'a mut [bool],
    /// Whether the time limit was reached, `[n]`; may be true together with `terminated`.
    pub truncated: &'a mut [bool],
}

impl StepOut<'_> {
    pub(crate) fn check(&self, n: usize, obs_dim: usize) -> Result<()> {
        check_len("obs", self.obs.len(), n * obs_dim, "n_envs x obs_dim")?;
        check_len("rewards", self.rewards.len(), n, "n_envs")?;
        check_len("terminated", self.terminated.len(), n, "n_envs")?;
        check_len("truncated", self.truncated.len(), n, "n_envs")
    }

    fn split_at(self, rows: usize, obs_dim: usize) -> (Self, Self) {
        let (obs, obs_right) = self.obs.split_at_mut(rows * obs_dim);
        let (rewards, rewards_right) = self.rewards.split_at_mut(rows);
        let (terminated, terminated_right) = self.terminated.split_at_mut(rows);
        let (truncated, truncated_right) = self.truncated.split_at_mut(rows);
        (
            Self { obs, rewards, terminated, truncated },
            Self {
                obs: obs_right,
                rewards: rewards_right,
                terminated: terminated_right,
                truncated: truncated_right,
            },
        )
    }
}

/// The episodes that ended in the last step, in the order of the environments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EpisodeEnds<'a> {
    /// Environment indices, `[k]`, ascending.
    pub indices: &'a [usize],
    /// The last observation of each ended episode, `[k, obs_dim]`.
    pub obs: &'a [f32],
}

/// The observations that a step reached, for every environment.
pub struct DenseFinalObs<'a> {
    /// The observation that the step reached, `[n, obs_dim]`: the last one of an episode that
    /// ended, else the same as [`StepOut::obs`].
    pub obs: &'a mut [f32],
    /// Whether an episode ended, `[n]`.
    pub mask: &'a mut [bool],
}

impl DenseFinalObs<'_> {
    pub(super) fn check(&self, n: usize, obs_dim: usize) -> Result<()> {
        check_len("final_obs", self.obs.len(), n * obs_dim, "n_envs x obs_dim")?;
        check_len("final_mask", self.mask.len(), n, "n_envs")
    }

    fn split_at(self, rows: usize, obs_dim: usize) -> (Self, Self) {
        let (obs, obs_right) = self.obs.split_at_mut(rows * obs_dim);
        let (mask, mask_right) = self.mask.split_at_mut(rows);
        (Self { obs, mask }, Self { obs: obs_right, mask: mask_right })
    }
}

/// Inputs and outputs of a step of some environments.
pub(super) struct StepRows<'a> {
    pub(super) actions: Actions<'a>,
    pub(super) out: StepOut<'a>,
    pub(super) final_obs: Option<DenseFinalObs<'a>>,
}

impl StepRows<'_> {
    /// Splits off the first `rows` environments, or all if there are fewer.
    pub(super) fn split_at(self, rows: usize, spec: &Spec) -> (Self, Self) {
        let (obs_dim, action_dim) = (spec.observation.dim(), spec.action.dim());
        let rows = rows.min(self.out.rewards.len());
        let rest = self.out.rewards.len() - rows;
        let (out, right_out) = self.out.split_at(rows, obs_dim);
        let (last, right_last) = self.final_obs.map(|last| last.split_at(rows, obs_dim)).unzip();
        let actions = self.actions.rows(0, rows, action_dim);
        let right_actions = self.actions.rows(rows, rest, action_dim);
        (
            Self { actions, out, final_obs: last },
            Self { actions: right_actions, out: right_out, final_obs: right_last },
        )
    }
}
