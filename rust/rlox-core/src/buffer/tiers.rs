//! Copying rows of both tiers out, and blocks of rows in.

use std::ops::Range;

use super::cold::Scratch;
use super::horizon::Batch;
use super::rows::Moment;
use super::storage::{Row, Rows, Storage, TERMINATED, TRUNCATED, Target};
use super::tiered::{MmapReplayBuffer, Pick};
use crate::error::Result;

impl Storage {
    /// Stores rows `part` of `rows`, which were checked; all of them for [`Target::Each`].
    pub(super) fn push_part(&mut self, target: Target<'_>, rows: &Rows<'_>, part: Range<usize>) {
        if let Target::Stream(stream) = target {
            return self.push_block(stream, rows, part.start, part.end, &mut |_| {});
        }
        for row in part {
            let stream = if let Target::Ids(ids) = target { ids.get(row).copied() } else { None };
            self.push_block(stream.unwrap_or(row), rows, row, row + 1, &mut |_| {});
        }
    }
}

impl MmapReplayBuffer {
    /// Copies rows out; cold ones are read from disk and checked.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a row that is not what was written, [`Error::Storage`] if the disk
    /// refuses.
    pub fn fill(&self, picks: &[Pick], batch: Batch<'_>) -> Result<()> {
        let (cold, storage) = (self.open()?, self.storage());
        let n = storage.streams.len() as u64;
        let mut scratch = Scratch::default();
        for (at, (pick, index)) in picks.iter().zip(batch.indices.iter_mut()).enumerate() {
            *index = pick.position * n + pick.stream as u64;
            let hot = storage.held(*index);
            if hot.is_none() {
                cold.record(storage, pick.stream, pick.position, &mut scratch)?;
            }
            for (moment, outs) in
                [(Moment::Now, &mut *batch.obs), (Moment::Next, &mut *batch.next_obs)]
            {
                for (column, out) in outs.iter_mut().enumerate() {
                    let out = row_of(out, at, picks.len());
                    let ahead = u64::from(moment == Moment::Next);
                    match hot {
                        Some(row) => storage.gather_obs(column, moment, &[row], out),
                        None => {
                            cold.obs(storage, (pick.stream, column, ahead), out, &mut scratch)?;
                        }
                    }
                }
            }
            let flags = self.fill_record(hot, &scratch.record, at, picks.len(), batch.columns);
            for (flag, outs) in
                [(TERMINATED, &mut *batch.terminated), (TRUNCATED, &mut *batch.truncated)]
            {
                if let Some(out) = outs.get_mut(at) {
                    *out = u8::from(flags & flag != 0);
                }
            }
        }
        Ok(())
    }

    /// Copies the columns of one record; returns its flags.
    fn fill_record(
        &self,
        hot: Option<Row>,
        record: &[u8],
        at: usize,
        rows: usize,
        outs: &mut [&mut [u8]],
    ) -> u8 {
        let (storage, layout) = (self.storage(), &self.storage().layout);
        for (column, (out, &(offset, width))) in outs.iter_mut().zip(&layout.columns).enumerate() {
            let out = row_of(out, at, rows);
            match (hot, record.get(offset..offset + width)) {
                (Some(row), _) => storage.gather_column(column, &[row], out),
                (None, Some(bytes)) => out.copy_from_slice(bytes),
                (None, None) => {}
            }
        }
        let cold = record.get(layout.flags).copied().unwrap_or(0);
        hot.map_or(cold, |row| storage.flags(row))
    }
}

/// Row `at` of `[rows, ...]` bytes.
fn row_of(out: &mut [u8], at: usize, rows: usize) -> &mut [u8] {
    let width = out.len().checked_div(rows).unwrap_or(0);
    out.get_mut(at * width..(at + 1) * width).unwrap_or_default()
}
