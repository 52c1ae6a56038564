//! A queue of fixed-size byte rows, numbered for ever, stored in chunks.
//!
//! Rows are appended at the end and released from the start; row numbers never change. Memory
//! grows by chunks and follows the live rows, and one emptied chunk is kept for reuse, so that a
//! full queue neither allocates nor frees as it goes round.

use std::collections::BTreeMap;

use super::block::Block;

/// Bytes of a chunk at most, about.
const CHUNK_BYTES: usize = 32 << 20;

/// A chunk holds at most this part of the rows expected.
const MIN_CHUNKS: usize = 32;

/// A queue of rows of one size, fewer than 2^32 of them live.
#[derive(Debug, Clone, Default)]
pub(in crate::buffer) struct ChunkQueue {
    row: usize,
    /// Rows per chunk are `1 << shift`.
    shift: u32,
    /// A power of two of places; chunk c of all time stands in place c modulo their number, so a
    /// row is found from the lower half of its number. Places without live rows are empty.
    chunks: Vec<Block>,
    /// Places that are not empty.
    filled: usize,
    start: u64,
    end: u64,
    spare: Option<Block>,
    /// While there is a [`ChunkQueue::hold`]: the end when it began, and released chunks by number.
    held: Option<(u64, BTreeMap<u64, Block>)>,
}

impl ChunkQueue {
    /// An empty queue of rows of `row` bytes, of which about `expected` will live at once.
    pub(super) fn new(row: usize, expected: usize) -> Self {
        let rows = (CHUNK_BYTES / row.max(1)).min(expected / MIN_CHUNKS).max(1);
        let chunks = vec![Block::default()];
        Self { row, shift: rows.ilog2(), chunks, ..Self::default() }
    }

    /// Number of the oldest live row.
    pub(in crate::buffer) const fn start(&self) -> u64 {
        self.start
    }

    /// Number of the next row.
    pub(in crate::buffer) const fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of a row.
    pub(in crate::buffer) const fn width(&self) -> usize {
        self.row
    }

    /// Bytes of memory held.
    pub(super) fn nbytes(&self) -> usize {
        (self.filled + usize::from(self.spare.is_some())) * (self.row << self.shift)
    }

    /// Row `number`; None unless it is live.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&[u8]> {
        if number < self.start || number >= self.end {
            return None;
        }
        let (chunk, at) = self.place(lower(number), self.row);
        self.chunks.get(chunk)?.get(at..at + self.row)
    }

    /// The live row whose number has this lower half, in a queue of rows of `N` bytes.
    #[inline]
    pub(super) fn fixed<const N: usize>(&self, number: u32) -> Option<&[u8; N]> {
        let (chunk, at) = self.place(number, N);
        self.chunks.get(chunk)?.get(at..)?.first_chunk()
    }

    /// For reading many rows, each of `N` bytes.
    pub(super) fn reader<const N: usize>(&self) -> Reader<'_, N> {
        let (mask, row_mask) = (self.chunks.len() - 1, (1 << self.shift) - 1);
        Reader { chunks: &self.chunks, shift: self.shift, mask, row_mask }
    }

    /// Appends one row.
    #[inline]
    pub(in crate::buffer) fn push(&mut self, row: &[u8]) {
        let (chunk, at) = self.next_place(self.row);
        let slot = self.chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(at..at + self.row));
        slot.unwrap_or_default().copy_from_slice(row);
        self.end += 1;
    }

    /// [`ChunkQueue::push`] of a row of `N` bytes.
    #[inline]
    pub(super) fn push_fixed<const N: usize>(&mut self, row: &[u8; N]) {
        let (chunk, at) = self.next_place(N);
        let slot = self.chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(at..at + N));
        slot.unwrap_or_default().copy_from_slice(row);
        self.end += 1;
    }

    /// Forgets every row before `number`.
    #[inline]
    pub(super) fn release_before(&mut self, number: u64) {
        let number = number.min(self.end);
        let (first, kept) = (self.start >> self.shift, number >> self.shift);
        self.start = self.start.max(number);
        if first < kept {
            self.release_chunks(first, kept);
        }
    }

    /// The number whose lower half is `lower`: that of a live row, or the next.
    #[inline]
    pub(super) const fn full(&self, lower: u32) -> u64 {
        let behind = self::lower(self.end).wrapping_sub(lower);
        self.end.wrapping_sub(behind as u64)
    }

    /// Rows that are there now stay readable by [`ChunkQueue::part`] until [`ChunkQueue::let_go`].
    pub(in crate::buffer) fn hold(&mut self) {
        self.held = Some((self.end, BTreeMap::new()));
    }

    /// Ends [`ChunkQueue::hold`].
    pub(in crate::buffer) fn let_go(&mut self) {
        self.held = None;
    }

    /// The rows from `number` to the end of its chunk or to `end`; empty if there are none.
    pub(in crate::buffer) fn part(&self, number: u64, end: u64) -> &[u8] {
        let chunk = number >> self.shift;
        let until = (chunk + 1).saturating_mul(1 << self.shift).min(end.min(self.end));
        let held = self.held.as_ref().and_then(|(_, held)| held.get(&chunk));
        let (place, at) = self.place(lower(number), self.row);
        let bytes = if self.start >> self.shift <= chunk { self.chunks.get(place) } else { held };
        let rows = usize::try_from(until.saturating_sub(number)).unwrap_or(0);
        bytes.and_then(|bytes| bytes.get(at..at + rows * self.row)).unwrap_or_default()
    }

    /// Forgets the newest rows, those from `number` on.
    pub(super) fn truncate(&mut self, number: u64) {
        let number = number.max(self.start).min(self.end);
        let rows = 1_u64 << self.shift;
        let (kept, chunks) = (number.div_ceil(rows), self.end.div_ceil(rows));
        self.release_chunks(kept.max(self.start >> self.shift), chunks);
        self.end = number;
    }

    /// Restarts an empty queue at row `number`.
    pub(in crate::buffer) fn restart(&mut self, number: u64) {
        self.chunks = vec![Block::default()];
        (self.filled, self.start, self.end) = (0, number, number);
        self.held = None;
    }

    /// Place of a chunk, and byte within it, of a live row of `width` bytes.
    #[inline]
    const fn place(&self, number: u32, width: usize) -> (usize, usize) {
        let chunk = (number >> self.shift) as usize & (self.chunks.len() - 1);
        (chunk, (number & ((1 << self.shift) - 1)) as usize * width)
    }

    /// As [`ChunkQueue::place`] for the next row, with a chunk there.
    #[inline]
    fn next_place(&mut self, width: usize) -> (usize, usize) {
        let (chunk, at) = self.place(lower(self.end), width);
        if at == 0 || self.filled == 0 {
            return self.begin_chunk(width);
        }
        (chunk, at)
    }

    /// Puts a chunk in the place of the next row.
    #[cold]
    fn begin_chunk(&mut self, width: usize) -> (usize, usize) {
        if self.filled == self.chunks.len() {
            self.double();
        }
        let (chunk, at) = self.place(lower(self.end), width);
        let size = self.row << self.shift;
        let fresh = self.spare.take().unwrap_or_else(|| Block::zeroed(size));
        if let Some(place) = self.chunks.get_mut(chunk) {
            *place = fresh;
        }
        self.filled += 1;
        (chunk, at)
    }

    /// Doubles the number of places; every chunk goes to its new one.
    fn double(&mut self) {
        let old = std::mem::take(&mut self.chunks);
        let mask = old.len() - 1;
        self.chunks = vec![Block::default(); 2 * old.len()];
        let first = lower(self.start >> self.shift) as usize;
        let new_mask = self.chunks.len() - 1;
        for (place, chunk) in old.into_iter().enumerate() {
            // The chunk of all time that stands in `place`: the one at or after the oldest.
            let number = first + (place.wrapping_sub(first) & mask);
            if let Some(slot) = self.chunks.get_mut(number & new_mask) {
                *slot = chunk;
            }
        }
    }

    /// Empties the places of chunks `first..kept`; the last is kept for reuse.
    #[cold]
    fn release_chunks(&mut self, first: u64, kept: u64) {
        let mask = self.chunks.len() - 1;
        for chunk in first..kept {
            if let Some(place) = self.chunks.get_mut(lower(chunk) as usize & mask)
                && !place.is_empty()
            {
                let block = std::mem::take(place);
                self.filled -= 1;
                match &mut self.held {
                    Some((end, held)) if chunk << self.shift < *end => {
                        held.insert(chunk, block);
                    }
                    _ => self.spare = Some(block),
                }
            }
        }
    }
}

/// The rows of a queue, each of `N` bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a, const N: usize> {
    chunks: &'a [Block],
    shift: u32,
    mask: usize,
    row_mask: u32,
}

impl<const N: usize> Reader<'_, N> {
    /// Copies the live row whose number has this lower half into `row`.
    #[inline]
    pub(super) fn copy(&self, number: u32, row: &mut [u8; N]) {
        let at = (number & self.row_mask) as usize * N;
        let chunk = self.chunks.get((number >> self.shift) as usize & self.mask);
        row.copy_from_slice(chunk.and_then(|chunk| chunk.get(at..at + N)).unwrap_or_default());
    }

    /// [`Reader::copy`] of a row and of the one behind it, or of itself again if it is the `last`.
    #[inline]
    pub(super) fn copy_pair(&self, number: u32, last: bool, now: &mut [u8; N], next: &mut [u8; N]) {
        let at = (number & self.row_mask) as usize * N;
        let chunk = self.chunks.get((number >> self.shift) as usize & self.mask);
        let here = chunk.and_then(|chunk| chunk.get(at..));
        let Some((first, behind)) = here.and_then(<[u8]>::split_first_chunk) else {
            return self.copy(number, now);
        };
        *now = *first;
        match behind.first_chunk() {
            Some(second) if !last => *next = *second,
            _ => self.copy(if last { number } else { number.wrapping_add(1) }, next),
        }
    }
}

/// The lower half of a number.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
#[inline]
pub(super) const fn lower(number: u64) -> u32 {
    number as u32
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
                for live in [queue.start(), u64::midpoint(queue.start(), number), number] {
                    assert_eq!(queue.get(live), Some(row(live).as_slice()));
                    assert_eq!(queue.fixed::<8>(lower(live)), Some(&row(live)));
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

    #[test]
    fn held_rows_are_readable_after_their_release_until_let_go() {
        for expected in [1, 64, 1_000] {
            let mut queue = ChunkQueue::new(8, expected);
            (0..500).for_each(|number| queue.push(&row(number)));
            queue.hold();
            for number in 500..9_000 {
                queue.push(&row(number));
                queue.release_before(number - 100);
            }
            let held = queue.held.as_ref().map_or(0, |(_, held)| held.len()) << queue.shift;
            assert!((500..500 + 64).contains(&held), "{held} rows are kept");
            let (mut next, mut bytes) = (0, Vec::new());
            while next < 500 {
                let part = queue.part(next, 500);
                bytes.extend_from_slice(part);
                next += part.len() as u64 / 8;
            }
            assert_eq!(bytes, (0..500).flat_map(row).collect::<Vec<u8>>());
            queue.let_go();
            assert_eq!(queue.part(0, 500), [0; 0].as_slice());
        }
    }

    #[test]
    fn a_truncated_queue_goes_on_as_if_the_rows_had_never_been_pushed() {
        for expected in [1, 64, 1_000] {
            for kept in [0, 1, 63, 64, 65, 100, 399] {
                let mut queue = ChunkQueue::new(8, expected);
                (0..400).for_each(|number| queue.push(&row(number)));
                queue.release_before(30);
                queue.truncate(kept);
                assert_eq!((queue.start(), queue.end()), (30, kept.max(30)));
                for number in queue.end()..1_000 {
                    queue.push(&row(number));
                    queue.release_before(number.saturating_sub(90));
                    for live in queue.start()..queue.end() {
                        assert_eq!(queue.get(live), Some(row(live).as_slice()));
                    }
                }
            }
        }
    }

    #[test]
    fn the_row_behind_the_last_of_a_chunk_is_the_first_of_the_next() {
        for expected in [64, 10_000, 600_000] {
            let mut queue = ChunkQueue::new(68, expected);
            let row = |number: u32| number.to_ne_bytes().repeat(17);
            (0..40_000).for_each(|number| queue.push(&row(number)));
            let reader = queue.reader::<68>();
            for number in 0..39_999 {
                let (mut now, mut next) = ([0; 68], [0; 68]);
                reader.copy_pair(number, false, &mut now, &mut next);
                assert_eq!((now.to_vec(), next.to_vec()), (row(number), row(number + 1)));
            }
        }
    }

    #[test]
    fn numbers_go_on_past_the_lower_half() {
        for expected in [1, 64, 1_000] {
            let mut queue = ChunkQueue::new(8, expected);
            queue.restart((1 << 32) - 500);
            for number in (1 << 32) - 500..(1_u64 << 32) + 500 {
                queue.push(&row(number));
                queue.release_before(number.saturating_sub(90));
                for live in queue.start()..queue.end() {
                    assert_eq!(queue.get(live), Some(row(live).as_slice()));
                }
            }
        }
    }
}
