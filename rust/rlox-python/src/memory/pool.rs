//! Memory of large results, used again.
//!
//! The C library returns large freed blocks to the system, so a call that makes a fresh result touches
//! pages that the system has to provide and clear first: for two arrays of 32,768 float64 that takes
//! four times as long as the computation. Blocks handed back here keep their pages, and were zeroed
//! once.

use std::sync::{Mutex, PoisonError};

use memmap2::MmapMut;
use pyo3::prelude::*;

use super::shelf::Shelf;

/// Results from this many bytes on come from here; smaller ones are zeroed sooner than lent.
const POOLED_FROM: usize = 1 << 13;

/// Results that do not come from here, such as flags, are zeroed by NumPy from this many bytes on.
pub(crate) const ZEROED_TO: usize = 1 << 15;

/// Larger results are left to NumPy: they are rare, and keeping them would cost memory.
const POOLED_TO: usize = 1 << 26;

/// Bytes that wait for their next use, at most: the results of a step of two million environments.
const MOST_KEPT: usize = 1 << 27;

/// Blocks from here on are mappings of their own, which wish for huge pages: one touch instead of
/// 512 provides 2 MiB.
const HUGE_PAGE: usize = 1 << 21;

/// Blocks waiting for their next use.
static KEPT: Shelf<Block> = Shelf(Mutex::new(Vec::new()));

/// Memory aligned for 8 bytes.
enum Block {
    Heap(Vec<u64>),
    Mapped(MmapMut),
}

impl Block {
    /// Of so many bytes, a multiple of 8.
    fn of(bytes: usize) -> Self {
        if bytes >= HUGE_PAGE
            && let Ok(pages) = MmapMut::map_anon(bytes)
        {
            // A wish; without huge pages the block is as good as any other.
            #[cfg(target_os = "linux")]
            drop(pages.advise(memmap2::Advice::HugePage));
            return Self::Mapped(pages);
        }
        Self::Heap(vec![0; bytes / size_of::<u64>()])
    }

    fn len(&self) -> usize {
        match self {
            Self::Heap(words) => words.len() * size_of::<u64>(),
            Self::Mapped(pages) => pages.len(),
        }
    }

    fn address(&mut self) -> *mut u8 {
        match self {
            Self::Heap(words) => words.as_mut_ptr().cast(),
            Self::Mapped(pages) => pages.as_mut_ptr(),
        }
    }
}

/// A block of memory, lent to one array; returns when the array is gone.
#[pyclass(name = "_Lease", module = "rlox._core", frozen)]
pub(crate) struct Lease {
    block: Mutex<Block>,
}

impl Lease {
    /// A block of at least `bytes` with unspecified contents, None for sizes that are not pooled.
    #[inline]
    pub(crate) fn of(bytes: usize) -> Option<Self> {
        if !(POOLED_FROM..=POOLED_TO).contains(&bytes) {
            return None;
        }
        // Few sizes, so that blocks fit again: eight steps between powers of two.
        let step = (bytes.next_power_of_two() / 16).max(size_of::<u64>());
        let size = bytes.div_ceil(step) * step;
        let block = KEPT.take(size).unwrap_or_else(|| Block::of(size));
        Some(Self { block: Mutex::new(block) })
    }

    /// Address of the block's first byte; it stays the same as long as the lease lives.
    pub(crate) fn address(&self) -> *mut u8 {
        self.block.lock().unwrap_or_else(PoisonError::into_inner).address()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let block = self.block.get_mut().unwrap_or_else(PoisonError::into_inner);
        let block = std::mem::replace(block, Block::Heap(Vec::new()));
        KEPT.give(block.len(), block, MOST_KEPT);
    }
}
