#![doc = include_str!("../README.md")]
#![allow(clippy::expect_used, clippy::missing_panics_doc)]

mod buffers;
mod disk;
mod draft;
mod environments;
mod policies;
mod tries;

pub use buffers::{honest_drafts, honest_states};
pub use draft::{Draft, DraftColumn};
pub use environments::honest_snapshots;
pub use policies::honest_descriptions;
pub use tries::{check_honest, honest_files};

/// Reads a segment file.
pub fn segment(data: &[u8]) {
    frugal(|| tries::read_segment(&sized(data)));
}

/// Reads a manifest file.
pub fn manifest(data: &[u8]) {
    frugal(|| tries::read_manifest(&sized(data)));
}

/// Opens a [`Draft`] of a folder with a saved buffer.
pub fn replay(data: &[u8]) {
    frugal(|| tries::open(&Draft::of(data)));
}

/// Restores a [`Draft`] of the state of a buffer.
pub fn state(data: &[u8]) {
    frugal(|| tries::restore(&Draft::of(data)));
}

/// Restores a snapshot of environments; `data` has no checksum.
pub fn snapshot(data: &[u8]) {
    frugal(|| environments::restore(data));
}

/// Reads an exported policy and runs it.
pub fn policy(data: &[u8]) {
    frugal(|| policies::play(data));
}

/// Runs a policy. The first byte selects a policy's tensors, and the rest is its description.
pub fn description(data: &[u8]) {
    frugal(|| policies::play_described(data));
}

/// Bytes of memory that a reader may take for an input of some kilobytes and the buffer that it
/// fills.
const MEMORY: u64 = 16 << 20;

/// Runs a reader, and panics if it takes more memory than the limit.
fn frugal(read: impl FnOnce()) {
    let most = allocation_counter::measure(read).bytes_max;
    assert!(most <= MEMORY, "{most} bytes were held at once");
}

/// Writes the length of the file into its head, because few inputs would have the right one.
fn sized(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let length = bytes.len() as u64;
    if let Some(place) = bytes.get_mut(16..24) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    bytes
}
