//! Unused blocks of memory, shared by all threads.
//!
//! This module does not depend on Python, and its lock is the `Mutex` of the crate's root module
//! `sync`: tests/shelf_model.rs replaces it by loom's and tries every order of the threads' steps.

use crate::sync::{Mutex, PoisonError};

/// Largest number of unused blocks; `take` and `give` search them all.
const MAX_BLOCKS: usize = 256;

/// Blocks with their sizes in bytes, in the order in which they were given back.
pub(crate) struct Shelf<B>(pub(crate) Mutex<Vec<(usize, B)>>);

impl<B> Shelf<B> {
    /// Removes and returns the last returned block of exactly `bytes` bytes.
    pub(crate) fn take(&self, bytes: usize) -> Option<B> {
        let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let index = blocks.iter().rposition(|(size, _)| *size == bytes);
        index.map(|place| blocks.remove(place).1)
    }

    /// Adds a block. Drops the oldest blocks until their number and total size are within the limits.
    pub(crate) fn give(&self, bytes: usize, block: B, max_bytes: usize) {
        let dropped_blocks: Vec<(usize, B)> = {
            let mut blocks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            blocks.push((bytes, block));
            let mut total: usize = blocks.iter().map(|(size, _)| size).sum();
            let mut n_dropped = 0;
            while total > max_bytes || blocks.len() - n_dropped > MAX_BLOCKS {
                total -= blocks.get(n_dropped).map_or(total, |(size, _)| *size);
                n_dropped += 1;
            }
            blocks.drain(..n_dropped).collect()
        };
        // The blocks are freed after the lock is released, because the system takes long to free
        // pages.
        drop(dropped_blocks);
    }
}
