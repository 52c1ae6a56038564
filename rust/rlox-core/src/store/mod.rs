//! All disk access: immutable segments with checksums, atomic replacement, one writer per folder.
//!
//! Files are read by position, never mapped, so a file that shrinks under a reader causes an error
//! and no signal. The stored length or a CRC-32 covers every byte of a file. CRC-32 detects each
//! single flipped bit and each burst of up to 32 bits.

// A file can hold any number, so this module has no operation that could overflow.
#![deny(clippy::arithmetic_side_effects)]

#[cfg(feature = "fault-injection")]
mod faulty;
mod folder;
mod fs;
mod header;
mod lock;
mod manifest;
mod segment;

#[cfg(feature = "fault-injection")]
pub use faulty::FaultyFs;
pub use folder::{Folder, RemovedFiles};
pub(crate) use folder::{open_segment, read_manifest};
pub use fs::{Fs, NewFile, RandomRead, RealFs};
pub use header::{Column, ColumnPlan};
pub use lock::after_fork_in_child;
pub use manifest::{Manifest, SegmentRef};
pub use segment::{Segment, SegmentWriter, write_segment};
