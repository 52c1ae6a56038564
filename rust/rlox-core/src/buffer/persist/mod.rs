//! Saves and restores buffers: in files, as immutable segments that later saves share, or as a state
//! in memory. The same rules check the rows in both cases.

// Numbers in files are untrusted, so arithmetic that could overflow is denied.
#![deny(clippy::arithmetic_side_effects)]

mod archive;
mod check;
mod header;
mod load;
mod saving;
mod state;
mod whole;

pub(super) use archive::{Archive, NEWEST, archive_entries, check_name, open_segments};
pub use archive::{SaveReport, prune};
pub(super) use check::{RecordChecker, StackChecker};
pub(super) use header::{Header, check_layout};
pub(super) use load::{for_each_piece, item_ranges};
pub(super) use saving::PendingSegment;
pub use state::BufferState;
pub use whole::{BufferStorage, ColumnReader, InMemoryBuffer};
