//! A save that is on its way. Rows are copied out piece by piece, each under the buffer's lock, and
//! written and forced to the device without it; what is pushed meanwhile is not part of the save.

use std::sync::Arc;

use super::archive::Archive;
use crate::buffer::rows::{MemoryRows, Source, layout_of, sources};
use crate::error::Result;
use crate::interrupt;
use crate::store::{ColumnPlan, Folder, SegmentRef, SegmentWriter};

/// Bytes copied at a time, about: a reader that wants to push waits no longer than for these.
const PIECE: usize = 1 << 20;

/// A segment being written.
#[derive(Debug)]
pub(in crate::buffer) struct Sealing {
    number: u64,
    writer: SegmentWriter,
    all: Vec<Source>,
    from: Vec<u64>,
    updates: u64,
    /// Source being copied, and the number of its next row.
    at: (usize, u64),
    piece: Vec<u8>,
}

impl Sealing {
    /// Begins a segment of the rows that are not sealed yet; None if there are none. From then on
    /// `rows` hold what they had, until [`MemoryRows::let_go`].
    pub(in crate::buffer) fn begin(
        archive: &mut Archive,
        rows: &mut MemoryRows,
        folder: &Arc<Folder>,
    ) -> Result<Option<Self>> {
        let all = sources(rows);
        let Some(from) = archive.unsealed(rows, &all) else { return Ok(None) };
        Self::of(rows, folder, all, from).map(Some)
    }

    /// As [`Sealing::begin`]; rows of a small newest segment are sealed again if all are in memory.
    pub(in crate::buffer) fn begin_again(
        archive: &mut Archive,
        rows: &mut MemoryRows,
        folder: &Arc<Folder>,
        small: u64,
    ) -> Result<Option<(Self, bool)>> {
        let all = sources(rows);
        let Some(from) = archive.unsealed(rows, &all) else { return Ok(None) };
        let reopened = archive.reopened(&all, small);
        let again = reopened.is_some();
        let sealing = Self::of(rows, folder, all, reopened.unwrap_or(from))?;
        Ok(Some((sealing, again)))
    }

    fn of(
        rows: &mut MemoryRows,
        folder: &Arc<Folder>,
        all: Vec<Source>,
        from: Vec<u64>,
    ) -> Result<Self> {
        let columns = all.iter().zip(&from).map(|(source, &from)| ColumnPlan {
            name: source.name.clone(),
            row_bytes: source.row_bytes,
            first: from,
            rows: source.end.saturating_sub(from),
        });
        let meta = layout_of(rows);
        let (number, writer) = folder.begin_segment(columns.collect(), meta.as_bytes())?;
        rows.hold();
        let first = from.first().copied().unwrap_or(0);
        Ok(Self {
            number,
            writer,
            updates: rows.updates,
            all,
            from,
            at: (0, first),
            piece: Vec::with_capacity(PIECE),
        })
    }

    /// Copies the next piece out of `rows`; false if nothing is left.
    pub(in crate::buffer) fn copy(&mut self, rows: &MemoryRows) -> bool {
        self.piece.clear();
        while let Some(source) = self.all.get(self.at.0) {
            let (_, number) = self.at;
            if number >= source.end {
                let next = self.at.0.saturating_add(1);
                self.at = (next, self.from.get(next).copied().unwrap_or(0));
                continue;
            }
            let part = rows.part(source, number);
            let left = PIECE.saturating_sub(self.piece.len());
            let room = left.checked_div(source.row_bytes).unwrap_or(0);
            // Rows that are larger than a piece come one by one.
            let most = if self.piece.is_empty() { room.max(1) } else { room };
            let bytes = part.len().min(most.saturating_mul(source.row_bytes));
            if bytes == 0 {
                break;
            }
            self.piece.extend_from_slice(part.get(..bytes).unwrap_or_default());
            let rows = bytes.checked_div(source.row_bytes).unwrap_or(0);
            self.at.1 = self.at.1.saturating_add(rows as u64);
        }
        !self.piece.is_empty()
    }

    /// Writes the segment and puts it in its place, durably; `copy` has [`Sealing::copy`] copy each
    /// piece, while nobody writes to the rows.
    ///
    /// # Errors
    /// Those of `copy`; [`Error::Storage`](crate::Error::Storage) if the disk refuses,
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(in crate::buffer) fn write(
        mut self,
        mut copy: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<Finished> {
        while copy(&mut self)? {
            self.writer.write(&self.piece)?;
            interrupt::check()?;
        }
        let Self { number, writer, all, from, updates, .. } = self;
        let (checksum, bytes) = writer.finish()?;
        Ok(Finished { reference: SegmentRef { number, checksum, bytes }, all, from, updates })
    }
}

/// A segment that was written.
#[derive(Debug)]
pub(in crate::buffer) struct Finished {
    pub reference: SegmentRef,
    all: Vec<Source>,
    from: Vec<u64>,
    updates: u64,
}

impl Finished {
    /// Lists the segment; `again` if it has the rows of the newest.
    pub(in crate::buffer) fn list(self, archive: &mut Archive, again: bool) -> SegmentRef {
        if again {
            archive.forget_newest();
        }
        archive.sealed(self.reference, &self.all, &self.from, self.updates);
        self.reference
    }
}
