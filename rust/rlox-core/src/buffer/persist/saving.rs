//! Writes a segment while other threads use the buffer.
//!
//! Rows are copied in pieces, each under the buffer's lock. They are written and synced without the
//! lock. Rows that are pushed in the meantime are not part of the save.

use std::sync::Arc;

use super::archive::Archive;
use crate::buffer::rows::{MemoryRows, Source, describe_columns, sources};
use crate::error::Result;
use crate::interrupt;
use crate::store::{ColumnPlan, Folder, SegmentRef, SegmentWriter};

/// Bytes that are copied at a time, approximately. A push waits no longer than one such copy.
const PIECE: usize = 1 << 20;

/// A segment that is being written.
#[derive(Debug)]
pub(in crate::buffer) struct PendingSegment {
    number: u64,
    writer: SegmentWriter,
    sources: Vec<Source>,
    starts: Vec<u64>,
    updates: u64,
    /// The source that is being copied, and the number of its next row.
    cursor: (usize, u64),
    piece: Vec<u8>,
}

impl PendingSegment {
    /// Begins a segment of the rows that are not sealed yet. None if every row is sealed.
    ///
    /// Until [`MemoryRows::end_snapshot`], the content that `rows` have now can still be read.
    pub(in crate::buffer) fn begin(
        archive: &mut Archive,
        rows: &mut MemoryRows,
        folder: &Arc<Folder>,
    ) -> Result<Option<Self>> {
        let source_list = sources(rows);
        let Some(starts) = archive.first_unsealed(rows, &source_list) else { return Ok(None) };
        Self::new(rows, folder, source_list, starts).map(Some)
    }

    /// Same as [`PendingSegment::begin`], but seals the rows of a small newest segment again if all of
    /// them are in memory. Also returns whether the new segment replaces the newest one in this way.
    pub(in crate::buffer) fn begin_merged(
        archive: &mut Archive,
        rows: &mut MemoryRows,
        folder: &Arc<Folder>,
        max_merged_rows: u64,
    ) -> Result<Option<(Self, bool)>> {
        let source_list = sources(rows);
        let Some(starts) = archive.first_unsealed(rows, &source_list) else { return Ok(None) };
        let merged_starts = archive.rewritable_starts(&source_list, max_merged_rows);
        let replaces_newest = merged_starts.is_some();
        let sealing = Self::new(rows, folder, source_list, merged_starts.unwrap_or(starts))?;
        Ok(Some((sealing, replaces_newest)))
    }

    fn new(
        rows: &mut MemoryRows,
        folder: &Arc<Folder>,
        sources: Vec<Source>,
        starts: Vec<u64>,
    ) -> Result<Self> {
        let columns = sources.iter().zip(&starts).map(|(source, &from)| ColumnPlan {
            name: source.name.clone(),
            row_bytes: source.row_bytes,
            first: from,
            rows: source.end.saturating_sub(from),
        });
        let meta = describe_columns(rows);
        let (number, writer) = folder.begin_segment(columns.collect(), meta.as_bytes())?;
        rows.begin_snapshot();
        let first = starts.first().copied().unwrap_or(0);
        Ok(Self {
            number,
            writer,
            updates: rows.updates,
            sources,
            starts,
            cursor: (0, first),
            piece: Vec::with_capacity(PIECE),
        })
    }

    /// Copies the next piece of `rows`. Returns false if every row is copied.
    pub(in crate::buffer) fn copy(&mut self, rows: &MemoryRows) -> bool {
        self.piece.clear();
        while let Some(source) = self.sources.get(self.cursor.0) {
            let (_, number) = self.cursor;
            if number >= source.end {
                let next = self.cursor.0.saturating_add(1);
                self.cursor = (next, self.starts.get(next).copied().unwrap_or(0));
                continue;
            }
            let part = rows.source_rows(source, number);
            let remaining = PIECE.saturating_sub(self.piece.len());
            let room = remaining.checked_div(source.row_bytes).unwrap_or(0);
            // Rows that are larger than a piece are copied one at a time.
            let max_rows = if self.piece.is_empty() { room.max(1) } else { room };
            let bytes = part.len().min(max_rows.saturating_mul(source.row_bytes));
            if bytes == 0 {
                break;
            }
            self.piece.extend_from_slice(part.get(..bytes).unwrap_or_default());
            let rows = bytes.checked_div(source.row_bytes).unwrap_or(0);
            self.cursor.1 = self.cursor.1.saturating_add(rows as u64);
        }
        !self.piece.is_empty()
    }

    /// Writes the segment and makes it durable under its name.
    ///
    /// `copy` calls [`PendingSegment::copy`] for each piece while no thread writes to the rows.
    ///
    /// # Errors
    /// The errors of `copy`, [`Error::Storage`](crate::Error::Storage) if the disk fails, and
    /// [`Error::Interrupted`](crate::Error::Interrupted).
    pub(in crate::buffer) fn write(
        mut self,
        mut copy: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<SealedSegment> {
        while copy(&mut self)? {
            self.writer.write(&self.piece)?;
            interrupt::check()?;
        }
        let Self { number, writer, sources, starts, updates, .. } = self;
        let (checksum, bytes) = writer.finish()?;
        Ok(SealedSegment { reference: SegmentRef { number, checksum, bytes }, sources, starts, updates })
    }
}

/// A segment that is written and durable.
#[derive(Debug)]
pub(in crate::buffer) struct SealedSegment {
    pub reference: SegmentRef,
    sources: Vec<Source>,
    starts: Vec<u64>,
    updates: u64,
}

impl SealedSegment {
    /// Lists the segment. If `replaces_newest` is set, it takes the place of the newest one.
    pub(in crate::buffer) fn add_to(self, archive: &mut Archive, replaces_newest: bool) -> SegmentRef {
        if replaces_newest {
            archive.forget_newest();
        }
        archive.add_segment(self.reference, &self.sources, &self.starts, self.updates);
        self.reference
    }
}
