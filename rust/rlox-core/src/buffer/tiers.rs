//! Copying rows of both tiers out, and blocks of rows in.

use std::ops::Range;

use super::cold::{Cold, Scratch};
use super::storage::{Rows, Storage, TERMINATED, TRUNCATED, Target};
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
    /// Copies rows out; cold ones are read from disk and checked. `out` are the arrays of a batch
    /// as for [`Storage::fill`] without a horizon.
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] for a row that is not what was written, [`crate::Error::Storage`] if the
    /// disk refuses.
    pub fn fill(&self, picks: &[Pick], out: &mut [&mut [u8]]) -> Result<()> {
        let (cold, storage) = (self.open()?, self.storage());
        let n = storage.streams.len() as u64;
        let mut scratch = Scratch::default();
        for (at, pick) in picks.iter().enumerate() {
            let parts = out.iter_mut().map(|all| row_of(all, at, picks.len()));
            let mut row: Vec<&mut [u8]> = parts.collect();
            let index = pick.position * n + pick.stream as u64;
            match storage.held(index) {
                Some(hot) => storage.fill(&[hot], None, &mut row),
                None => read_row(cold, storage, *pick, &mut row, &mut scratch)?,
            }
        }
        Ok(())
    }
}

/// Copies a row from disk into `out`, one row of each array of a batch.
fn read_row(
    cold: &Cold,
    storage: &Storage,
    pick: Pick,
    out: &mut [&mut [u8]],
    scratch: &mut Scratch,
) -> Result<()> {
    let Pick { stream, position } = pick;
    cold.record(storage, stream, position, scratch)?;
    let n_obs = storage.obs.len();
    for (at, out) in out.iter_mut().take(2 * n_obs).enumerate() {
        let (column, ahead) = (at % n_obs, u64::from(at >= n_obs));
        cold.obs(storage, (stream, column, ahead), out, scratch)?;
    }
    let layout = &storage.layout;
    let flags = scratch.record.get(layout.flags).copied().unwrap_or(0);
    let index = (position * storage.streams.len() as u64 + stream as u64).to_ne_bytes();
    let [terminated, truncated] = [TERMINATED, TRUNCATED].map(|flag| [u8::from(flags & flag != 0)]);
    let columns = layout
        .columns
        .iter()
        .map(|&(offset, width)| scratch.record.get(offset..offset + width).unwrap_or_default());
    let rest = columns.chain([terminated.as_slice(), &truncated, &index]);
    for (out, bytes) in out.iter_mut().skip(2 * n_obs).zip(rest) {
        out.copy_from_slice(bytes);
    }
    Ok(())
}

/// Row `at` of `[rows, ...]` bytes.
fn row_of(out: &mut [u8], at: usize, rows: usize) -> &mut [u8] {
    let width = out.len().checked_div(rows).unwrap_or(0);
    out.get_mut(at * width..(at + 1) * width).unwrap_or_default()
}
