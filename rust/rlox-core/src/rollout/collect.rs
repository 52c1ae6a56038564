//! Collects rollouts into an arena.

use super::arena::Arena;
use super::columns::{RolloutKey, row_mut};
use crate::advantage::Discount;
use crate::env::vector_env::VectorEnv;
use crate::error::{Error, Result};
use crate::policy::Policy;

impl Arena {
    /// Collects T steps of every environment, then computes the values of final observations, and the
    /// advantages.
    ///
    /// The first call resets the environments; episodes continue across calls. The noise is that of
    /// [`super::noise`].
    ///
    /// # Errors
    /// [`Error::Config`] for environments of another kind or number; [`Error::NonFinite`] for NaN
    /// or infinity in the collected numbers; [`Error::Interrupted`]; errors of environments and
    /// policy. After an error the next call continues from the present state of the environments,
    /// and the steps of this call are lost.
    pub fn collect(
        &mut self,
        envs: &mut dyn VectorEnv,
        policy: &dyn Policy,
        run_seed: u64,
        discount: Discount,
    ) -> Result<()> {
        self.check(envs)?;
        self.start(envs)?;
        let key = RolloutKey { seed: run_seed, rollout: self.progress.rollouts };
        self.progress.rollouts += 1;
        let n_envs = self.n_envs;
        let (mut columns, ends_and_scratch, progress, out) = self.split_mut();
        columns.collect(envs, policy, key, &mut progress.running(), ends_and_scratch)?;
        columns.check_finite()?;
        columns.estimate(n_envs, discount, out)
    }

    fn check(&self, envs: &dyn VectorEnv) -> Result<()> {
        let spec = envs.spec();
        let expected_dims = (self.n_envs, self.obs_dim, self.action_dim);
        let actual_dims = (envs.n_envs(), spec.observation.dim(), spec.action.dim());
        if expected_dims == actual_dims {
            return Ok(());
        }
        let got = format!("{actual_dims:?} for {}", spec.id);
        Err(Error::config("(n_envs, obs_dim, action_dim)", got, format!("{expected_dims:?} as in the arena")))
    }

    /// Writes the present observations of the environments to row 0.
    fn start(&mut self, envs: &mut dyn VectorEnv) -> Result<()> {
        let width = self.n_envs * self.obs_dim;
        if self.has_started {
            self.obs.copy_within(self.n_steps * width.., 0);
        } else {
            envs.reset(row_mut(&mut self.obs, 0, width))?;
            self.has_started = true;
        }
        Ok(())
    }
}
