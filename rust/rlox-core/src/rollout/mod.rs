//! Rollouts for on-policy learning: one time-major memory, filled in place, with advantages that are
//! exact at every end of an episode.
//!
//! Environments write the observations of step t + 1 and its flags where they stay. Last observations
//! of ended episodes, which the next ones' first take the place of, are in a sparse table beside. No
//! bootstrap after termination; the final observation's value after truncation, never the reset
//! state's; the trace cut at both.
//!
//! A [`Stretch`] is steps for a replay buffer, which learning off-policy draws from.

mod arena;
mod collect;
mod columns;
mod episodes;
mod estimate;
mod stretch;

pub use arena::{ActionColumn, Arena};
pub use columns::{Columns, Ended, Final, Key, Scratch, noise};
pub use episodes::{Episode, Progress, Running};
pub use stretch::{Bounds, Explore, Stretch};
