//! The head of a segment file: what columns follow, and the checksum of every block.
//!
//! Little endian throughout:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | magic `rloxseg` and a zero |
//! | 4 | version, 1 |
//! | 4 | bytes of the head, up to and with its checksum |
//! | 8 | bytes of the file |
//! | 4 | number of columns |
//! | 4 | bytes of the description |
//! | 28 + name each | columns: bytes of the name (4), bytes of a row (4), rows per block (4), number of the first row (8), rows (8), name |
//! | | description, free text for the owner |
//! | 4 each | CRC-32 of every block, column by column |
//! | 4 | CRC-32 of all before |
//! | | the rows, column by column |
//!
//! A block is a whole number of rows, so that one row is read and checked with one block.

use std::path::Path;

use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"rloxseg\0";
const VERSION: u32 = 1;
/// Bytes of the head before the columns.
pub(super) const FIXED: usize = 32;
/// A block has at least this many bytes where the column has so many.
const BLOCK_BYTES: usize = 4096;

/// A column to be written: `rows` rows numbered from `first` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnData<'a> {
    /// Its name, unique in the file.
    pub name: String,
    /// Bytes of one row, at least 1.
    pub row_bytes: usize,
    /// Number of the first row.
    pub first: u64,
    /// The rows, in pieces of any length; together a whole number of rows.
    pub parts: Vec<&'a [u8]>,
}

/// A column of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Bytes of one row.
    pub row_bytes: usize,
    /// Rows that share a checksum.
    pub rows_per_block: u64,
    /// Number of the first row.
    pub first: u64,
    /// Number of rows.
    pub rows: u64,
    /// Where its rows begin in the file.
    pub(super) offset: u64,
    /// CRC-32 of each block.
    pub(super) checksums: Vec<u32>,
}

impl Column {
    fn bytes(&self) -> Option<u64> {
        self.rows.checked_mul(self.row_bytes as u64)
    }
}

/// The head of a file with these columns.
///
/// # Errors
/// [`Error::Shape`] for a column that is no whole number of rows, [`Error::Config`] for one that
/// the format cannot express.
pub(super) fn encode(columns: &[ColumnData<'_>], meta: &[u8]) -> Result<Vec<u8>> {
    let (mut table, mut checksums, mut payload) = (Vec::new(), Vec::new(), 0_u64);
    for column in columns {
        let bytes: usize = column.parts.iter().map(|part| part.len()).sum();
        if column.row_bytes == 0 || !bytes.is_multiple_of(column.row_bytes) {
            return Err(Error::Shape {
                name: "segment column".into(),
                got: format!("{bytes} bytes"),
                expected: format!("rows of {} bytes", column.row_bytes),
            });
        }
        let per_block = (BLOCK_BYTES / column.row_bytes).max(1);
        table.extend(small("name", column.name.len())?.to_le_bytes());
        table.extend(small("row", column.row_bytes)?.to_le_bytes());
        table.extend(small("block", per_block)?.to_le_bytes());
        table.extend(column.first.to_le_bytes());
        table.extend(((bytes / column.row_bytes) as u64).to_le_bytes());
        table.extend(column.name.as_bytes());
        for checksum in block_checksums(&column.parts, per_block * column.row_bytes) {
            checksums.extend(checksum.to_le_bytes());
        }
        payload += bytes as u64;
    }
    let head_len = FIXED + table.len() + meta.len() + checksums.len() + 4;
    let mut head = Vec::with_capacity(head_len);
    head.extend(MAGIC);
    head.extend(VERSION.to_le_bytes());
    head.extend(small("head", head_len)?.to_le_bytes());
    head.extend((head_len as u64 + payload).to_le_bytes());
    head.extend(small("columns", columns.len())?.to_le_bytes());
    head.extend(small("description", meta.len())?.to_le_bytes());
    head.extend(table);
    head.extend(meta);
    head.extend(checksums);
    head.extend(crc32fast::hash(&head).to_le_bytes());
    Ok(head)
}

fn small(name: &'static str, value: usize) -> Result<u32> {
    u32::try_from(value)
        .map_err(|_| Error::config(name, value, "less than 2^32 bytes; use smaller segments"))
}

/// CRC-32 of each `block` bytes of the concatenated parts.
fn block_checksums(parts: &[&[u8]], block: usize) -> Vec<u32> {
    let (mut checksums, mut hasher, mut room) = (Vec::new(), crc32fast::Hasher::new(), block);
    for mut part in parts.iter().copied() {
        while !part.is_empty() {
            let (now, later) = part.split_at(room.min(part.len()));
            hasher.update(now);
            room -= now.len();
            part = later;
            if room == 0 {
                checksums.push(std::mem::take(&mut hasher).finalize());
                room = block;
            }
        }
    }
    if room < block {
        checksums.push(hasher.finalize());
    }
    checksums
}

/// Bytes of head and file, from a file's first [`FIXED`] bytes.
pub(super) fn lengths(path: &Path, fixed: &[u8; FIXED]) -> Result<(usize, u64)> {
    let mut cursor = Cursor { path, bytes: fixed, at: 0 };
    if cursor.take::<8>()? != MAGIC {
        return Err(Error::damaged(path, 0, "it does not begin as a segment"));
    }
    let version = cursor.u32()?;
    if version != VERSION {
        return Err(Error::damaged(path, 8, format!("version {version}, expected {VERSION}")));
    }
    Ok((cursor.len()?, cursor.u64()?))
}

/// Columns, description and own checksum of a whole head, whose length is that of its file.
pub(super) fn decode(path: &Path, head: &[u8], file: u64) -> Result<(Vec<Column>, Vec<u8>, u32)> {
    let Some((body, tail)) = head.split_last_chunk::<4>() else {
        return Err(Error::damaged(path, 0, "no head"));
    };
    let (found, stored) = (crc32fast::hash(body), u32::from_le_bytes(*tail));
    if found != stored {
        return Err(mismatch(path, 0, found, stored));
    }
    let mut cursor = Cursor { path, bytes: body, at: FIXED - 8 };
    let (count, meta) = (cursor.len()?, cursor.len()?);
    let mut columns = Vec::new();
    for _ in 0..count {
        columns.push(column(&mut cursor)?);
    }
    let meta = cursor.slice(meta)?.to_vec();
    let mut offset = head.len() as u64;
    for column in &mut columns {
        column.offset = offset;
        for _ in 0..column.rows.div_ceil(column.rows_per_block) {
            column.checksums.push(cursor.u32()?);
        }
        let end = column.bytes().and_then(|bytes| offset.checked_add(bytes));
        offset = end.ok_or_else(|| cursor.broken("a column that is too long"))?;
    }
    if cursor.at != body.len() || offset != file {
        return Err(cursor.broken("columns that do not add up to the file"));
    }
    Ok((columns, meta, stored))
}

fn column(cursor: &mut Cursor<'_>) -> Result<Column> {
    let name = cursor.len()?;
    let (row_bytes, rows_per_block) = (cursor.len()?, u64::from(cursor.u32()?));
    let (first, rows) = (cursor.u64()?, cursor.u64()?);
    if row_bytes == 0 || rows_per_block == 0 || first.checked_add(rows).is_none() {
        return Err(cursor.broken("a column without rows of a size"));
    }
    let name = String::from_utf8_lossy(cursor.slice(name)?).into_owned();
    Ok(Column { name, row_bytes, rows_per_block, first, rows, offset: 0, checksums: Vec::new() })
}

/// An [`Error::Damaged`] for a checksum.
pub(super) fn mismatch(path: &Path, offset: u64, found: u32, expected: u32) -> Error {
    Error::damaged(path, offset, format!("checksum {found:08x}, expected {expected:08x}"))
}

/// Reads numbers one after the other; an end too early is damage.
struct Cursor<'a> {
    path: &'a Path,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn broken(&self, what: &str) -> Error {
        Error::damaged(self.path, self.at as u64, what)
    }

    fn slice(&mut self, len: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(len);
        let found = end.and_then(|end| self.bytes.get(self.at..end));
        let found = found.ok_or_else(|| self.broken("the head ends too early"))?;
        self.at += len;
        Ok(found)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.slice(N)?;
        bytes.first_chunk().copied().ok_or_else(|| self.broken("the head ends too early"))
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
