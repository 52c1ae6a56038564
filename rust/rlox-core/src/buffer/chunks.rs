//! A queue of fixed-size byte rows, numbered for ever, stored in chunks.
//!
//! Rows are appended at the end and released from the start; row numbers never change. Memory
//! grows by chunks and follows the live rows, and one emptied chunk is kept for reuse, so that a
//! full queue neither allocates nor frees as it goes round.

use std::collections::VecDeque;

/// Bytes of a chunk, about, where there are enough rows for it.
const CHUNK_BYTES: usize = 1 << 20;

/// A chunk holds at most this part of the rows expected.
const MIN_CHUNKS: usize = 32;

/// A queue of rows of one size.
#[derive(Debug, Clone)]
pub(super) struct ChunkQueue {
    row: usize,
    /// Rows per chunk are `1 << shift`.
    shift: u32,
    chunks: VecDeque<Box<[u8]>>,
    /// Number of the first row of the first chunk, a multiple of the chunk's rows.
    base: u64,
    start: u64,
    end: u64,
    spare: Option<Box<[u8]>>,
}

impl ChunkQueue {
    /// An empty queue of rows of `row` bytes, of which about `expected` will live at once.
    pub(super) fn new(row: usize, expected: usize) -> Self {
        let rows = (CHUNK_BYTES / row.max(1)).min(expected / MIN_CHUNKS).max(1);
        Self {
            row,
            shift: rows.ilog2(),
            chunks: VecDeque::new(),
            base: 0,
            start: 0,
            end: 0,
            spare: None,
        }
    }

    /// Number of the oldest live row.
    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    /// Number of the next row.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of a row.
    pub(super) const fn width(&self) -> usize {
        self.row
    }

    /// Bytes of memory held.
    pub(super) fn nbytes(&self) -> usize {
        (self.chunks.len() + usize::from(self.spare.is_some())) * (self.row << self.shift)
    }

    /// Row `number`; None unless it is live.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&[u8]> {
        if number < self.start || number >= self.end {
            return None;
        }
        let (chunk, at) = self.place(number);
        self.chunks.get(chunk)?.get(at..at + self.row)
    }

    /// Live row `number` of a queue whose rows have `N` bytes.
    #[inline]
    pub(super) fn fixed<const N: usize>(&self, number: u64) -> Option<&[u8; N]> {
        let (chunk, at) = self.place(number);
        self.chunks.get(chunk)?.get(at..)?.first_chunk()
    }

    /// Appends one row.
    #[inline]
    pub(super) fn push(&mut self, row: &[u8]) {
        let (chunk, at) = self.place(self.end);
        if chunk >= self.chunks.len() {
            self.grow();
        }
        if let Some(slot) = self.chunks.get_mut(chunk).and_then(|c| c.get_mut(at..at + self.row)) {
            slot.copy_from_slice(row);
        }
        self.end += 1;
    }

    /// Forgets every row before `number`.
    #[inline]
    pub(super) fn release_before(&mut self, number: u64) {
        if number <= self.start {
            return;
        }
        self.start = number.min(self.end);
        let rows = 1_u64 << self.shift;
        while self.base + rows <= self.start
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.spare = Some(chunk);
            self.base += rows;
        }
    }

    /// The bytes of the live rows from `number` to the end, chunk by chunk.
    pub(super) fn parts(&self, number: u64) -> Vec<&[u8]> {
        let rows = 1_u64 << self.shift;
        let mut parts = Vec::new();
        let mut next = number.max(self.start);
        while next < self.end {
            let until = ((next >> self.shift) + 1).saturating_mul(rows).min(self.end);
            let (chunk, at) = self.place(next);
            #[expect(clippy::cast_possible_truncation, reason = "a live row is in memory")]
            let bytes = (until - next) as usize * self.row;
            parts.extend(self.chunks.get(chunk).and_then(|chunk| chunk.get(at..at + bytes)));
            next = until;
        }
        parts
    }

    /// Restarts an empty queue at row `number`.
    pub(super) fn restart(&mut self, number: u64) {
        self.chunks.clear();
        self.base = number >> self.shift << self.shift;
        self.start = number;
        self.end = number;
    }

    /// Chunk and byte within it of a row not before `base`.
    #[inline]
    const fn place(&self, number: u64) -> (usize, usize) {
        let offset = number.wrapping_sub(self.base);
        #[expect(clippy::cast_possible_truncation, reason = "a live row is in memory")]
        let (chunk, row) = ((offset >> self.shift) as usize, offset as usize);
        (chunk, (row & ((1 << self.shift) - 1)) * self.row)
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.row << self.shift;
        let chunk = self.spare.take().unwrap_or_else(|| vec![0; size].into_boxed_slice());
        self.chunks.push_back(chunk);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> [u8; 8] {
        number.to_ne_bytes()
    }

    #[test]
    fn rows_keep_their_numbers_while_older_ones_are_released() {
        for expected in [0, 1, 64, 1_000] {
            let mut queue = ChunkQueue::new(8, expected);
            for number in 0..5_000 {
                queue.push(&row(number));
                queue.release_before(number.saturating_sub(70));
                for live in [queue.start(), (queue.start() + number) / 2, number] {
                    assert_eq!(queue.get(live), Some(row(live).as_slice()));
                    assert_eq!(queue.fixed::<8>(live), Some(&row(live)));
                }
                assert_eq!(queue.get(number + 1), None);
                assert!(queue.start() == 0 || queue.get(queue.start() - 1).is_none());
            }
        }
    }

    #[test]
    fn a_full_queue_going_round_holds_constant_memory() {
        let mut queue = ChunkQueue::new(8, 1_000);
        let mut most = 0;
        for number in 0..100_000 {
            queue.push(&row(number));
            queue.release_before(number.saturating_sub(999));
            most = most.max(queue.nbytes());
        }
        assert!(most <= 8 * 1_000 * 11 / 10, "{most}");
    }

    #[test]
    fn releasing_everything_and_more_leaves_an_empty_queue_that_goes_on() {
        let mut queue = ChunkQueue::new(8, 100);
        (0..10).for_each(|number| queue.push(&row(number)));
        queue.release_before(1_000);
        assert_eq!((queue.start(), queue.end()), (10, 10));
        queue.push(&row(10));
        assert_eq!(queue.get(10), Some(row(10).as_slice()));
        queue.restart(77);
        queue.push(&row(77));
        assert_eq!((queue.start(), queue.get(77)), (77, Some(row(77).as_slice())));
    }
}
