//! A queue of byte rows of one size, stored in chunks.
//!
//! Rows are appended at the end and released at the start. Row numbers never change. Memory grows
//! and shrinks by chunks with the live rows. One empty chunk is kept for reuse, so that a full
//! queue neither allocates nor frees.

use std::collections::BTreeMap;

use super::block::Block;

/// Approximate maximum size of a chunk in bytes.
const CHUNK_BYTES: usize = 32 << 20;

/// Minimum number of chunks that the expected rows fill.
const MIN_CHUNKS: usize = 32;

/// A queue of rows of one size, of which fewer than 2^32 are live.
#[derive(Debug, Clone, Default)]
pub(in crate::buffer) struct ChunkQueue {
    row_bytes: usize,
    /// Each chunk has `1 << shift` rows.
    shift: u32,
    /// Places for chunks; the number of places is a power of two. Chunk c is at place c modulo this
    /// number, so the lower half of a row's number is enough to find the row. A place without live
    /// rows is empty.
    chunks: Vec<Block>,
    /// Number of places that are not empty.
    n_filled: usize,
    start: u64,
    end: u64,
    spare: Option<Block>,
    /// Set by [`ChunkQueue::begin_snapshot`]: the end at that time, and the chunks released since, by number.
    snapshot: Option<(u64, BTreeMap<u64, Block>)>,
}

impl ChunkQueue {
    /// Makes an empty queue. The arguments are the size of a row in bytes and the approximate
    /// number of live rows.
    pub(super) fn new(row_bytes: usize, expected_rows: usize) -> Self {
        let rows = (CHUNK_BYTES / row_bytes.max(1)).min(expected_rows / MIN_CHUNKS).max(1);
        let chunks = vec![Block::default()];
        Self { row_bytes, shift: rows.ilog2(), chunks, ..Self::default() }
    }

    /// Returns the number of the oldest live row.
    pub(in crate::buffer) const fn start(&self) -> u64 {
        self.start
    }

    /// Returns the number of the next row.
    pub(in crate::buffer) const fn end(&self) -> u64 {
        self.end
    }

    /// Returns the size of a row in bytes.
    pub(in crate::buffer) const fn width(&self) -> usize {
        self.row_bytes
    }

    /// Returns the allocated memory in bytes.
    pub(super) fn nbytes(&self) -> usize {
        (self.n_filled + usize::from(self.spare.is_some())) * (self.row_bytes << self.shift)
    }

    /// Returns row `number`, or None if it is not live.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&[u8]> {
        if number < self.start || number >= self.end {
            return None;
        }
        let (chunk, offset) = self.place(lower_half(number), self.row_bytes);
        self.chunks.get(chunk)?.get(offset..offset + self.row_bytes)
    }

    /// Returns the live row whose number has this lower half, in a queue of rows of `N` bytes.
    #[inline]
    pub(super) fn get_fixed<const N: usize>(&self, lower: u32) -> Option<&[u8; N]> {
        let (chunk, offset) = self.place(lower, N);
        self.chunks.get(chunk)?.get(offset..)?.first_chunk()
    }

    /// Returns a reader for many rows of `N` bytes each.
    pub(super) fn reader<const N: usize>(&self) -> Reader<'_, N> {
        let (mask, row_mask) = (self.chunks.len() - 1, (1 << self.shift) - 1);
        Reader { chunks: &self.chunks, shift: self.shift, mask, row_mask }
    }

    /// Appends one row.
    #[inline]
    pub(in crate::buffer) fn push(&mut self, row: &[u8]) {
        let (chunk, offset) = self.next_place(self.row_bytes);
        let slot =
            self.chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(offset..offset + self.row_bytes));
        slot.unwrap_or_default().copy_from_slice(row);
        self.end += 1;
    }

    /// Same as [`ChunkQueue::push`], for a row of `N` bytes.
    #[inline]
    pub(super) fn push_fixed<const N: usize>(&mut self, row: &[u8; N]) {
        let (chunk, offset) = self.next_place(N);
        let slot = self.chunks.get_mut(chunk).and_then(|chunk| chunk.get_mut(offset..offset + N));
        slot.unwrap_or_default().copy_from_slice(row);
        self.end += 1;
    }

    /// Releases every row before `number`.
    #[inline]
    pub(super) fn release_before(&mut self, number: u64) {
        let number = number.min(self.end);
        let (first, end_chunk) = (self.start >> self.shift, number >> self.shift);
        self.start = self.start.max(number);
        if first < end_chunk {
            self.release_chunks(first, end_chunk);
        }
    }

    /// Returns the number with the lower half `lower`, which is that of a live row or of the next
    /// row.
    #[inline]
    pub(super) const fn full_number(&self, lower: u32) -> u64 {
        let distance = self::lower_half(self.end).wrapping_sub(lower);
        self.end.wrapping_sub(distance as u64)
    }

    /// Keeps the present rows readable by [`ChunkQueue::contiguous_rows`] until [`ChunkQueue::end_snapshot`].
    pub(in crate::buffer) fn begin_snapshot(&mut self) {
        self.snapshot = Some((self.end, BTreeMap::new()));
    }

    /// Ends the snapshot that [`ChunkQueue::begin_snapshot`] began.
    pub(in crate::buffer) fn end_snapshot(&mut self) {
        self.snapshot = None;
    }

    /// Returns the rows from `number` to the end of its chunk or to `end`; empty if there are none.
    pub(in crate::buffer) fn contiguous_rows(&self, number: u64, end: u64) -> &[u8] {
        let chunk = number >> self.shift;
        let chunk_end = (chunk + 1).saturating_mul(1 << self.shift).min(end.min(self.end));
        let snapshot_chunk = self.snapshot.as_ref().and_then(|(_, held)| held.get(&chunk));
        let (place, offset) = self.place(lower_half(number), self.row_bytes);
        let bytes = if self.start >> self.shift <= chunk { self.chunks.get(place) } else { snapshot_chunk };
        let rows = usize::try_from(chunk_end.saturating_sub(number)).unwrap_or(0);
        bytes.and_then(|bytes| bytes.get(offset..offset + rows * self.row_bytes)).unwrap_or_default()
    }

    /// Removes the newest rows, from `number` on.
    pub(super) fn truncate(&mut self, number: u64) {
        let number = number.max(self.start).min(self.end);
        let rows = 1_u64 << self.shift;
        let (first_removed, chunks) = (number.div_ceil(rows), self.end.div_ceil(rows));
        self.release_chunks(first_removed.max(self.start >> self.shift), chunks);
        self.end = number;
    }

    /// Restarts an empty queue at row `number`.
    pub(in crate::buffer) fn restart(&mut self, number: u64) {
        self.chunks = vec![Block::default()];
        (self.n_filled, self.start, self.end) = (0, number, number);
        self.snapshot = None;
    }

    /// Returns the place of the chunk of a live row of `width` bytes, and the row's byte offset in
    /// it.
    #[inline]
    const fn place(&self, lower: u32, width: usize) -> (usize, usize) {
        let chunk = (lower >> self.shift) as usize & (self.chunks.len() - 1);
        (chunk, (lower & ((1 << self.shift) - 1)) as usize * width)
    }

    /// Same as [`ChunkQueue::place`] for the next row. Adds a chunk if there is none.
    #[inline]
    fn next_place(&mut self, width: usize) -> (usize, usize) {
        let (chunk, offset) = self.place(lower_half(self.end), width);
        if offset == 0 || self.n_filled == 0 {
            return self.begin_chunk(width);
        }
        (chunk, offset)
    }

    /// Adds a chunk at the place of the next row.
    #[cold]
    fn begin_chunk(&mut self, width: usize) -> (usize, usize) {
        if self.n_filled == self.chunks.len() {
            self.double_places();
        }
        let (chunk, offset) = self.place(lower_half(self.end), width);
        let size = self.row_bytes << self.shift;
        let new_chunk = self.spare.take().unwrap_or_else(|| Block::zeroed(size));
        if let Some(place) = self.chunks.get_mut(chunk) {
            *place = new_chunk;
        }
        self.n_filled += 1;
        (chunk, offset)
    }

    /// Doubles the number of places and moves every chunk to its new place.
    fn double_places(&mut self) {
        let old = std::mem::take(&mut self.chunks);
        let mask = old.len() - 1;
        self.chunks = vec![Block::default(); 2 * old.len()];
        let first = lower_half(self.start >> self.shift) as usize;
        let new_mask = self.chunks.len() - 1;
        for (place, chunk) in old.into_iter().enumerate() {
            // The number of the chunk in `place`: the first one, from the oldest chunk's number on,
            // that belongs to this place.
            let number = first + (place.wrapping_sub(first) & mask);
            if let Some(slot) = self.chunks.get_mut(number & new_mask) {
                *slot = chunk;
            }
        }
    }

    /// Empties the places of the chunks in this range. The last chunk is kept for reuse.
    #[cold]
    fn release_chunks(&mut self, first: u64, end_chunk: u64) {
        let mask = self.chunks.len() - 1;
        for chunk in first..end_chunk {
            if let Some(place) = self.chunks.get_mut(lower_half(chunk) as usize & mask)
                && !place.is_empty()
            {
                let block = std::mem::take(place);
                self.n_filled -= 1;
                match &mut self.snapshot {
                    Some((end, chunks)) if chunk << self.shift < *end => {
                        chunks.insert(chunk, block);
                    }
                    _ => self.spare = Some(block),
                }
            }
        }
    }
}

/// Reads rows of a queue, each of `N` bytes.
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
    pub(super) fn copy(&self, lower: u32, row: &mut [u8; N]) {
        let offset = (lower & self.row_mask) as usize * N;
        let chunk = self.chunks.get((lower >> self.shift) as usize & self.mask);
        row.copy_from_slice(chunk.and_then(|chunk| chunk.get(offset..offset + N)).unwrap_or_default());
    }

    /// Copies a row and the row after it. The newest row has none after it and is copied twice.
    #[inline]
    pub(super) fn copy_pair(&self, lower: u32, is_newest: bool, now: &mut [u8; N], next: &mut [u8; N]) {
        let offset = (lower & self.row_mask) as usize * N;
        let chunk = self.chunks.get((lower >> self.shift) as usize & self.mask);
        let tail = chunk.and_then(|chunk| chunk.get(offset..));
        let Some((first, after_row)) = tail.and_then(<[u8]>::split_first_chunk) else {
            return self.copy(lower, now);
        };
        *now = *first;
        match after_row.first_chunk() {
            Some(second) if !is_newest => *next = *second,
            _ => self.copy(if is_newest { lower } else { lower.wrapping_add(1) }, next),
        }
    }
}

/// Returns the lower half of a number.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
#[inline]
pub(super) const fn lower_half(number: u64) -> u32 {
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
                    assert_eq!(queue.get_fixed::<8>(lower_half(live)), Some(&row(live)));
                }
                assert_eq!(queue.get(number + 1), None);
                assert!(queue.start() == 0 || queue.get(queue.start() - 1).is_none());
            }
        }
    }

    #[test]
    fn a_full_queue_going_round_holds_constant_memory() {
        let mut queue = ChunkQueue::new(8, 1_000);
        let mut max_bytes = 0;
        for number in 0..100_000 {
            queue.push(&row(number));
            queue.release_before(number.saturating_sub(999));
            max_bytes = max_bytes.max(queue.nbytes());
        }
        assert!(max_bytes <= 8 * 1_000 * 11 / 10, "{max_bytes}");
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
    fn released_rows_stay_readable_until_the_snapshot_ends() {
        for expected in [1, 64, 1_000] {
            let mut queue = ChunkQueue::new(8, expected);
            (0..500).for_each(|number| queue.push(&row(number)));
            queue.begin_snapshot();
            for number in 500..9_000 {
                queue.push(&row(number));
                queue.release_before(number - 100);
            }
            let held = queue.snapshot.as_ref().map_or(0, |(_, held)| held.len()) << queue.shift;
            assert!((500..500 + 64).contains(&held), "{held} rows are kept");
            let (mut next, mut bytes) = (0, Vec::new());
            while next < 500 {
                let part = queue.contiguous_rows(next, 500);
                bytes.extend_from_slice(part);
                next += part.len() as u64 / 8;
            }
            assert_eq!(bytes, (0..500).flat_map(row).collect::<Vec<u8>>());
            queue.end_snapshot();
            assert_eq!(queue.contiguous_rows(0, 500), [0; 0].as_slice());
        }
    }

    #[test]
    fn a_truncated_queue_goes_on_as_if_the_rows_had_never_been_pushed() {
        for expected in [1, 64, 1_000] {
            for n_kept in [0, 1, 63, 64, 65, 100, 399] {
                let mut queue = ChunkQueue::new(8, expected);
                (0..400).for_each(|number| queue.push(&row(number)));
                queue.release_before(30);
                queue.truncate(n_kept);
                assert_eq!((queue.start(), queue.end()), (30, n_kept.max(30)));
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
    fn the_row_after_the_last_of_a_chunk_is_the_first_of_the_next() {
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
