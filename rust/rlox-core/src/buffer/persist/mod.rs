//! Saves and restores buffers, as immutable segments that later saves share or as a state in
//! memory. The same rules check the rows in both cases.

// Numbers in files are untrusted, so arithmetic that could overflow is denied.
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
