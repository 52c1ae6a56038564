//! Memory of large results, used again.
//!
//! The C library returns freed blocks of this size to the system, so a call that makes a fresh
//! result touches pages that the system has to provide and clear first: for two arrays of 32,768
//! float64 that takes four times as long as the computation. Blocks handed back here keep their pages.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;

use crate::shelf::Shelf;

/// Results from this many bytes on come from here; the C library keeps smaller blocks itself.
pub(crate) const POOLED_FROM: usize = 1 << 15;

/// Larger results are left to NumPy: they are rare, and keeping them would cost memory.
const POOLED_TO: usize = 1 << 25;

/// Bytes that wait for their next use, at most.
const MOST_KEPT: usize = 1 << 26;

/// Blocks waiting for their next use.
static KEPT: Shelf<Vec<u64>> = Shelf(Mutex::new(Vec::new()));

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
        let block = KEPT.take(words * size_of::<u64>());
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
        KEPT.give(block.len() * size_of::<u64>(), block, MOST_KEPT);
    }
}
