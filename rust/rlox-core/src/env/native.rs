//! Implements [`VectorEnv`] for the batch of native environments.

use super::vector_env::{EnvSpec, VectorEnv};
use super::{Actions, EpisodeEnds, Snapshot, StepOut, VecEnv};
use crate::error::{Result, check_len};

impl VectorEnv for VecEnv {
    fn spec(&self) -> &EnvSpec {
        self.owned_spec()
    }

    fn n_envs(&self) -> usize {
        self.n_envs()
    }

    fn reset(&mut self, obs: &mut [f32]) -> Result<()> {
        let dim = self.obs_dim();
        check_len("obs", obs.len(), self.n_envs() * dim, "n_envs x obs_dim")?;
        self.reset_all()?;
        self.observe_into(obs)
    }

    fn step(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()> {
        self.step_into(actions, out)
    }

    fn episode_ends(&self) -> EpisodeEnds<'_> {
        self.episode_ends()
    }

    fn observe(&self, obs: &mut [f32]) -> Result<()> {
        self.observe_into(obs)
    }

    fn snapshot(&self) -> Result<Vec<u8>> {
        self.snapshot().map(|saved| saved.to_bytes())
    }

    fn restore(&mut self, snapshot: &[u8]) -> Result<()> {
        self.restore(&Snapshot::from_bytes(snapshot)?)
    }
}
