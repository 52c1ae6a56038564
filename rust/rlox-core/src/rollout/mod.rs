//! Rollouts for on-policy learning: one time-major memory that is filled in place, with advantages
//! that are exact at every end of an episode.
//!
//! Environments write the observations and flags of a step directly into the columns. The first
//! observation of a new episode takes the place of the last one of the ended episode, so a list of
//! the ends holds the last observations. There is no bootstrap after termination. After truncation
//! the value of the final observation is used, never that of the reset state. Both termination and
//! truncation end the sum of TD errors that makes an advantage.
//!
//! A [`TransitionChunk`] holds steps for a replay buffer, from which off-policy algorithms learn.

mod arena;
mod collect;
mod columns;
mod episodes;
mod estimate;
mod transition_chunk;

pub use arena::{ActionColumn, Arena};
pub use columns::{Columns, EndPosition, RolloutEnds, RolloutKey, Scratch, noise};
pub use episodes::{Episode, RolloutProgress, RunningEpisodes};
pub use transition_chunk::{ActionBounds, ExplorationPolicy, TransitionChunk};
