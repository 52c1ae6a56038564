//! Where the rows of one environment stand in its ring.

use std::collections::VecDeque;

/// One environment's rows: positions count its pushes for ever, slots go round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Stream {
    /// Position of the oldest row held.
    pub start: u64,
    /// Position of the next row, which is the number of rows pushed so far.
    pub pushed: u64,
    /// Slot of the next row.
    pub head: usize,
    /// True if the newest row waits for the next `obs` as its `next_obs`.
    pub open: bool,
    /// Positions where the episodes begin that have rows here, oldest first; the first of them
    /// may be before `start`.
    pub episodes: VecDeque<u64>,
    /// True if the next row begins an episode.
    pub begins: bool,
}

impl Stream {
    /// A stream without rows, its first to be at `position`.
    pub(super) fn empty_at(position: u64) -> Self {
        Self { start: position, pushed: position, begins: true, ..Self::default() }
    }

    /// Rows held.
    #[expect(clippy::cast_possible_truncation, reason = "rows held are in memory")]
    #[inline]
    pub(super) const fn len(&self) -> usize {
        (self.pushed - self.start) as usize
    }

    /// Slot of a held row of a ring of `capacity`.
    #[expect(clippy::cast_possible_truncation, reason = "rows held are in memory")]
    #[inline]
    pub(super) const fn slot(&self, position: u64, capacity: usize) -> usize {
        let back = (self.pushed - position) as usize;
        if back <= self.head { self.head - back } else { self.head + capacity - back }
    }

    /// The position held in `slot`, if any.
    pub(super) fn position(&self, slot: usize, capacity: usize) -> Option<u64> {
        let back = if slot < self.head { self.head - slot } else { self.head + capacity - slot };
        let back = u64::try_from(back).unwrap_or(u64::MAX);
        self.pushed.checked_sub(back).filter(|&position| position >= self.start)
    }

    /// Notes where episodes begin: told of each row at its position and whether it ends one.
    #[inline]
    pub(super) fn mark(&mut self, position: u64, ended: bool) {
        if self.begins {
            self.episodes.push_back(position);
        }
        self.begins = ended;
    }

    /// Counts `count` rows, at most `capacity`, as pushed.
    #[inline]
    pub(super) const fn advance(&mut self, count: usize, capacity: usize) {
        self.pushed += count as u64;
        let head = self.head + count;
        self.head = if head < capacity { head } else { head - capacity };
    }

    /// Drops the rows before `start` and the episodes that only they were of.
    pub(super) fn evict_before(&mut self, start: u64) {
        self.start = self.start.max(start);
        while self.episodes.get(1).is_some_and(|&second| second <= self.start) {
            self.episodes.pop_front();
        }
    }

    /// The held rows of the episode that `position` is in: from the first to behind the last.
    pub(super) fn episode(&self, position: u64) -> (u64, u64) {
        let later = self.episodes.partition_point(|&start| start <= position);
        let first = later.checked_sub(1).and_then(|at| self.episodes.get(at));
        let start = first.copied().unwrap_or(self.start).max(self.start);
        (start, self.episodes.get(later).copied().unwrap_or(self.pushed))
    }

    /// True if an episode begins at `position`.
    pub(super) fn is_first(&self, position: u64) -> bool {
        self.episodes.binary_search(&position).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_and_positions_are_each_others_inverse_at_every_head() {
        for capacity in 1..6_usize {
            for pushed in 0..20_u64 {
                let start = pushed - pushed.min(capacity as u64);
                let head = usize::try_from(pushed).unwrap() % capacity;
                let stream = Stream { start, pushed, head, ..Stream::default() };
                for position in stream.start..pushed {
                    let slot = stream.slot(position, capacity);
                    assert_eq!(slot, usize::try_from(position).unwrap() % capacity);
                    assert_eq!(stream.position(slot, capacity), Some(position));
                }
                let empty = (0..capacity).filter(|&s| stream.position(s, capacity).is_none());
                assert_eq!(empty.count(), capacity - stream.len());
            }
        }
    }

    #[test]
    fn an_episode_is_cut_at_the_oldest_row_and_at_the_head() {
        let mut stream = Stream { pushed: 9, episodes: [0, 4, 7].into(), ..Stream::default() };
        stream.evict_before(2);
        assert_eq!([2, 3].map(|p| stream.episode(p)), [(2, 4); 2]);
        assert_eq!([4, 6, 7, 8].map(|p| stream.episode(p)), [(4, 7), (4, 7), (7, 9), (7, 9)]);
        stream.evict_before(4);
        assert_eq!(stream.episodes, [4, 7]);
        assert!(stream.is_first(4) && !stream.is_first(5));
    }
}
