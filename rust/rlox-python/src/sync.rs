//! The locks of modules that are tested under every order of threads; the tests replace them by
//! loom's.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, PoisonError};

/// Lets other threads run, for the time between two polls of a waiting thread.
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(100));
}
