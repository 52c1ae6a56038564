//! The memory that calls are using: the addresses of all live views of all threads.

use std::iter;
use std::ops::Range;

/// The addresses of one view and the thread that made it.
#[derive(Clone, Copy)]
struct Slot {
    start: usize,
    end: usize,
    thread: usize,
}

/// A block of slots, one per bit of a word.
struct Block {
    slots: [Slot; SLOTS],
    /// One bit per slot; set if the slot's view is alive.
    alive: u64,
    /// One bit per slot; set if the slot's view is alive and for writing.
    written: u64,
}

const SLOTS: usize = u64::BITS as usize;

impl Block {
    const EMPTY: Self = Self { slots: [Slot { start: 0, end: 0, thread: 0 }; SLOTS], alive: 0, written: 0 };

    /// Whether `span` overlaps a view whose bit is set in the mask.
    fn overlaps(&self, mask: u64, span: &Range<usize>) -> bool {
        let mut chosen = self.slots.iter().zip(0..).filter(|(_, bit)| mask >> bit & 1 == 1);
        chosen.any(|(slot, _)| slot.start < span.end && span.start < slot.end)
    }

    /// Puts a view into a free slot and returns the position of the slot's bit. A slot must be free.
    #[inline]
    fn add(&mut self, span: Range<usize>, thread: usize, write_bit: u64) -> usize {
        let bit = self.alive.trailing_ones();
        if let Some(slot) = self.slots.get_mut(bit as usize) {
            *slot = Slot { start: span.start, end: span.end, thread };
        }
        self.alive |= 1 << bit;
        self.written |= write_bit << bit;
        bit as usize
    }

    /// Frees the slots whose bits are set in the mask.
    const fn free(&mut self, mask: u64) {
        self.alive &= !mask;
        self.written &= !mask;
    }
}

/// All views. Any number of them may read the same memory, but a writer must be alone.
pub(crate) struct Claims {
    first: Block,
    /// Further blocks for the case that the first is full. A call has only a few views.
    overflow: Vec<Block>,
}

impl Claims {
    pub(crate) const fn new() -> Self {
        Self { first: Block::EMPTY, overflow: Vec::new() }
    }

    /// Returns the number of a claim for reading; None if the memory is being written.
    #[inline]
    pub(crate) fn read(&mut self, span: Range<usize>, thread: usize) -> Option<usize> {
        let mut blocks = iter::once(&self.first).chain(&self.overflow);
        if blocks.any(|block| block.written != 0 && block.overlaps(block.written, &span)) {
            return None;
        }
        Some(self.add(span, thread, 0))
    }

    /// Returns the number of a claim for writing; None if the memory is in use.
    pub(crate) fn write(&mut self, span: Range<usize>, thread: usize) -> Option<usize> {
        let mut blocks = iter::once(&self.first).chain(&self.overflow);
        if blocks.any(|block| block.overlaps(block.alive, &span)) {
            return None;
        }
        Some(self.add(span, thread, 1))
    }

    #[inline]
    fn add(&mut self, span: Range<usize>, thread: usize, write_bit: u64) -> usize {
        if self.first.alive != u64::MAX {
            return self.first.add(span, thread, write_bit);
        }
        self.add_to_overflow(span, thread, write_bit)
    }

    #[cold]
    fn add_to_overflow(&mut self, span: Range<usize>, thread: usize, write_bit: u64) -> usize {
        let free_block = self.overflow.iter().position(|block| block.alive != u64::MAX);
        let index = free_block.unwrap_or(self.overflow.len());
        if index == self.overflow.len() {
            self.overflow.push(Block::EMPTY);
        }
        let bit = self.overflow.get_mut(index).map_or(0, |block| block.add(span, thread, write_bit));
        (index + 1) * SLOTS + bit
    }

    /// Releases a claim.
    #[inline]
    pub(crate) fn release(&mut self, number: usize) {
        let block = match (number / SLOTS).checked_sub(1) {
            None => &mut self.first,
            Some(index) => match self.overflow.get_mut(index) {
                Some(block) => block,
                None => return,
            },
        };
        block.free(1 << (number % SLOTS));
        // Otherwise one call with many views would make every later claim search its blocks.
        if number >= SLOTS {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        while self.overflow.last().is_some_and(|block| block.alive == 0) {
            self.overflow.pop();
        }
    }

    /// Releases the claims of all threads but one. A forked child does not have the others.
    pub(crate) fn keep_only(&mut self, thread: usize) {
        for block in iter::once(&mut self.first).chain(&mut self.overflow) {
            let other_threads = block.slots.iter().zip(0..).filter(|(slot, _)| slot.thread != thread);
            block.free(other_threads.fold(0, |others, (_, bit)| others | 1 << bit));
        }
        self.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims and releases in a fixed pseudo-random order, and compares with a list of the claims.
    /// Long spans and few releases fill several blocks; now and then the claims of thread 1 are
    /// released.
    #[test]
    fn a_claim_is_refused_if_it_overlaps_another_and_one_of_them_is_for_writing() {
        let (mut claims, mut expected) = (Claims::new(), Vec::<(usize, Range<usize>, usize, bool)>::new());
        let (mut random, mut max_alive, mut n_refused) = (1_usize, 0, 0);
        let steps = if cfg!(miri) { 3_000 } else { 40_000 }; // minutes under miri
        for step in 0..steps {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let bits = random >> 33;
            if bits % 16 < 7 && !expected.is_empty() {
                let (number, ..) = expected.swap_remove((bits >> 4) % expected.len());
                claims.release(number);
                continue;
            }
            if step % 5_000 == 4_999 {
                claims.keep_only(0);
                expected.retain(|&(_, _, thread, _)| thread == 0);
            }
            let (first, written, thread) = ((bits >> 8) % 100_000, bits % 3 == 0, (bits >> 5) % 2);
            let span = first..first + 1 + (bits >> 20) % 64;
            let clash = expected.iter().any(|(_, other, _, other_written)| {
                (written || *other_written) && other.start < span.end && span.start < other.end
            });
            let take = if written { Claims::write } else { Claims::read };
            let number = take(&mut claims, span.clone(), thread);
            assert_eq!(number.is_none(), clash, "step {step}");
            n_refused += usize::from(clash);
            expected.extend(number.map(|number| (number, span, thread, written)));
            max_alive = max_alive.max(expected.len());
        }
        assert!(max_alive > 3 * SLOTS && n_refused > steps / 40, "{max_alive} alive, {n_refused} refused");
        for (number, ..) in expected {
            claims.release(number);
        }
        assert!(claims.overflow.is_empty() && claims.first.alive == 0);
    }
}
