//! The content of a saved buffer: a list of segments, and the columns of the manifest's owner (the
//! buffer).

use std::path::Path;
use std::sync::Arc;

use super::fs::Fs;
use super::header::ColumnPlan;
use super::segment::{Segment, write_segment};
use crate::error::{Error, Result};

/// Name of the column that lists the segments. A row has a segment's number, checksum and size, 8
/// bytes each.
const SEGMENTS_COLUMN: &str = "segments";
const REF_BYTES: usize = 24;

/// A segment that belongs to a saved buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRef {
    /// Its number in the folder.
    pub number: u64,
    /// Its checksum, by which another file of that name is detected.
    pub checksum: u32,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// A list of segments with the owner's columns and description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The segments, oldest first.
    pub segments: Vec<SegmentRef>,
    /// The owner's columns: name, number of bytes of a row, and the bytes of all rows.
    pub columns: Vec<(String, usize, Vec<u8>)>,
    /// The owner's description.
    pub meta: Vec<u8>,
}

impl Manifest {
    /// Writes the manifest in one step. After an `Ok` it survives a power cut.
    ///
    /// # Errors
    /// The errors of [`write_segment`].
    pub fn write(&self, fs: Arc<dyn Fs>, path: &Path) -> Result<()> {
        let list: Vec<u8> = self
            .segments
            .iter()
            .flat_map(|s| [s.number, u64::from(s.checksum), s.bytes])
            .flat_map(u64::to_le_bytes)
            .collect();
        let plan = |name: &str, row_bytes: usize, bytes: &[u8]| ColumnPlan {
            name: name.to_owned(),
            row_bytes,
            first: 0,
            rows: bytes.len().checked_div(row_bytes).unwrap_or(0) as u64,
        };
        let owner_plans = self.columns.iter().map(|(name, row_bytes, rows)| plan(name, *row_bytes, rows));
        let columns = std::iter::once(plan(SEGMENTS_COLUMN, REF_BYTES, &list)).chain(owner_plans).collect();
        let rows = self.columns.iter().map(|(_, _, rows)| rows.as_slice());
        let rows: Vec<&[u8]> = std::iter::once(list.as_slice()).chain(rows).collect();
        write_segment(fs, path, columns, &self.meta, &rows).map(drop)
    }

    /// Reads and checks a manifest.
    ///
    /// # Errors
    /// The errors of [`Segment::open`] and [`Segment::read_rows`]; [`Error::Damaged`] for an
    /// invalid list of segments.
    pub fn read(fs: &dyn Fs, path: &Path) -> Result<Self> {
        let file = Segment::open(fs, path)?;
        let list = file.read_column(SEGMENTS_COLUMN)?;
        let mut columns = Vec::new();
        for column in file.columns().iter().filter(|column| column.name != SEGMENTS_COLUMN) {
            let rows = file.read_column(&column.name)?;
            columns.push((column.name.clone(), column.row_bytes, rows));
        }
        let (rows, rest) = list.as_chunks::<REF_BYTES>();
        let segments: Option<_> = rows.iter().map(decode_reference).collect();
        let Some(segments) = segments.filter(|_| rest.is_empty()) else {
            return Err(Error::damaged(path, 0, "an invalid list of segments"));
        };
        Ok(Self { segments, columns, meta: file.meta().to_vec() })
    }

    /// Returns the rows of the owner's column `name`.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if there is none.
    pub fn column(&self, name: &'static str) -> Result<&[u8]> {
        let column_entry = self.columns.iter().find(|(known, _, _)| known == name);
        column_entry
            .map(|(_, _, rows)| rows.as_slice())
            .ok_or_else(|| Error::snapshot(name, "missing", "a column of the manifest"))
    }
}

/// Decodes a row of the list. Returns None if its checksum has more than 32 bits.
fn decode_reference(row: &[u8; REF_BYTES]) -> Option<SegmentRef> {
    let mut numbers = row.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    let mut next = || numbers.next().unwrap_or_default();
    let (number, checksum, bytes) = (next(), next(), next());
    Some(SegmentRef { number, checksum: u32::try_from(checksum).ok()?, bytes })
}
