//! The memory that calls are using: the addresses of all live views of all threads.

use std::iter;
use std::ops::Range;

/// The addresses of one view and the thread that made it.
#[derive(Clone, Copy)]
struct Slot {
    first: usize,
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
    const EMPTY: Self =
        Self { slots: [Slot { first: 0, end: 0, thread: 0 }; SLOTS], alive: 0, written: 0 };

    /// Whether `span` overlaps a view whose bit is set in the mask.
    fn meets(&self, of: u64, span: &Range<usize>) -> bool {
        let mut chosen = self.slots.iter().zip(0..).filter(|(_, bit)| of >> bit & 1 == 1);
        chosen.any(|(slot, _)| slot.first < span.end && span.start < slot.end)
    }

    /// Takes a free slot, of which there must be one, and returns the position of its bit.
    #[inline]
    fn add(&mut self, span: Range<usize>, thread: usize, written: u64) -> usize {
        let bit = self.alive.trailing_ones();
        if let Some(slot) = self.slots.get_mut(bit as usize) {
            *slot = Slot { first: span.start, end: span.end, thread };
        }
        self.alive |= 1 << bit;
        self.written |= written << bit;
        bit as usize
    }

    /// Frees the slots whose bits are set in the mask.
    const fn forget(&mut self, gone: u64) {
        self.alive &= !gone;
        self.written &= !gone;
    }
}

/// All views. Any number of them may read the same memory, but a writer must be alone.
pub(crate) struct Claims {
    first: Block,
    /// Further blocks for the case that the first is full. A call has only a few views.
    more: Vec<Block>,
}

impl Claims {
    pub(crate) const fn new() -> Self {
        Self { first: Block::EMPTY, more: Vec::new() }
    }

    /// Returns the number of a claim for reading; None if the memory is being written.
    #[inline]
    pub(crate) fn read(&mut self, span: Range<usize>, thread: usize) -> Option<usize> {
        let mut blocks = iter::once(&self.first).chain(&self.more);
        if blocks.any(|block| block.written != 0 && block.meets(block.written, &span)) {
            return None;
        }
        Some(self.add(span, thread, 0))
    }

    /// Returns the number of a claim for writing; None if the memory is in use.
    pub(crate) fn write(&mut self, span: Range<usize>, thread: usize) -> Option<usize> {
        let mut blocks = iter::once(&self.first).chain(&self.more);
        if blocks.any(|block| block.meets(block.alive, &span)) {
            return None;
        }
        Some(self.add(span, thread, 1))
    }

    #[inline]
    fn add(&mut self, span: Range<usize>, thread: usize, written: u64) -> usize {
        if self.first.alive != u64::MAX {
            return self.first.add(span, thread, written);
        }
        self.add_to_more(span, thread, written)
    }

    #[cold]
    fn add_to_more(&mut self, span: Range<usize>, thread: usize, written: u64) -> usize {
        let room = self.more.iter().position(|block| block.alive != u64::MAX);
        let at = room.unwrap_or(self.more.len());
        if at == self.more.len() {
            self.more.push(Block::EMPTY);
        }
        let bit = self.more.get_mut(at).map_or(0, |block| block.add(span, thread, written));
        (at + 1) * SLOTS + bit
    }

    /// Releases a claim.
    #[inline]
    pub(crate) fn release(&mut self, number: usize) {
        let block = match (number / SLOTS).checked_sub(1) {
            None => &mut self.first,
            Some(at) => match self.more.get_mut(at) {
                Some(block) => block,
                None => return,
            },
        };
        block.forget(1 << (number % SLOTS));
        // Otherwise one call with many views would make every later claim search its blocks.
        if number >= SLOTS {
            self.shrink();
        }
    }

    #[cold]
    fn shrink(&mut self) {
        while self.more.last().is_some_and(|block| block.alive == 0) {
            self.more.pop();
        }
    }

    /// Releases the claims of all threads but one. A forked child does not have the others.
    pub(crate) fn keep_only(&mut self, thread: usize) {
        for block in iter::once(&mut self.first).chain(&mut self.more) {
            let theirs = block.slots.iter().zip(0..).filter(|(slot, _)| slot.thread != thread);
            block.forget(theirs.fold(0, |others, (_, bit)| others | 1 << bit));
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
    fn a_claim_is_given_unless_it_meets_a_written_one_or_is_for_writing_and_meets_any() {
        let (mut claims, mut known) =
            (Claims::new(), Vec::<(usize, Range<usize>, usize, bool)>::new());
        let (mut word, mut most, mut refused) = (1_usize, 0, 0);
        let steps = if cfg!(miri) { 3_000 } else { 40_000 }; // minutes under miri
        for step in 0..steps {
            word = word
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let bits = word >> 33;
            if bits % 16 < 7 && !known.is_empty() {
                let (number, ..) = known.swap_remove((bits >> 4) % known.len());
                claims.release(number);
                continue;
            }
            if step % 5_000 == 4_999 {
                claims.keep_only(0);
                known.retain(|&(_, _, thread, _)| thread == 0);
            }
            let (first, written, thread) = ((bits >> 8) % 100_000, bits % 3 == 0, (bits >> 5) % 2);
            let span = first..first + 1 + (bits >> 20) % 64;
            let clash = known.iter().any(|(_, other, _, theirs)| {
                (written || *theirs) && other.start < span.end && span.start < other.end
            });
            let take = if written { Claims::write } else { Claims::read };
            let number = take(&mut claims, span.clone(), thread);
            assert_eq!(number.is_none(), clash, "step {step}");
            refused += usize::from(clash);
            known.extend(number.map(|number| (number, span, thread, written)));
            most = most.max(known.len());
        }
        assert!(most > 3 * SLOTS && refused > steps / 40, "{most} alive, {refused} refused");
        for (number, ..) in known {
            claims.release(number);
        }
        assert!(claims.more.is_empty() && claims.first.alive == 0);
    }
}
