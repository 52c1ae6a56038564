//! Finding rows and copying them out.

use super::chunks::lower;
use super::draw::Draws;
use super::obs::{self, Item, Observations};
use super::storage::{Row, Storage, TERMINATED, TRUNCATED, number_at};
use super::stream::Stream;
use super::width;
use crate::error::{Error, Result};

/// Which observation of a row is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// The one acted on.
    Now,
    /// The one that the action led to.
    Next,
}

impl Storage {
    /// The index of a row: its position times the number of streams plus its stream. Rows pushed
    /// for every environment at once get consecutive indices; an index is never used again.
    #[must_use]
    #[inline]
    pub fn index(&self, row: Row) -> u64 {
        row.position * self.streams.len() as u64 + u64::from(row.stream)
    }

    /// The row with an index.
    ///
    /// # Errors
    /// [`Error::StaleIndex`] if it was overwritten or never written.
    pub fn find(&self, index: u64) -> Result<Row> {
        self.held(index).ok_or_else(|| Error::StaleIndex { index, held: self.held_range() })
    }

    /// The row with an index, None if it is not held.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_STREAMS")]
    pub fn held(&self, index: u64) -> Option<Row> {
        let n = self.streams.len() as u64;
        let (position, stream) = (index.checked_div(n)?, (index % n) as usize);
        let state = self.streams.get(stream)?;
        let held = (state.start..state.pushed).contains(&position);
        held.then(|| self.row(stream, position))
    }

    /// The lowest and the highest index held, as text.
    fn held_range(&self) -> String {
        let n = self.streams.len() as u64;
        let filled = self.streams.iter().enumerate().filter(|(_, state)| state.len() > 0);
        let ends = filled
            .map(|(i, state)| (state.start * n + i as u64, (state.pushed - 1) * n + i as u64));
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .map_or("no rows".to_owned(), |(low, high)| format!("rows {low} to {high}"))
    }

    /// The rows held, stream after stream, oldest first.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        let streams = self.streams.iter().enumerate();
        streams.flat_map(move |(stream, state)| {
            (state.start..state.pushed).map(move |position| self.row(stream, position))
        })
    }

    /// The row in a slot of the whole buffer, `0..capacity()`; None if it is empty.
    #[must_use]
    pub fn in_slot(&self, slot: usize) -> Option<Row> {
        let (stream, place) = (slot / self.capacity, slot % self.capacity);
        let position = self.streams.get(stream)?.position(place, self.capacity)?;
        Some(self.row(stream, position))
    }

    /// The slot of a row, which stays the same while it is held.
    #[must_use]
    pub const fn slot(&self, row: Row) -> usize {
        row.record / self.layout.stride
    }

    /// The held row of a stream at a position.
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_STREAMS")]
    #[inline]
    pub(super) fn row(&self, stream: usize, position: u64) -> Row {
        let slot = self.streams.get(stream).map_or(0, |state| state.slot(position, self.capacity));
        let record = (stream * self.capacity + slot) * self.layout.stride;
        Row { position, record, stream: stream as u32 }
    }

    /// Draws `count` held rows, each uniform and independent, with replacement.
    pub(super) fn draw(&self, draws: &mut Draws, count: usize, rows: &mut Vec<Row>) {
        if let [state] = self.streams.as_slice() {
            return self.draw_from(state, draws, count, rows);
        }
        let len = self.len();
        let n = self.streams.len();
        let equal = self.streams.first().map_or(0, Stream::len);
        if self.streams.iter().all(|state| state.len() == equal) {
            rows.extend((0..count).map(|_| {
                let draw = draws.below(len);
                let (stream, ahead) = (draw % n, draw / n);
                let start = self.streams.get(stream).map_or(0, |state| state.start);
                self.row(stream, start + ahead as u64)
            }));
            return;
        }
        let mut ends = Vec::with_capacity(n);
        self.streams.iter().fold(0, |before, state| {
            ends.push(before + state.len());
            before + state.len()
        });
        rows.extend((0..count).map(|_| {
            let draw = draws.below(len);
            let stream = ends.partition_point(|&end| end <= draw);
            let before = stream.checked_sub(1).and_then(|at| ends.get(at)).copied().unwrap_or(0);
            let start = self.streams.get(stream).map_or(0, |state| state.start);
            self.row(stream, start + (draw - before) as u64)
        }));
    }

    /// [`Storage::draw`] from the only stream.
    fn draw_from(&self, state: &Stream, draws: &mut Draws, count: usize, rows: &mut Vec<Row>) {
        let (len, stride, end) = (state.len(), self.layout.stride, self.capacity);
        let oldest = state.slot(state.start, end);
        rows.extend((0..count).map(|_| {
            let ahead = draws.below(len);
            let slot = oldest + ahead;
            let slot = if slot < end { slot } else { slot - end };
            Row { position: state.start + ahead as u64, record: slot * stride, stream: 0 }
        }));
    }

    /// Copies an observation column of `rows` into `out`, `[rows, ...]` bytes.
    pub fn gather_obs(&self, column: usize, moment: Moment, rows: &[Row], out: &mut [u8]) {
        let Some((width, streams)) = self.observations(column) else { return };
        let items = self.items(column, streams, rows);
        let items = items.map(|(now, next)| if moment == Moment::Now { now } else { next });
        obs::gather(streams, items, width, out);
    }

    /// [`Storage::gather_obs`] of both moments at once.
    pub(super) fn gather_both(&self, column: usize, rows: &[Row], now: &mut [u8], next: &mut [u8]) {
        let Some((width, streams)) = self.observations(column) else { return };
        if let [Observations::Plain(all)] = streams {
            let newest = lower(all.end()).wrapping_sub(1);
            let numbers = rows.iter().map(|row| number_at(&self.records, row.record + 4 * column));
            let numbers: Vec<u32> = numbers.collect();
            if obs::gather_neighbours(all, &numbers, newest, width, (now, next)) {
                return;
            }
        }
        obs::gather_pairs(streams, self.items(column, streams, rows), width, now, next);
    }

    /// Bytes of an observation, and the observations of each stream.
    fn observations(&self, column: usize) -> Option<(usize, &[Observations])> {
        Some((*self.layout.obs.get(column)?, self.obs.get(column)?))
    }

    /// The observations of each row: acted on, and led to.
    fn items<'a>(
        &'a self,
        column: usize,
        streams: &'a [Observations],
        rows: &'a [Row],
    ) -> impl Iterator<Item = (Item, Item)> + 'a {
        let newest = |stream: usize| {
            streams.get(stream).map_or(0, |all| lower(all.items().end())).wrapping_sub(1)
        };
        let only = (streams.len() == 1).then(|| newest(0));
        rows.iter().map(move |row| {
            let stream = row.stream as usize;
            let newest = only.unwrap_or_else(|| newest(stream));
            let number = number_at(&self.records, row.record + 4 * column);
            // The newest row may still wait for what follows: its own observation stands in.
            let next = if number == newest { number } else { number.wrapping_add(1) };
            ((stream, number), (stream, next))
        })
    }

    /// Copies a column of `rows` into `out`, `[rows, ...]` bytes.
    pub fn gather_column(&self, column: usize, rows: &[Row], out: &mut [u8]) {
        if let Some(&(offset, width)) = self.layout.columns.get(column) {
            let places = rows.iter().map(|row| row.record);
            width::gather(&self.records, places, offset, width, out);
        }
    }

    /// [`Storage::gather_flags`] and the index of each row: what a single look at a record gives.
    pub(super) fn gather_heads(
        &self,
        rows: &[Row],
        terminated: &mut [u8],
        truncated: &mut [u8],
        indices: &mut [[u8; 8]],
    ) {
        let n = self.streams.len() as u64;
        let flags = terminated.iter_mut().zip(truncated);
        for ((row, index), (terminated, truncated)) in rows.iter().zip(indices).zip(flags) {
            let flags = self.flags(*row);
            *terminated = flags & TERMINATED;
            *truncated = (flags & TRUNCATED) / TRUNCATED;
            *index = (row.position * n + u64::from(row.stream)).to_ne_bytes();
        }
    }

    /// Copies the flags of `rows`, `[rows]` each, as 0 and 1.
    pub fn gather_flags(&self, rows: &[Row], terminated: &mut [u8], truncated: &mut [u8]) {
        for ((row, terminated), truncated) in rows.iter().zip(terminated).zip(truncated) {
            let flags = self.flags(*row);
            *terminated = u8::from(flags & TERMINATED != 0);
            *truncated = u8::from(flags & TRUNCATED != 0);
        }
    }

    /// The flags of a row.
    #[inline]
    pub(super) fn flags(&self, row: Row) -> u8 {
        self.records.get(row.record + self.layout.flags).copied().unwrap_or(0)
    }

    /// Writes `values`, `[indices, ...]` bytes, into a column; returns how many of `indices` are
    /// no longer held and were passed over.
    ///
    /// # Errors
    /// [`Error::Shape`] if there is not one value per index. Nothing is written then.
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        let Some(&(offset, width)) = self.layout.columns.get(column) else { return Ok(0) };
        let expected = indices.len() * width;
        crate::error::check_len("values", values.len(), expected, "bytes, one row per index")?;
        self.changes.updates += 1;
        let mut stale = 0;
        for (&index, value) in indices.iter().zip(values.chunks_exact(width)) {
            let Some(row) = self.held(index) else {
                stale += 1;
                continue;
            };
            let start = row.record + offset;
            if let Some(slot) = self.records.get_mut(start..start + width) {
                slot.copy_from_slice(value);
            }
        }
        Ok(stale)
    }
}
