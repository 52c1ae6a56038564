#![doc = include_str!("../README.md")]
#![allow(clippy::expect_used, clippy::missing_panics_doc)]

mod buffers;
mod disk;
mod draft;
mod environments;
mod policies;
mod readers;

pub use buffers::{valid_drafts, valid_states};
pub use draft::{Draft, DraftColumn};
pub use environments::valid_snapshots;
pub use policies::valid_descriptions;
pub use readers::{check_valid_drafts, valid_files};

/// Reads a segment file.
pub fn segment(data: &[u8]) {
    check_memory(|| readers::read_segment(&set_length(data)));
}

/// Reads a manifest file.
pub fn manifest(data: &[u8]) {
    check_memory(|| readers::read_manifest(&set_length(data)));
}

/// Loads the saved buffer that a [`Draft`] describes.
pub fn replay(data: &[u8]) {
    check_memory(|| readers::open(&Draft::from_bytes(data)));
}

/// Restores a buffer from the state that a [`Draft`] describes.
pub fn state(data: &[u8]) {
    check_memory(|| readers::restore(&Draft::from_bytes(data)));
}

/// Restores a snapshot of environments; `data` has no checksum.
pub fn snapshot(data: &[u8]) {
    check_memory(|| environments::restore(data));
}

/// Reads an exported policy and runs it.
pub fn policy(data: &[u8]) {
    check_memory(|| policies::run_policy(data));
}

/// Runs a policy. The first byte selects a policy's tensors, and the rest is its description.
pub fn description(data: &[u8]) {
    check_memory(|| policies::run_described(data));
}

/// Bytes of memory that a reader may hold, with the buffer that it fills, for an input of some
/// kilobytes.
const MEMORY_LIMIT: u64 = 16 << 20;

/// Runs a reader, and panics if it takes more memory than the limit.
fn check_memory(read: impl FnOnce()) {
    let max_bytes = allocation_counter::measure(read).bytes_max;
    assert!(max_bytes <= MEMORY_LIMIT, "{max_bytes} bytes were held at once");
}

/// Writes the length of the file into its head, because few inputs would have the right one.
fn set_length(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let length = bytes.len() as u64;
    if let Some(length_field) = bytes.get_mut(16..24) {
        length_field.copy_from_slice(&length.to_le_bytes());
    }
    bytes
}
