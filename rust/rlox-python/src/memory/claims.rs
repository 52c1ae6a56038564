//! Which memory calls are using: the addresses of all views that are alive, whatever their thread.

use std::ops::Range;

/// No slot.
const NONE: u32 = u32::MAX;

/// The addresses of one view and the thread that made it; empty once it is gone.
struct Slot {
    first: usize,
    end: usize,
    thread: usize,
    written: bool,
    /// The free slot after this one, if this one is free.
    next_free: u32,
}

impl Slot {
    const fn meets(&self, span: &Range<usize>) -> bool {
        self.first < span.end && span.start < self.end
    }
}

/// All views: any number may read the same memory, one may write if nobody else is there.
pub(crate) struct Claims {
    slots: Vec<Slot>,
    free: u32,
    alive: u32,
    writers: u32,
}

impl Claims {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: NONE, alive: 0, writers: 0 }
    }

    /// The number of a claim for reading; None if the memory is being written.
    #[inline]
    pub(crate) fn read(&mut self, span: Range<usize>, thread: usize) -> Option<u32> {
        if self.writers > 0 && self.slots.iter().any(|slot| slot.written && slot.meets(&span)) {
            return None;
        }
        Some(self.add(span, thread, false))
    }

    /// The number of a claim for writing; None if the memory is in use.
    pub(crate) fn write(&mut self, span: Range<usize>, thread: usize) -> Option<u32> {
        if self.slots.iter().any(|slot| slot.meets(&span)) {
            return None;
        }
        self.writers += 1;
        Some(self.add(span, thread, true))
    }

    #[inline]
    fn add(&mut self, span: Range<usize>, thread: usize, written: bool) -> u32 {
        self.alive += 1;
        let slot = Slot { first: span.start, end: span.end, thread, written, next_free: NONE };
        let number = self.free;
        if let Some(place) = self.slots.get_mut(number as usize) {
            self.free = place.next_free;
            *place = slot;
            return number;
        }
        self.slots.push(slot);
        u32::try_from(self.slots.len() - 1).unwrap_or(NONE)
    }

    /// Gives a claim up.
    #[inline]
    pub(crate) fn release(&mut self, number: u32) {
        let Some(slot) = self.slots.get_mut(number as usize) else { return };
        self.writers -= u32::from(slot.written);
        self.alive -= 1;
        if self.alive == 0 {
            // So that one call with many views does not make the lists of later ones long.
            self.slots.clear();
            self.free = NONE;
            return;
        }
        *slot = Slot { first: 0, end: 0, thread: 0, written: false, next_free: self.free };
        self.free = number;
    }

    /// Gives up the claims of all threads but one, which a forked child does not have.
    pub(crate) fn keep_only(&mut self, thread: usize) {
        let others = self.slots.iter().zip(0..).filter(|(slot, _)| slot.first < slot.end);
        let others = others.filter(|(slot, _)| slot.thread != thread).map(|(_, number)| number);
        for number in others.collect::<Vec<u32>>() {
            self.release(number);
        }
    }
}
