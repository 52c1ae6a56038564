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

/// The bytes of a segment file.
pub fn segment(data: &[u8]) {
    frugal(|| tries::read_segment(&sized(data)));
}

/// The bytes of a manifest file.
pub fn manifest(data: &[u8]) {
    frugal(|| tries::read_manifest(&sized(data)));
}

/// A [`Draft`] of a folder with a saved buffer.
pub fn replay(data: &[u8]) {
    frugal(|| tries::open(&Draft::of(data)));
}

/// A [`Draft`] of the state of a buffer.
pub fn state(data: &[u8]) {
    frugal(|| tries::restore(&Draft::of(data)));
}

/// The bytes of a snapshot of environments, without its checksum.
pub fn snapshot(data: &[u8]) {
    frugal(|| environments::restore(data));
}

/// The bytes of an exported policy.
pub fn policy(data: &[u8]) {
    frugal(|| policies::play(data));
}

/// A byte that says which policy's tensors, and the text that describes it.
pub fn description(data: &[u8]) {
    frugal(|| policies::play_described(data));
}

/// Memory that a reader may take for an input, which has some kilobytes, and for the buffer that it fills.
const MEMORY: u64 = 16 << 20;

/// Runs a reader, and fails if it takes more than [`MEMORY`].
fn frugal(read: impl FnOnce()) {
    let most = allocation_counter::measure(read).bytes_max;
    assert!(most <= MEMORY, "{most} bytes were held at once");
}

/// The file with the length that it has written into its head, which else few would have.
fn sized(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let length = bytes.len() as u64;
    if let Some(place) = bytes.get_mut(16..24) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    bytes
}
