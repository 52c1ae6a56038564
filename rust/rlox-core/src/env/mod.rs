//! Native environments and the batch that steps them.
//!
//! An environment is one file with the rules ([`Env`]) and one line in [`registry`]. [`VecEnv`]
//! does the work that all environments share: streams, time limits, autoreset, final observations,
//! snapshots.

mod acrobot;
mod actions;
pub mod angles;
mod batch;
mod block;
mod cartpole;
mod clock;
mod mountain_car;
mod mountain_car_continuous;
mod native;
mod pendulum;
mod precision;
pub mod registry;
mod seeding;
mod shard;
mod snapshot;
mod snapshot_bytes;
mod step;
mod undo;
mod vec_env;
pub(crate) mod vector_env;

pub use actions::Actions;
pub use block::BLOCK;
pub use precision::Precision;
pub use seeding::Seeding;
pub use snapshot::Snapshot;
pub use step::{DenseFinalObs, EpisodeEnds, StepOut};
pub use vec_env::{MAX_ENVS, PARALLEL_FROM, SHARD_SIZE, Tiling, VecEnv};

pub use crate::math::Float;

use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

/// The fixed properties of an environment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spec {
    /// Gymnasium's id.
    pub id: &'static str,
    /// Steps after which Gymnasium's `TimeLimit` truncates an episode.
    pub max_episode_steps: u32,
    /// Numbers in the state of one environment.
    pub state_dim: usize,
    /// Bounds of the float32 observation.
    pub observation: BoxSpace,
    /// The accepted actions.
    pub action: ActionSpace,
    /// Approximate nanoseconds per step of one environment. They decide whether a step of the batch
    /// is long work, which can be interrupted and lets other Python threads run.
    pub nanoseconds_per_step: usize,
}

/// The rules of an environment over struct-of-arrays state of type `F`.
///
/// State comes in blocks of up to [`BLOCK`] environments, `[state_dim, rows]`: one contiguous
/// column per state variable ([`columns`]), so that loops over rows vectorise. All slice arguments
/// have the lengths named here. An implementation that is generic over [`Float`] has both precisions.
///
/// Blocks are stepped inside a function that is compiled for several kinds of CPU. Functions marked
/// `#[inline(always)]` become part of it. No result may depend on which rows share a block.
pub trait Env<F: Float = f64>: Send + Sync {
    /// Returns the fixed properties.
    fn spec(&self) -> &'static Spec;

    /// Draws the start state of one episode into `state`, `[state_dim]`.
    fn start(&self, stream: &mut Stream, state: &mut [F]);

    /// Advances every row by one action: s_t -> s_{t+1}, r_t, and whether s_{t+1} is terminal.
    ///
    /// `state` is `[state_dim, rows]`. `actions` is `[rows]` or `[rows, action_dim]` and valid.
    /// `rewards` and `terminated` are `[rows]`, hold arbitrary values, and must be written.
    fn step(&self, state: &mut [F], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]);

    /// Writes the observations of `state`, `[state_dim, rows]`, into `obs`, `[rows, obs_dim]`.
    fn observe(&self, state: &[F], rows: usize, obs: &mut [f32]);
}

/// Splits `[D, rows]` into its columns.
#[inline]
pub fn columns<const D: usize, T>(state: &[T], rows: usize) -> [&[T]; D] {
    let mut columns = state.chunks_exact(rows.max(1));
    std::array::from_fn(|_| columns.next().unwrap_or_default())
}

/// Splits `[D, rows]` into its mutable columns.
#[inline]
pub fn columns_mut<const D: usize, T>(state: &mut [T], rows: usize) -> [&mut [T]; D] {
    let mut columns = state.chunks_exact_mut(rows.max(1));
    std::array::from_fn(|_| columns.next().unwrap_or_default())
}

/// Returns the float32 nearest to a float64, as NumPy's `astype(float32)` does.
#[expect(clippy::cast_possible_truncation, reason = "bounds are float32 by contract")]
const fn to_f32(value: f64) -> f32 {
    value as f32
}
