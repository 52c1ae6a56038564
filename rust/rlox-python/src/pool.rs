//! Memory of large results, used again.
//!
//! The C library returns freed blocks of this size to the system, so a call that makes a fresh
//! result touches pages that the system has to provide and clear first: for two arrays of 32,768
//! float64 that takes four times as long as the computation. Blocks handed back here keep their pages.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

/// Results from this many bytes on come from here; the C library keeps smaller blocks itself.
pub(crate) const POOLED_FROM: usize = 1 << 15;

/// Larger results are left to NumPy: they are rare, and keeping them would cost memory.
const POOLED_TO: usize = 1 << 25;

/// Bytes that wait for their next use, at most.
const MOST_KEPT: usize = 1 << 26;

/// Blocks waiting for their next use, the last returned last.
static KEPT: Mutex<Vec<Vec<u64>>> = Mutex::new(Vec::new());

/// A block of memory, lent to one array; returns when the array is gone.
#[pyclass(name = "_Lease", module = "rlox._core", frozen)]
pub(crate) struct Lease {
    block: Mutex<Vec<u64>>,
}

impl Lease {
    /// A block of at least `bytes` with unspecified contents, None for sizes that are not pooled.
    pub(crate) fn of(bytes: usize) -> Option<Self> {
        if !(POOLED_FROM..=POOLED_TO).contains(&bytes) {
            return None;
        }
        // Few sizes, so that blocks fit again: eight steps between powers of two.
        let words = bytes.div_ceil(size_of::<u64>());
        let step = (words.next_power_of_two() / 16).max(1);
        let words = words.div_ceil(step) * step;
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept.iter().rposition(|block| block.len() == words);
        let block = found.map(|place| kept.remove(place));
        drop(kept);
        Some(Self { block: Mutex::new(block.unwrap_or_else(|| vec![0; words])) })
    }

    /// Address of the block's first byte; it stays the same as long as the lease lives.
    pub(crate) fn address(&self) -> *mut u64 {
        self.block.lock().unwrap_or_else(PoisonError::into_inner).as_mut_ptr()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let block = self.block.get_mut().unwrap_or_else(PoisonError::into_inner);
        let block = std::mem::take(block);
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(block);
        let mut bytes: usize = kept.iter().map(|block| block.len() * size_of::<u64>()).sum();
        let mut oldest = 0;
        while bytes > MOST_KEPT {
            bytes -= kept.get(oldest).map_or(bytes, |block| block.len() * size_of::<u64>());
            oldest += 1;
        }
        kept.drain(..oldest);
    }
}
