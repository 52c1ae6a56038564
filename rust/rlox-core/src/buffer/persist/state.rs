//! The exact state of a buffer, in memory.

use std::collections::HashMap;
use std::ops::Range;

use super::header::{Header, SavedColumn, check_layout};
use super::load::{RowReader, fill_rows};
use crate::buffer::rows::{MemoryRows, Source, describe_buffer, sources};
use crate::error::{Error, Result, check_len};

/// The saved state of a buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BufferState {
    /// Columns, environments and capacity as text.
    pub layout: String,
    /// State of rings, queues, draws and sampler. Each column has a name, the size of an element in
    /// bytes, and the content.
    pub columns: Vec<SavedColumn>,
    /// All rows. Each column has the name of a store of rows, such as `records/0`, the size of a row
    /// in bytes, and the content.
    pub rows: Vec<SavedColumn>,
}

impl BufferState {
    /// Makes the state from rows and these columns.
    pub(in crate::buffer) fn from_rows(rows: &MemoryRows, columns: Vec<SavedColumn>) -> Self {
        let saved_column = |source: Source| {
            let (mut bytes, mut next) = (Vec::new(), source.start);
            while next < source.end {
                let part = rows.source_rows(&source, next);
                bytes.extend_from_slice(part);
                let rows = part.len().checked_div(source.row_bytes).unwrap_or(0).max(1);
                next = next.saturating_add(rows as u64);
            }
            (source.name, source.row_bytes, bytes)
        };
        let row_columns = sources(rows).into_iter().map(saved_column).collect();
        Self { layout: describe_buffer(rows), columns, rows: row_columns }
    }

    /// Returns the bytes of a column.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if there is no such column.
    pub(in crate::buffer) fn column(&self, name: &'static str) -> Result<Vec<u8>> {
        let entry = self.columns.iter().find(|(candidate, _, _)| candidate == name);
        entry
            .map(|(_, _, bytes)| bytes.clone())
            .ok_or_else(|| Error::snapshot(name, "missing", "a column of the state"))
    }

    /// Returns the rows and the header of a buffer like `empty`.
    ///
    /// # Errors
    /// [`Error::Snapshot`] or [`Error::Shape`] for a state that does not fit or that no buffer can
    /// have.
    pub(in crate::buffer) fn restore_rows(&self, empty: MemoryRows) -> Result<(MemoryRows, Header)> {
        check_layout(self.layout.as_bytes(), &describe_buffer(&empty))?;
        let max_rows = empty.rings().capacity as u64;
        let header = Header::parse(&empty, max_rows, &|name| self.column(name))?;
        let rows_by_name: HashMap<&str, &[u8]> =
            self.rows.iter().map(|(name, _, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let source_list = sources(&empty);
        let missing = |source: &Source| Error::snapshot("rows", "incomplete", &source.name);
        let row_results = source_list
            .iter()
            .map(|source| rows_by_name.get(source.name.as_str()).copied().ok_or_else(|| missing(source)));
        let source_rows: Vec<&[u8]> = row_results.collect::<Result<_>>()?;
        for ((source, range), bytes) in source_list.iter().zip(&header.ranges).zip(&source_rows) {
            let rows = usize::try_from(range.1.saturating_sub(range.0)).unwrap_or(usize::MAX);
            let expected = rows.saturating_mul(source.row_bytes);
            check_len("rows of the state", bytes.len(), expected, &source.name)?;
        }
        let n_unknown = self.rows.len().saturating_sub(source_rows.len());
        check_len("state", n_unknown, 0, "row columns that the buffer does not have")?;
        let read: &RowReader<'_> = &|source, numbers: Range<u64>, out: &mut [u8]| {
            let start = header.ranges.get(source).map_or(0, |range| range.0);
            let bytes = source_rows.get(source).copied().unwrap_or_default();
            let count = numbers.end.saturating_sub(numbers.start);
            let width = (out.len() as u64).checked_div(count).unwrap_or(0);
            let offset = numbers.start.saturating_sub(start).saturating_mul(width);
            let byte_offset = usize::try_from(offset).unwrap_or(usize::MAX);
            let rows = bytes.get(byte_offset..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(rows.ok_or_else(|| Error::internal("a state without a row"))?);
            Ok(())
        };
        Ok((fill_rows(empty, &header, read)?, header))
    }
}
