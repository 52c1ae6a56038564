//! Writes a segment while other threads use the buffer.
//!
//! Rows are copied in pieces, each under the buffer's lock. They are written and synced without the
//! lock. Rows that are pushed in the meantime are not part of the save.

use std::sync::Arc;

use super::archive::Archive;
use crate::buffer::rows::{MemoryRows, Source, layout_of, sources};
use crate::error::Result;
use crate::interrupt;
use crate::store::{ColumnPlan, Folder, SegmentRef, SegmentWriter};

/// Bytes that are copied at a time, approximately. A push waits no longer than one such copy.
const PIECE: usize = 1 << 20;

/// A segment that is being written.
#[derive(Debug)]
pub(in crate::buffer) struct Sealing {
    number: u64,
    writer: SegmentWriter,
    all: Vec<Source>,
    from: Vec<u64>,
    updates: u64,
    /// The source that is being copied, and the number of its next row.
    at: (usize, u64),
    piece: Vec<u8>,
}

impl Sealing {
    /// Begins a segment of the rows that are not sealed yet. None if every row is sealed.
    ///
    /// From then on, until [`MemoryRows::let_go`], the present content of `rows` can be read.
    pub(in crate::buffer) fn begin(
        archive: &mut Archive,
        rows: &mut MemoryRows,
        folder: &Arc<Folder>,
    ) -> Result<Option<Self>> {
        let all = sources(rows);
        let Some(from) = archive.unsealed(rows, &all) else { return Ok(None) };
        Self::of(rows, folder, all, from).map(Some)
    }

    /// Same as [`Sealing::begin`], but seals the rows of a small newest segment again if all of
    /// them are in memory.
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

    /// Copies the next piece of `rows`. Returns false if every row is copied.
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
            // Rows that are larger than a piece are copied one at a time.
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

    /// Writes the segment and makes it durable under its name.
    ///
    /// `copy` calls [`Sealing::copy`] for each piece while no thread writes to the rows.
    ///
    /// # Errors
    /// The errors of `copy`, [`Error::Storage`](crate::Error::Storage) if the disk fails, and
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

/// A segment that is written and durable.
#[derive(Debug)]
pub(in crate::buffer) struct Finished {
    pub reference: SegmentRef,
    all: Vec<Source>,
    from: Vec<u64>,
    updates: u64,
}

impl Finished {
    /// Lists the segment. The flag says that it replaces the newest segment.
    pub(in crate::buffer) fn list(self, archive: &mut Archive, again: bool) -> SegmentRef {
        if again {
            archive.forget_newest();
        }
        archive.sealed(self.reference, &self.all, &self.from, self.updates);
        self.reference
    }
}
