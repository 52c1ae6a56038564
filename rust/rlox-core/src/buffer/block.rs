//! Blocks of memory that live long beside much that comes and goes.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;

/// From this size on a block is pages of its own.
const MAPPED_FROM: usize = 128 << 10;

/// Bytes, zero at first.
///
/// Large ones come from the system and not from the allocator: between the batches that a training
/// loop makes and drops, blocks of a megabyte leave gaps of every size in its heap (a buffer of
/// images pushed in batches took a third more memory), and there freed ones stay with the process.
#[derive(Debug)]
pub(super) enum Block {
    /// Memory of the allocator.
    Heap(Box<[u8]>),
    /// Pages of the system, taken as they are first written.
    Mapped(MmapMut),
}

impl Block {
    /// A block of `size` bytes.
    pub(super) fn zeroed(size: usize) -> Self {
        if size >= MAPPED_FROM
            && let Ok(pages) = MmapMut::map_anon(size)
        {
            return Self::Mapped(pages);
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
            Self::Mapped(pages) => pages,
        }
    }
}

impl DerefMut for Block {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Mapped(pages) => pages,
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
        for size in [0, 1, MAPPED_FROM - 1, MAPPED_FROM, 3 * MAPPED_FROM + 5] {
            let mut block = Block::zeroed(size);
            assert_eq!((block.len(), block.iter().any(|&byte| byte != 0)), (size, false));
            block.fill(7);
            let copy = block.clone();
            block.fill(8);
            assert!(copy.len() == size && copy.iter().all(|&byte| byte == 7));
        }
    }
}
