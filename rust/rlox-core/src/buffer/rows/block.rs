//! Blocks of memory that live long while other allocations come and go.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// A block of at least this many bytes has its own memory pages.
const MAPPED_FROM: usize = 128 << 10;

/// Size of a huge page in bytes.
///
/// Rows that are drawn from all parts of a large buffer miss the processor's page table cache each
/// time. With huge pages the cache covers enough memory (32 rows of 226 kB out of 115 MB are copied 1.1
/// times as fast).
const HUGE_PAGE: usize = 2 << 20;

/// Bytes that are zero at first.
///
/// Large blocks come from the system and not from the allocator. A training loop allocates and
/// frees batches, and blocks of a megabyte between them leave gaps of all sizes in the heap (a
/// buffer of images that was pushed in batches took a third more memory). Freed blocks there also
/// stay with the process.
#[derive(Debug)]
pub(super) enum Block {
    /// Memory of the allocator.
    Heap(Box<[u8]>),
    /// Pages of the system, which provides them at the first write, and the number of bytes in use.
    Mapped(MmapMut, usize),
}

impl Block {
    /// Makes a block of `size` bytes.
    pub(super) fn zeroed(size: usize) -> Self {
        let huge_bytes = size - size % HUGE_PAGE;
        // Systems align a mapping to huge pages if its length is a multiple of one.
        let length = if huge_bytes > 0 { size.next_multiple_of(HUGE_PAGE) } else { size };
        if size >= MAPPED_FROM
            && let Ok(pages) = MmapMut::map_anon(length)
        {
            // The system may ignore this advice. The last part has small pages, because a huge page
            // would be allocated as a whole.
            #[cfg(target_os = "linux")]
            drop(pages.advise_range(memmap2::Advice::HugePage, 0, huge_bytes));
            return Self::Mapped(pages, size);
        }
        Self::Heap(vec![0; size].into_boxed_slice())
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::Heap(Box::default())
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(pages, size) => pages.get(..*size).unwrap_or_default(),
        }
    }
}

impl DerefMut for Block {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(pages, size) => pages.get_mut(..*size).unwrap_or_default(),
        }
    }
}

impl Clone for Block {
    fn clone(&self) -> Self {
        let mut copy = Self::zeroed(self.len());
        copy.copy_from_slice(self);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_any_size_are_zero_at_first_and_copies_have_memory_of_their_own() {
        for size in [0, 1, MAPPED_FROM - 1, MAPPED_FROM, HUGE_PAGE - 1, 3 * HUGE_PAGE + 5] {
            let mut block = Block::zeroed(size);
            assert!(block.len() == size && block.iter().all(|&byte| byte == 0));
            block.fill(7);
            let copy = block.clone();
            block.fill(8);
            assert!(copy.len() == size && copy.iter().all(|&byte| byte == 7));
        }
    }
}
