//! The exact state of a buffer, in memory.

use std::collections::HashMap;
use std::ops::Range;

use super::header::{Column, Header, check_meta};
use super::load::{Read, fill};
use crate::buffer::rows::{MemoryRows, Source, describe, sources};
use crate::error::{Error, Result, check_len};

/// The saved state of a buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    /// Columns, environments and capacity as text.
    pub layout: String,
    /// State of rings, queues, draws and sampler: name, bytes of an element, bytes.
    pub columns: Vec<Column>,
    /// Bytes of all rows: name of the source, bytes of a row, bytes.
    pub rows: Vec<Column>,
}

impl State {
    /// Makes the state from rows and these columns.
    pub(in crate::buffer) fn of(rows: &MemoryRows, columns: Vec<Column>) -> Self {
        let source = |source: Source| {
            let (mut bytes, mut next) = (Vec::new(), source.start);
            while next < source.end {
                let part = rows.part(&source, next);
                bytes.extend_from_slice(part);
                let rows = part.len().checked_div(source.row_bytes).unwrap_or(0).max(1);
                next = next.saturating_add(rows as u64);
            }
            (source.name, source.row_bytes, bytes)
        };
        let all = sources(rows).into_iter().map(source).collect();
        Self { layout: describe(rows), columns, rows: all }
    }

    /// Returns the bytes of a column.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if there is no such column.
    pub(in crate::buffer) fn column(&self, name: &'static str) -> Result<Vec<u8>> {
        let found = self.columns.iter().find(|(known, _, _)| known == name);
        found
            .map(|(_, _, bytes)| bytes.clone())
            .ok_or_else(|| Error::snapshot(name, "missing", "a column of the state"))
    }

    /// Returns the rows and the header of a buffer like `empty`.
    ///
    /// # Errors
    /// [`Error::Snapshot`] or [`Error::Shape`] for a state that does not fit or that no buffer can
    /// have.
    pub(in crate::buffer) fn restored(&self, empty: MemoryRows) -> Result<(MemoryRows, Header)> {
        check_meta(self.layout.as_bytes(), &describe(&empty))?;
        let most = empty.rings().capacity as u64;
        let header = Header::parse(&empty, most, &|name| self.column(name))?;
        let known: HashMap<&str, &[u8]> =
            self.rows.iter().map(|(name, _, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let all = sources(&empty);
        let missing = |source: &Source| Error::snapshot("rows", "incomplete", &source.name);
        let found = all
            .iter()
            .map(|source| known.get(source.name.as_str()).copied().ok_or_else(|| missing(source)));
        let found: Vec<&[u8]> = found.collect::<Result<_>>()?;
        for ((source, range), bytes) in all.iter().zip(&header.ranges).zip(&found) {
            let rows = usize::try_from(range.1.saturating_sub(range.0)).unwrap_or(usize::MAX);
            let expected = rows.saturating_mul(source.row_bytes);
            check_len("rows of the state", bytes.len(), expected, &source.name)?;
        }
        let strangers = self.rows.len().saturating_sub(found.len());
        check_len("state", strangers, 0, "rows of anything that the buffer does not have")?;
        let read: &Read<'_> = &|source, numbers: Range<u64>, out: &mut [u8]| {
            let start = header.ranges.get(source).map_or(0, |range| range.0);
            let bytes = found.get(source).copied().unwrap_or_default();
            let count = numbers.end.saturating_sub(numbers.start);
            let width = (out.len() as u64).checked_div(count).unwrap_or(0);
            let at = numbers.start.saturating_sub(start).saturating_mul(width);
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let rows = bytes.get(at..).and_then(|rest| rest.get(..out.len()));
            out.copy_from_slice(rows.ok_or_else(|| Error::internal("a state without a row"))?);
            Ok(())
        };
        Ok((fill(empty, &header, read)?, header))
    }
}
