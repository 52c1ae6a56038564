//! Blocks of memory that live long beside much that comes and goes.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// From this size on a block is pages of its own.
const MAPPED_FROM: usize = 128 << 10;

/// Rows drawn from all over a large buffer miss the processor's table of pages each time; of huge
/// pages it holds enough (32 x 226 kB of 115 MB: 1.1 times as fast).
const HUGE_PAGE: usize = 2 << 20;

/// Bytes, zero at first.
///
/// Large ones come from the system and not from the allocator: between the batches that a training
/// loop makes and drops, blocks of a megabyte leave gaps of every size in its heap (a buffer of
/// images pushed in batches took a third more memory), and there freed ones stay with the process.
#[derive(Debug)]
pub(super) enum Block {
    /// Memory of the allocator.
    Heap(Box<[u8]>),
    /// Pages of the system, taken as they are first written, and how many of their bytes count.
    Mapped(MmapMut, usize),
}

impl Block {
    /// A block of `size` bytes.
    pub(super) fn zeroed(size: usize) -> Self {
        let whole = size - size % HUGE_PAGE;
        // Systems begin mappings of whole huge pages where one begins.
        let length = if whole > 0 { size.next_multiple_of(HUGE_PAGE) } else { size };
        if size >= MAPPED_FROM
            && let Ok(pages) = MmapMut::map_anon(length)
        {
            // Only a wish; the last part has small pages, for a huge one would be there in whole.
            #[cfg(target_os = "linux")]
            drop(pages.advise_range(memmap2::Advice::HugePage, 0, whole));
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
