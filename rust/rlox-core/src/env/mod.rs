//! Native environments and the batch that steps them.
//!
//! An environment is one file with the rules ([`Env`]) and one line in [`registry`]. [`VecEnv`]
//! does what is the same for all: streams, time limits, autoreset, final observations, snapshots.

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
pub use step::{DenseFinals, Finals, StepOut};
pub use vec_env::{MAX_ENVS, PARALLEL_FROM, SHARD, Tiling, VecEnv};

pub use crate::math::Float;

use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

/// What is fixed about an environment.
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
    /// About how many nanoseconds a step of one environment takes: a long batch gives other
    /// threads of Python their turn.
    pub nanoseconds: usize,
}

/// The rules of an environment over struct-of-arrays state of type `F`.
///
/// State comes in blocks of up to [`BLOCK`] environments, `[state_dim, rows]`: one contiguous column per
/// state variable ([`columns`]), so that loops over rows vectorise. All slices passed in have the
/// lengths named here. Rules written once for any [`Float`] give both precisions.
///
/// Blocks are stepped inside a function that is compiled for several kinds of CPU; what is marked
/// `#[inline(always)]` becomes part of it. Nothing may depend on which rows share a block.
pub trait Env<F: Float = f64>: Send + Sync {
    /// The fixed facts.
    fn spec(&self) -> &'static Spec;

    /// Draws the start state of one episode into `state`, `[state_dim]`.
    fn start(&self, stream: &mut Stream, state: &mut [F]);

    /// Advances every row by one action: s_t -> s_{t+1}, r_t, and whether s_{t+1} is terminal.
    ///
    /// `state` is `[state_dim, rows]`, `actions` `[rows]` or `[rows, action_dim]` and valid,
    /// `rewards` and `terminated` are `[rows]` and hold anything; both are to be written.
    fn step(
        &self,
        state: &mut [F],
        actions: Actions<'_>,
        rewards: &mut [f64],
        terminated: &mut [bool],
    );

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

/// The float32 nearest to a float64, as NumPy's `astype(float32)`.
#[expect(clippy::cast_possible_truncation, reason = "bounds are float32 by contract")]
const fn single(value: f64) -> f32 {
    value as f32
}
