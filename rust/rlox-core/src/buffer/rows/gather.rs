//! Copies rows out of memory.

use std::ops::Range;

use super::chunks::lower_half;
use super::layout::{self, TERMINATED, TRUNCATED, lower_half_at};
use super::memory::MemoryRows;
use super::obs::{self, ObsKey, ObsKind, Observations};
use super::{Rings, RowRef, Rows, width};
use crate::buffer::batch::Batch;
use crate::buffer::schema::Schema;
use crate::error::Result;
use crate::interrupt;

/// Bytes of an array that are copied between two checks for interruption.
const PIECE: usize = 64 << 20;

impl Rows for MemoryRows {
    fn schema(&self) -> &Schema {
        self.schema()
    }

    fn rings(&self) -> &Rings {
        self.rings()
    }

    fn gather(&self, rows: &[RowRef], ends: &[RowRef], out: &mut Batch<'_, '_>) -> Result<()> {
        // First, because it brings the records into the cache.
        self.gather_indices_and_flags(rows, ends, out);
        let same_rows = std::ptr::eq(rows, ends) && !out.next_obs.is_empty();
        if same_rows {
            let arrays = out.obs.iter_mut().zip(out.next_obs.iter_mut());
            for (column, ((now, next), &width)) in arrays.zip(&self.layout.obs_bytes).enumerate() {
                for_each_piece(rows.len(), width, |part| {
                    let bytes = part.start * width..part.end * width;
                    let (now, next) = (now.get_mut(bytes.clone()), next.get_mut(bytes));
                    let out = (now.unwrap_or_default(), next.unwrap_or_default());
                    self.gather_obs_pairs(column, rows.get(part).unwrap_or_default(), out);
                })?;
            }
        } else {
            for (column, now) in out.obs.iter_mut().enumerate() {
                self.gather_obs(column, ObsKind::Obs, rows, now)?;
            }
            for (column, next) in out.next_obs.iter_mut().enumerate() {
                self.gather_obs(column, ObsKind::NextObs, ends, next)?;
            }
        }
        for (&(offset, width), out) in self.layout.columns.iter().zip(out.columns.iter_mut()) {
            let stride = self.layout.stride;
            for_each_piece(rows.len(), width, |part| {
                let out = out.get_mut(part.start * width..part.end * width).unwrap_or_default();
                let rows = rows.get(part).unwrap_or_default();
                let places = rows.iter().map(|row| row.slot as usize * stride);
                width::gather(&self.records, places, offset, width, out);
            })?;
        }
        Ok(())
    }

    fn visit_rewards(
        &self,
        first: RowRef,
        end: u64,
        visit: &mut dyn FnMut(RowRef, f64, u8) -> bool,
    ) -> Result<()> {
        for position in first.position..end {
            let row = self.rings.row(first.env as usize, position);
            let (reward, flags) = self.layout.reward_and_flags(self.record(row));
            if !visit(row, reward, flags) {
                break;
            }
        }
        Ok(())
    }
}

/// Calls `copy` for `rows` rows of `width` bytes, about [`PIECE`] bytes at a time.
fn for_each_piece(rows: usize, width: usize, mut copy: impl FnMut(Range<usize>)) -> Result<()> {
    // Few rows need no division. It would take as long as copying some of them.
    let is_small = rows.saturating_mul(width) <= PIECE;
    let piece_rows = if is_small { rows } else { (PIECE / width.max(1)).max(1) };
    let mut start = 0;
    while start < rows {
        interrupt::check()?;
        let end = rows.min(start + piece_rows);
        copy(start..end);
        start = end;
    }
    Ok(())
}

impl MemoryRows {
    /// Returns the record of a row.
    #[inline]
    pub(super) fn record(&self, row: RowRef) -> &[u8] {
        layout::record(&self.records, row.slot as usize * self.layout.stride, self.layout.stride)
    }

    /// Copies an observation column of `rows` into `out`, `[rows, ...]` bytes.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn gather_obs(&self, column: usize, kind: ObsKind, rows: &[RowRef], out: &mut [u8]) -> Result<()> {
        let Some((width, envs)) = self.observations(column) else { return Ok(()) };
        for_each_piece(rows.len(), width, |part| {
            let out = out.get_mut(part.start * width..part.end * width).unwrap_or_default();
            let items = self.items(column, envs, rows.get(part).unwrap_or_default());
            let items = items.map(|(now, next)| if kind == ObsKind::Obs { now } else { next });
            obs::gather(envs, items, width, out);
        })
    }

    /// Same as [`MemoryRows::gather_obs`], for observations and next observations at once.
    pub(super) fn gather_obs_pairs(
        &self,
        column: usize,
        rows: &[RowRef],
        (now, next): (&mut [u8], &mut [u8]),
    ) {
        let Some((width, envs)) = self.observations(column) else { return };
        if let [Observations::Plain(queue)] = envs {
            let newest = lower_half(queue.end()).wrapping_sub(1);
            let numbers = rows
                .iter()
                .map(|row| lower_half_at(&self.records, row.slot as usize * self.layout.stride + 4 * column));
            let numbers: Vec<u32> = numbers.collect();
            if obs::gather_neighbours(queue, &numbers, newest, width, (now, next)) {
                return;
            }
        }
        obs::gather_pairs(envs, self.items(column, envs, rows), width, now, next);
    }

    /// Returns the size of an observation in bytes, and the observations of each environment.
    fn observations(&self, column: usize) -> Option<(usize, &[Observations])> {
        Some((*self.layout.obs_bytes.get(column)?, self.obs.get(column)?))
    }

    /// Returns the observation and the next observation of each row.
    fn items<'a>(
        &'a self,
        column: usize,
        envs: &'a [Observations],
        rows: &'a [RowRef],
    ) -> impl Iterator<Item = (ObsKey, ObsKey)> + 'a {
        let newest = |env: usize| {
            envs.get(env).map_or(0, |observations| lower_half(observations.items().end())).wrapping_sub(1)
        };
        let only_newest = (envs.len() == 1).then(|| newest(0));
        rows.iter().map(move |row| {
            let env = row.env as usize;
            let newest = only_newest.unwrap_or_else(|| newest(env));
            let number = lower_half_at(&self.records, row.slot as usize * self.layout.stride + 4 * column);
            // The newest row may not have its next observation yet. Its own observation replaces
            // it.
            let next = if number == newest { number } else { number.wrapping_add(1) };
            ((env, number), (env, next))
        })
    }

    /// Writes the index of each of `rows` and the flags of each of `ends`. Each row needs one access
    /// to a record.
    // A separate function, like those in `width`, so that its counters stay in registers.
    #[inline(never)]
    fn gather_indices_and_flags(&self, rows: &[RowRef], ends: &[RowRef], out: &mut Batch<'_, '_>) {
        let n = self.rings.n_envs() as u64;
        let (stride, offset) = (self.layout.stride, self.layout.flags_offset);
        let flags = out.terminated.iter_mut().zip(out.truncated.iter_mut());
        let heads = out.indices.as_chunks_mut().0.iter_mut().zip(flags);
        for ((row, end), (index, (terminated, truncated))) in rows.iter().zip(ends).zip(heads) {
            let [flags] = layout::read_array(&self.records, end.slot as usize * stride + offset);
            *terminated = flags & TERMINATED;
            *truncated = (flags & TRUNCATED) / TRUNCATED;
            *index = (row.position * n + u64::from(row.env)).to_ne_bytes();
        }
    }
}
