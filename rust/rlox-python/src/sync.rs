//! The locks of what is tested under every order of threads: a test puts loom's in this place.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, PoisonError};

/// Lets other threads go on, for as long as those that wait for them sleep between two looks.
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(100));
}
