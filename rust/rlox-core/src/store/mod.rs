//! Every disk access: immutable checksummed segments, atomic replacement, one writer per folder.
//!
//! Files are read by position, never mapped: a file that shrinks under a reader is an error, not a
//! signal. Every byte of a file is covered by its length or a CRC-32, which finds each single
//! flipped bit and each burst of up to 32.

// Numbers of files are anyone's: an operation that could overflow is not written.
#![deny(clippy::arithmetic_side_effects)]

mod faulty;
mod folder;
mod fs;
mod header;
mod lock;
mod manifest;
mod segment;

pub use faulty::FaultyFs;
pub use folder::{Folder, Leftovers};
pub(crate) use folder::{open_segment, read_manifest};
pub use fs::{Fs, NewFile, RandomRead, RealFs};
pub use header::{Column, ColumnPlan};
pub use lock::after_fork_in_child;
pub use manifest::{Manifest, SegmentRef};
pub use segment::{Segment, SegmentWriter, write_segment};
