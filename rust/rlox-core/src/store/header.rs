//! The head of a segment file: its columns, and the checksum of every block.
//!
//! All numbers are little-endian:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | magic `rloxseg` and a zero |
//! | 4 | version, 1 |
//! | 4 | size of the head in bytes, including its checksum |
//! | 8 | size of the file in bytes |
//! | 4 | number of columns |
//! | 4 | size of the description in bytes |
//! | 28 + name each | columns |
//! | | description: any bytes of the program that writes the file |
//! | 4 each | CRC-32 of every block, column by column |
//! | 4 | CRC-32 of all bytes before |
//! | | the rows, column by column |
//!
//! A column has these fields, with their sizes in bytes: length of the name (4), bytes of a row (4),
//! rows per block (4), number of the first row (8), number of rows (8), and the name.
//!
//! A block is a whole number of rows: one row, or as many as fit in 4096 bytes. So a reader of one
//! row reads and checks one block.

use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"rloxseg\0";
const VERSION: u32 = 1;
/// Number of bytes of the head before the columns.
pub(super) const FIXED_HEAD_BYTES: usize = 32;
/// Maximum number of bytes of a block, unless it is a single row.
const BLOCK_BYTES: usize = 4096;

/// A column to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPlan {
    /// Its name, unique in the file.
    pub name: String,
    /// Bytes of one row, at least 1.
    pub row_bytes: usize,
    /// Number of the first row.
    pub first: u64,
    /// Number of rows.
    pub rows: u64,
}

impl ColumnPlan {
    /// Returns the bytes of a block, which consists of whole rows.
    pub(super) fn block_bytes(&self) -> usize {
        rows_per_block(self.row_bytes).saturating_mul(self.row_bytes)
    }

    /// Returns the bytes of all rows.
    pub(super) fn bytes(&self) -> u64 {
        self.rows.saturating_mul(self.row_bytes as u64)
    }
}

/// A column of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Bytes of one row.
    pub row_bytes: usize,
    /// Number of rows that share a checksum.
    pub rows_per_block: u64,
    /// Number of the first row.
    pub first: u64,
    /// Number of rows.
    pub rows: u64,
    /// Offset of the rows in the file.
    pub(super) offset: u64,
    /// CRC-32 of each block.
    pub(super) checksums: Vec<u32>,
}

/// Returns the maximum number of rows of `row_bytes` bytes in a block.
fn rows_per_block(row_bytes: usize) -> usize {
    BLOCK_BYTES.checked_div(row_bytes).unwrap_or(1).max(1)
}

impl Column {
    /// Returns the number after that of the last row.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.first.saturating_add(self.rows)
    }

    /// Returns the index and the rows of the block with row `number`, which must be in the column.
    pub(super) fn block_of(&self, number: u64) -> (u64, Range<u64>) {
        let index = number.saturating_sub(self.first).checked_div(self.rows_per_block).unwrap_or(0);
        let begin = self.first.saturating_add(index.saturating_mul(self.rows_per_block));
        (index, begin..begin.saturating_add(self.rows_per_block).min(self.end()))
    }

    fn bytes(&self) -> Option<u64> {
        self.rows.checked_mul(self.row_bytes as u64)
    }
}

/// Returns the number of bytes of the head of a file with these columns.
pub(super) fn head_len(columns: &[ColumnPlan], meta: &[u8]) -> u64 {
    let blocks = |column: &ColumnPlan| column.bytes().div_ceil(column.block_bytes().max(1) as u64);
    let names = columns.iter().map(|column| (column.name.len() as u64).saturating_add(28));
    let checksums = columns.iter().map(|column| blocks(column).saturating_mul(4));
    let parts = [FIXED_HEAD_BYTES as u64, meta.len() as u64, 4].into_iter().chain(names).chain(checksums);
    parts.fold(0, u64::saturating_add)
}

/// Returns the head of a file with these columns. `checksums` has the CRC-32 of every block, column
/// by column.
///
/// # Errors
/// [`Error::Config`] for a column that the format cannot express.
pub(super) fn encode(columns: &[ColumnPlan], meta: &[u8], checksums: &[u32]) -> Result<Vec<u8>> {
    let len = head_len(columns, meta);
    let file_bytes = columns.iter().map(ColumnPlan::bytes).fold(len, u64::saturating_add);
    let mut head = Vec::new();
    head.extend(MAGIC);
    head.extend(VERSION.to_le_bytes());
    head.extend(to_u32("head", usize::try_from(len).unwrap_or(usize::MAX))?.to_le_bytes());
    head.extend(file_bytes.to_le_bytes());
    head.extend(to_u32("columns", columns.len())?.to_le_bytes());
    head.extend(to_u32("description", meta.len())?.to_le_bytes());
    for column in columns {
        head.extend(to_u32("name", column.name.len())?.to_le_bytes());
        head.extend(to_u32("row", column.row_bytes)?.to_le_bytes());
        head.extend(to_u32("block", rows_per_block(column.row_bytes))?.to_le_bytes());
        head.extend(column.first.to_le_bytes());
        head.extend(column.rows.to_le_bytes());
        head.extend(column.name.as_bytes());
    }
    head.extend(meta);
    head.extend(checksums.iter().flat_map(|checksum| checksum.to_le_bytes()));
    head.extend(crc32fast::hash(&head).to_le_bytes());
    Ok(head)
}

fn to_u32(name: &'static str, value: usize) -> Result<u32> {
    u32::try_from(value).map_err(|_| Error::config(name, value, "less than 2^32 bytes; use smaller segments"))
}

/// Returns the sizes of head and file in bytes, from the file's first [`FIXED_HEAD_BYTES`] bytes.
pub(super) fn lengths(path: &Path, fixed: &[u8; FIXED_HEAD_BYTES]) -> Result<(usize, u64)> {
    let mut cursor = Cursor { path, bytes: fixed, position: 0 };
    if cursor.take::<8>()? != MAGIC {
        return Err(Error::damaged(path, 0, "it does not begin as a segment"));
    }
    let version = cursor.u32()?;
    if version != VERSION {
        return Err(Error::damaged(path, 8, format!("version {version}, expected {VERSION}")));
    }
    Ok((cursor.len()?, cursor.u64()?))
}

/// Returns the columns, the description and the checksum of a whole head. `file_bytes` is the size
/// of the file.
pub(super) fn decode(path: &Path, head: &[u8], file_bytes: u64) -> Result<(Vec<Column>, Vec<u8>, u32)> {
    let Some((body, tail)) = head.split_last_chunk::<4>() else {
        return Err(Error::damaged(path, 0, "no head"));
    };
    let (actual, stored) = (crc32fast::hash(body), u32::from_le_bytes(*tail));
    if !checksums_agree(actual, stored) {
        return Err(checksum_error(path, 0, actual, stored));
    }
    let mut cursor = Cursor { path, bytes: body, position: FIXED_HEAD_BYTES - 8 };
    let (count, meta_len) = (cursor.len()?, cursor.len()?);
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(read_column(&mut cursor)?);
    }
    if let Some(name) = find_duplicate(columns.iter().map(|column| column.name.as_str())) {
        return Err(cursor.damage_error(&format!("two columns {name:?}")));
    }
    let meta = cursor.slice(meta_len)?.to_vec();
    let mut offset = head.len() as u64;
    for column in &mut columns {
        column.offset = offset;
        for _ in 0..column.rows.div_ceil(column.rows_per_block) {
            column.checksums.push(cursor.u32()?);
        }
        let end = column.bytes().and_then(|bytes| offset.checked_add(bytes));
        offset = end.ok_or_else(|| cursor.damage_error("a column that is too long"))?;
    }
    if cursor.position != body.len() || offset != file_bytes {
        return Err(cursor.damage_error("columns that do not add up to the file"));
    }
    Ok((columns, meta, stored))
}

/// Returns the first name that occurs a second time.
pub(super) fn find_duplicate<'a>(mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut previous_names = HashSet::new();
    names.find(|name| !previous_names.insert(*name))
}

fn read_column(cursor: &mut Cursor<'_>) -> Result<Column> {
    let name_len = cursor.len()?;
    let (row_bytes, block_rows) = (cursor.len()?, u64::from(cursor.u32()?));
    let (first, rows) = (cursor.u64()?, cursor.u64()?);
    // The number at which the last block would end if it were full. Readers compute it, so it must
    // fit in 64 bits.
    let end = rows.checked_next_multiple_of(block_rows).and_then(|n| first.checked_add(n));
    if row_bytes == 0 || end.is_none() {
        return Err(cursor.damage_error("a column with rows or blocks of no bytes, or with too many rows"));
    }
    // A reader of one row allocates memory for its block.
    if block_rows > rows_per_block(row_bytes) as u64 {
        return Err(cursor.damage_error("blocks that are too large"));
    }
    let Ok(name) = String::from_utf8(cursor.slice(name_len)?.to_vec()) else {
        return Err(cursor.damage_error("a column whose name is not UTF-8"));
    };
    Ok(Column { name, row_bytes, rows_per_block: block_rows, first, rows, offset: 0, checksums: Vec::new() })
}

/// Returns whether a checksum equals the stored one. In a fuzzing build (rust/fuzz) any two are
/// equal, so that the fuzzer reaches the code behind this check.
pub(super) const fn checksums_agree(actual: u32, stored: u32) -> bool {
    cfg!(fuzzing) || actual == stored
}

/// Returns an [`Error::Damaged`] for a wrong checksum.
pub(super) fn checksum_error(path: &Path, offset: u64, actual: u32, expected: u32) -> Error {
    Error::damaged(path, offset, format!("checksum {actual:08x}, expected {expected:08x}"))
}

/// Reads numbers one after the other. An early end means that the file is damaged.
struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    fn damage_error(&self, what: &str) -> Error {
        Error::damaged(self.path, self.position as u64, what)
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.position.checked_add(len);
        let requested_bytes = end.and_then(|end| self.bytes.get(self.position..end));
        let bytes = requested_bytes.ok_or_else(|| self.damage_error("the head ends too early"))?;
        self.position = self.position.saturating_add(len);
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.slice(N)?;
        bytes.first_chunk().copied().ok_or_else(|| self.damage_error("the head ends too early"))
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn len(&mut self) -> Result<usize> {
        Ok(self.u32()? as usize)
    }
}
