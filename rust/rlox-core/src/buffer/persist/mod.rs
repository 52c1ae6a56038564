//! Saving buffers and bringing them back: as immutable segments that later saves share, or as a
//! state in memory. What comes back is checked by one set of rules, wherever it comes from.

// Numbers of files are anyone's: an operation that could overflow is not written.
#![deny(clippy::arithmetic_side_effects)]

mod archive;
mod check;
mod header;
mod load;
mod saving;
mod state;
mod whole;

pub(super) use archive::{Archive, NEWEST, check_name, entries, open_all};
pub use archive::{Saved, prune};
pub(super) use check::{Checker, StackChecker};
pub(super) use header::{Header, check_meta};
pub(super) use load::{items, pieces};
pub(super) use saving::Sealing;
pub use state::State;
pub use whole::{Columns, InMemory, Saveable};
