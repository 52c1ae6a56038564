//! Blocks of memory that wait for their next use, shared by all threads.
//!
//! Nothing here knows Python, and the lock is the `Mutex` of the crate's root module `sync`:
//! tests/shelf_model.rs puts loom's in its place and tries every order of the threads' steps.

use crate::sync::{Mutex, PoisonError};

/// Blocks that wait, at most: each that is taken or given looks at them all.
const MOST_BLOCKS: usize = 256;

/// Blocks and their bytes, the last returned last.
pub(crate) struct Shelf<B>(pub(crate) Mutex<Vec<(usize, B)>>);

impl<B> Shelf<B> {
    /// A block of exactly so many bytes, the one returned last.
    pub(crate) fn take(&self, bytes: usize) -> Option<B> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().rposition(|(size, _)| *size == bytes);
        found.map(|place| kept.remove(place).1)
    }

    /// Puts a block back; the oldest go until all together are few and have at most `most` bytes.
    pub(crate) fn give(&self, bytes: usize, block: B, most: usize) {
        let gone: Vec<(usize, B)> = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            kept.push((bytes, block));
            let mut total: usize = kept.iter().map(|(size, _)| size).sum();
            let mut oldest = 0;
            while total > most || kept.len() - oldest > MOST_BLOCKS {
                total -= kept.get(oldest).map_or(total, |(size, _)| *size);
                oldest += 1;
            }
            kept.drain(..oldest).collect()
        };
        // Freed when others can have the lock again: the system takes its time with pages.
        drop(gone);
    }
}
