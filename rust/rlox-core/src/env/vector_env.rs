//! A batch of environments of any kind, native ones or those of a server.

use super::{Actions, EpisodeEnds, Spec, StepOut};
use crate::error::Result;
use crate::space::{ActionSpace, BoxSpace};

/// The fixed properties of an environment, owned. A client builds them from its server's reply.
#[derive(Debug, Clone, PartialEq)]
pub struct EnvSpec {
    /// The environment's id.
    pub id: String,
    /// Steps after which an episode is truncated; `None` without a time limit.
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

/// N environments that step together, with SAME_STEP autoreset. An environment whose episode ends
/// starts the next one within the same step. [`VectorEnv::episode_ends`] has the last observation of the
/// ended episode.
///
/// Slices belong to the caller; row i belongs to environment i. A call that fails leaves the
/// environments unchanged.
pub trait VectorEnv: Send {
    /// Returns the fixed properties of the environments.
    fn spec(&self) -> &EnvSpec;

    /// Returns N.
    fn n_envs(&self) -> usize;

    /// Starts a new episode in every environment and writes the first observations, `[n, obs_dim]`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for another length; errors of the environments.
    fn reset(&mut self, obs: &mut [f32]) -> Result<()>;

    /// Steps every environment once.
    ///
    /// # Errors
    /// [`crate::Error::Shape`], [`crate::Error::Config`] (wrong kind of actions),
    /// [`crate::Error::Action`] or [`crate::Error::NonFinite`]; errors of the environments.
    fn step(&mut self, actions: Actions<'_>, out: StepOut<'_>) -> Result<()>;

    /// Returns the episodes that ended in the last step.
    fn episode_ends(&self) -> EpisodeEnds<'_>;

    /// Writes the current observations, `[n, obs_dim]`.
    ///
    /// # Errors
    /// [`crate::Error::Shape`] for another length.
    fn observe(&self, obs: &mut [f32]) -> Result<()>;

    /// Returns everything needed to continue exactly here, in the environments' own format.
    ///
    /// # Errors
    /// If the environments cannot be saved.
    fn snapshot(&self) -> Result<Vec<u8>>;

    /// Continues from a [`VectorEnv::snapshot`] of environments of the same kind and number.
    ///
    /// # Errors
    /// [`crate::Error::Snapshot`] for bytes of another environment, or for damaged bytes.
    fn restore(&mut self, snapshot: &[u8]) -> Result<()>;
}
