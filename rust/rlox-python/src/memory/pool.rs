//! Reuse of memory for large results.
//!
//! The C library returns large freed blocks to the system. A call that makes a new result then
//! touches pages that the system has to provide and clear first. For two arrays of 32,768 float64
//! that takes four times as long as computing their numbers. Blocks of this pool keep their pages and are
//! zeroed only once.

use std::sync::{Mutex, PoisonError};

use memmap2::MmapMut;
use pyo3::prelude::*;

use super::shelf::Shelf;

/// Smallest pooled result in bytes. A smaller one is zeroed in less time than the pool needs.
const MIN_POOLED_BYTES: usize = 1 << 13;

/// Results that are not pooled, such as flags, are zeroed by NumPy from this many bytes on.
pub(crate) const NUMPY_ZEROED_FROM: usize = 1 << 15;

/// Largest pooled result in bytes. Larger ones are rare, and keeping them would cost memory.
const MAX_POOLED_BYTES: usize = 1 << 26;

/// Largest total size of the unused blocks in bytes: the results of a step of two million
/// environments.
const MAX_UNUSED_BYTES: usize = 1 << 27;

/// Blocks from this size on are mappings of their own, which ask for huge pages: one touch instead
/// of 512 provides 2 MiB.
const HUGE_PAGE_BYTES: usize = 1 << 21;

/// Unused blocks.
static UNUSED_BLOCKS: Shelf<Block> = Shelf(Mutex::new(Vec::new()));

/// Memory that is aligned for 8 bytes.
enum Block {
    Heap(Vec<u64>),
    Mapped(MmapMut),
}

impl Block {
    /// Allocates `bytes` bytes, a multiple of 8.
    fn allocate(bytes: usize) -> Self {
        if bytes >= HUGE_PAGE_BYTES
            && let Ok(pages) = MmapMut::map_anon(bytes)
        {
            // This is only advice; the block also works without huge pages.
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

/// A block of memory that one array uses. It returns to the pool when the array is gone.
#[pyclass(name = "_Lease", module = "rlox._core", frozen)]
pub(crate) struct Lease {
    block: Mutex<Block>,
}

impl Lease {
    /// Returns a block of at least `bytes` with unspecified contents; None for sizes that are not
    /// pooled.
    #[inline]
    pub(crate) fn take(bytes: usize) -> Option<Self> {
        if !(MIN_POOLED_BYTES..=MAX_POOLED_BYTES).contains(&bytes) {
            return None;
        }
        // Few different sizes make reuse likely: there are eight between two powers of two.
        let step = (bytes.next_power_of_two() / 16).max(size_of::<u64>());
        let size = bytes.div_ceil(step) * step;
        let block = UNUSED_BLOCKS.take(size).unwrap_or_else(|| Block::allocate(size));
        Some(Self { block: Mutex::new(block) })
    }

    /// Returns the address of the block's first byte. It does not change while the lease lives.
    pub(crate) fn address(&self) -> *mut u8 {
        self.block.lock().unwrap_or_else(PoisonError::into_inner).address()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let block = self.block.get_mut().unwrap_or_else(PoisonError::into_inner);
        let block = std::mem::replace(block, Block::Heap(Vec::new()));
        UNUSED_BLOCKS.give(block.len(), block, MAX_UNUSED_BYTES);
    }
}
