//! Rules that stored rows follow. Rows that break a rule were never pushed.

use crate::buffer::rows::{EnvRing, lower_half_at};
use crate::error::{Error, Result};

/// Checks the records of one environment in order.
///
/// - The observation of a row comes directly after that of the row before, or one observation lies
///   between them: the next observation of the row before. (If both have the same bytes, only one is
///   stored, and none lies between. Where a buffer was reopened, several may lie between.)
/// - Every observation and frame that a record refers to exists.
/// - After a row that ends an episode comes a row that begins one.
#[derive(Debug)]
pub(in crate::buffer) struct RecordChecker<'a> {
    ring: &'a EnvRing,
    /// Offset of the flags in a record.
    flags_offset: usize,
    /// Range of the numbers of each observation column's queue.
    item_ranges: Vec<(u64, u64)>,
    /// Number of the newest row's observation in each column.
    newest: Vec<Option<u64>>,
    /// Number of the oldest row's observation in each column.
    oldest: Vec<u64>,
    has_ended: bool,
    /// Whether the queues have no observation of a row that left the buffer.
    has_only_live_rows: bool,
}

impl<'a> RecordChecker<'a> {
    /// Makes a checker of the rows of `ring`. `has_only_live_rows` says that the queues have no
    /// observation of a row that left the buffer.
    pub(in crate::buffer) fn new(
        ring: &'a EnvRing,
        flags_offset: usize,
        item_ranges: Vec<(u64, u64)>,
        has_only_live_rows: bool,
    ) -> Self {
        let newest = vec![None; item_ranges.len()];
        let oldest = vec![0; item_ranges.len()];
        Self { ring, flags_offset, item_ranges, newest, oldest, has_ended: false, has_only_live_rows }
    }

    /// Checks the next record, which is that of the row at `position`.
    pub(in crate::buffer) fn check_record(&mut self, position: u64, record: &[u8]) -> Result<()> {
        let begins_episode = self.ring.is_first(position);
        if self.has_only_live_rows && self.has_ended && !begins_episode {
            return Err(Error::snapshot("episodes", format!("none at {position}"), "one after an end"));
        }
        let numbers = self.newest.iter_mut().zip(&mut self.oldest);
        for (column, (range, (newest, oldest))) in self.item_ranges.iter().zip(numbers).enumerate() {
            let &(start, end) = range;
            let number = full_number(end, lower_half_at(record, column.saturating_mul(4)));
            // Each time a buffer was reopened at this position, a newest row may have been left
            // out.
            let may_skip = begins_episode && !self.has_only_live_rows;
            let is_next = match *newest {
                Some(previous) if may_skip => number > previous,
                Some(previous_number) => {
                    number.checked_sub(previous_number).is_some_and(|by| by == 1 || by == 2)
                }
                None if self.has_only_live_rows => number.checked_sub(start).is_some_and(|by| by <= 1),
                None => number >= start,
            };
            if !is_next || number >= end {
                let expected = format!("one that follows, of {start} to {end}");
                let got = format!("{number} at row {position}");
                return Err(Error::snapshot("observation number", got, expected));
            }
            if newest.replace(number).is_none() {
                *oldest = number;
            }
        }
        self.has_ended = record.get(self.flags_offset) != Some(&0);
        if record.get(self.flags_offset).is_none_or(|&flags| flags > 3) {
            return Err(Error::snapshot("flags", format!("others at row {position}"), "0 to 3"));
        }
        Ok(())
    }

    /// Returns the number of the oldest row's observation in each column.
    pub(in crate::buffer) fn oldest(&self) -> Vec<u64> {
        self.oldest.clone()
    }

    /// Checks the end state after the last record.
    pub(in crate::buffer) fn check_end(&self) -> Result<()> {
        let (ring, has_rows) = (self.ring, self.newest.first().is_some_and(Option::is_some));
        if self.has_ended && (ring.awaits_next_obs || !ring.begins_episode) {
            return Err(Error::snapshot("streams", "an episode that goes on", "one that has ended"));
        }
        let is_covered = ring.episode_starts.front().is_some_and(|&first| first <= ring.start);
        if self.has_only_live_rows && has_rows && !is_covered {
            let expected = "increasing positions that cover the rows held";
            return Err(Error::snapshot("episodes", format!("{:?}", ring.episode_starts), expected));
        }
        let expected_distance = if ring.awaits_next_obs { 1 } else { 2 };
        for (&(_, end), newest) in self.item_ranges.iter().zip(&self.newest) {
            let is_valid = |&newest: &u64| {
                let distance = end.checked_sub(newest);
                distance.is_some_and(|by| {
                    if self.has_only_live_rows { by == expected_distance } else { by >= expected_distance }
                })
            };
            if !newest.as_ref().is_none_or(is_valid) {
                return Err(Error::snapshot("queues", end, "the newest row's observations"));
            }
        }
        Ok(())
    }
}

/// Returns the number that has this lower half, among the last 2^32 numbers up to `end`.
///
/// [`ChunkQueue`] computes the number in the same way.
///
/// [`ChunkQueue`]: crate::buffer::rows::ChunkQueue
const fn full_number(end: u64, lower: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    let distance = (end as u32).wrapping_sub(lower);
    end.wrapping_sub(distance as u64)
}

/// Checks the frames of stacks in order.
///
/// A frame of a stack is new, or it is the frame at the same place or at the next place of the stack
/// before, or the frame before it in its own stack. New frames have consecutive numbers.
#[derive(Debug)]
pub(in crate::buffer) struct StackChecker {
    range: (u64, u64),
    previous: Vec<u64>,
    /// Number of the next new frame. None until a new frame was checked.
    next_new: Option<u64>,
    /// Number of the oldest frame of the first stack.
    oldest: u64,
}

impl StackChecker {
    /// Makes a checker of stacks whose frames have numbers in this range.
    pub(in crate::buffer) const fn new(range: (u64, u64)) -> Self {
        Self { range, previous: Vec::new(), next_new: None, oldest: range.0 }
    }

    /// Returns the oldest frame that a stack refers to. It belongs to the first stack, because
    /// later stacks share frames only with the stacks before them.
    pub(in crate::buffer) const fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Checks the next stack, which consists of the lower halves of its frames' numbers.
    pub(in crate::buffer) fn check_stack(&mut self, lower_halves: &[u8]) -> Result<()> {
        let (start, end) = self.range;
        let halves = lower_halves.as_chunks().0.iter().map(|half| u32::from_ne_bytes(*half));
        let numbers: Vec<u64> = halves.map(|half| full_number(end, half)).collect();
        let mut neighbour = None;
        for (place, &number) in numbers.iter().enumerate() {
            let candidates =
                [self.previous.get(place.saturating_add(1)), neighbour, self.previous.get(place)];
            let is_shared = candidates.into_iter().flatten().any(|&shared| shared == number);
            let is_new = match self.next_new {
                Some(next) => number == next,
                None => self.previous.iter().chain(neighbour).all(|&other| other < number),
            };
            let is_first_stack = self.previous.is_empty();
            if !(start..end).contains(&number) || !(is_shared || is_new || is_first_stack) {
                let expected = format!("one that follows, of {start} to {end}");
                return Err(Error::snapshot("frame number", number, expected));
            }
            if !is_shared && !is_first_stack {
                self.next_new = Some(number.saturating_add(1));
            }
            neighbour = numbers.get(place);
        }
        if self.previous.is_empty() {
            self.oldest = numbers.iter().copied().min().unwrap_or(start);
        }
        self.previous = numbers;
        Ok(())
    }
}
