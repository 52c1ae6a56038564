//! Environments of any kind, native or behind a network, stepped as one batch.

use super::{Actions, Finals, Spec, StepOut};
use crate::error::Result;
use crate::space::{ActionSpace, BoxSpace};

/// What is fixed about an environment, owned: a client builds it from what its server says.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvSpec {
    /// The environment's id.
    pub id: String,
    /// Steps after which an episode is truncated; None if its rules alone decide.
    pub max_episode_steps: Option<u32>,
    /// Bounds of the float32 observation.
    pub observation: BoxSpace<Vec<f32>>,
    /// The accepted actions.
    pub action: ActionSpace<Vec<f32>>,
}

impl From<&Spec> for EnvSpec {
    fn from(spec: &Spec) -> Self {
        Self {
            id: spec.id.to_owned(),
            max_episode_steps: Some(spec.max_episode_steps),
            observation: spec.observation.to_owned_bounds(),
            action: spec.action.to_owned_bounds(),
        }
    }
}

/// N environments stepped together, with SAME_STEP autoreset: one whose episode ends starts its next
/// within the same step, and the ended one's last observation is in [`VectorEnv::finals`].
///
/// Slices belong to the caller; their rows follow the environments. A call that fails leaves the
/// environments as before.
pub trait VectorEnv: Send {
    /// What is fixed about every one of them.
    fn spec(&self) -> &EnvSpec;

    /// N.
    fn n_envs(&self) -> usize;

    /// Starts a new episode everywhere and writes the first observations, `[n, obs_dim]`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for another length; whatever the environments refuse.
    fn reset(&mut self, obs: &mut [f32]) -> Result<()>;

    /// Steps every environment once.
    ///
    /// # Errors
    /// [`crate::Error::Shape`], [`crate::Error::Config`] (wrong kind of actions),
    /// [`crate::Error::Action`] or [`crate::Error::NonFinite`]; whatever the environments refuse.
    fn step(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()>;

    /// The episodes that ended in the last step.
    fn finals(&self) -> Finals<'_>;

    /// Writes the current observations, `[n, obs_dim]`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for another length.
    fn observe(&self, obs: &mut [f32]) -> Result<()>;

    /// Everything needed to continue exactly here, in a format of the environments' own.
    ///
    /// # Errors
    /// Whatever keeps them from being saved.
    fn snapshot(&self) -> Result<Vec<u8>>;

    /// Continues from a [`VectorEnv::snapshot`] of environments of the same kind and number.
    ///
    /// # Errors
    /// [`crate::Error::Snapshot`] for bytes of another environment, or that are damaged.
    fn restore(&mut self, snapshot: &[u8]) -> Result<()>;
}
