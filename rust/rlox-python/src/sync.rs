//! Locks and atomics of the modules whose tests run every order of their threads. In these tests
//! loom's locks and atomics replace those of this module.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use std::sync::{Mutex, PoisonError};

/// Lets other threads run, for the time between two polls of a waiting thread.
pub(crate) fn pause() {
    std::thread::sleep(std::time::Duration::from_micros(100));
}
