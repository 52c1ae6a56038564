//! Sealed files of numbered rows in columns. A segment never changes after it is in place.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fs::{Fs, RandomRead, Replacement};
use super::header::{self, Column, ColumnPlan, FIXED_HEAD_BYTES};
use crate::error::{Error, Result};

/// Writes a segment of columns that are in memory and returns its checksum.
///
/// # Errors
/// The errors of [`SegmentWriter`]'s methods.
pub fn write_segment(
    fs: Arc<dyn Fs>,
    path: &Path,
    columns: Vec<ColumnPlan>,
    meta: &[u8],
    rows: &[&[u8]],
) -> Result<u32> {
    let mut writer = SegmentWriter::begin(fs, path, columns, meta)?;
    rows.iter().try_for_each(|rows| writer.write(rows))?;
    Ok(writer.finish()?.0)
}

/// Writes a segment piece by piece. The segment is in place once it is finished. A writer that is
/// dropped before that leaves no file.
#[derive(Debug)]
pub struct SegmentWriter {
    file: Replacement,
    columns: Vec<ColumnPlan>,
    meta: Vec<u8>,
    checksums: Vec<u32>,
    hasher: crc32fast::Hasher,
    /// Index of the column that is being written, and the number of its bytes so far.
    cursor: (usize, u64),
    /// Bytes of the file so far.
    offset: u64,
}

impl SegmentWriter {
    /// Begins a segment of these columns.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses, [`Error::Config`] for a column without bytes or for
    /// a duplicate name.
    pub fn begin(fs: Arc<dyn Fs>, path: &Path, columns: Vec<ColumnPlan>, meta: &[u8]) -> Result<Self> {
        if let Some(empty) = columns.iter().find(|column| column.row_bytes == 0) {
            return Err(Error::config("row_bytes", 0, format!("at least 1 for {}", empty.name)));
        }
        if let Some(name) = header::find_duplicate(columns.iter().map(|column| column.name.as_str())) {
            return Err(Error::config("columns", format!("two named {name:?}"), "one of each name"));
        }
        let (file, offset) = (Replacement::begin(fs, path)?, header::head_len(&columns, meta));
        let (meta, hasher) = (meta.to_vec(), crc32fast::Hasher::new());
        Ok(Self { file, columns, meta, checksums: Vec::new(), hasher, cursor: (0, 0), offset })
    }

    /// Writes the next bytes: the rows of one column after the other.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses, [`Error::Shape`] for more bytes than the columns
    /// have.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_at(bytes, self.offset)?;
        self.offset = self.offset.saturating_add(bytes.len() as u64);
        let mut rest = bytes;
        while !rest.is_empty() {
            self.skip_full();
            let (column, column_written) = self.cursor;
            let Some(plan) = self.columns.get(column) else { return Err(self.size_error()) };
            let block_bytes = plan.block_bytes() as u64;
            let bytes_in_block = column_written.checked_rem(block_bytes).unwrap_or(0);
            let block_space =
                block_bytes.saturating_sub(bytes_in_block).min(plan.bytes().saturating_sub(column_written));
            let part_len = usize::try_from(block_space).unwrap_or(usize::MAX).min(rest.len());
            let (part, tail) = rest.split_at(part_len);
            self.hasher.update(part);
            let total_written = column_written.saturating_add(part_len as u64);
            if total_written.is_multiple_of(block_bytes) || total_written == plan.bytes() {
                self.checksums.push(std::mem::take(&mut self.hasher).finalize());
            }
            self.cursor.1 = total_written;
            rest = tail;
        }
        Ok(())
    }

    /// Moves on to the next column with remaining bytes.
    fn skip_full(&mut self) {
        while self.columns.get(self.cursor.0).is_some_and(|plan| self.cursor.1 == plan.bytes()) {
            self.cursor = (self.cursor.0.saturating_add(1), 0);
        }
    }

    /// Puts the segment in place. After an `Ok` it survives a power cut. Returns its checksum,
    /// which identifies its whole content, and its size in bytes.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses, [`Error::Shape`] for fewer bytes than the columns
    /// have, [`Error::Interrupted`].
    pub fn finish(mut self) -> Result<(u32, u64)> {
        self.skip_full();
        if self.cursor.0 != self.columns.len() {
            return Err(self.size_error());
        }
        let head = header::encode(&self.columns, &self.meta, &self.checksums)?;
        self.file.write_at(&head, 0)?;
        self.file.finish()?;
        let checksum = head.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        Ok((checksum, self.offset))
    }

    fn size_error(&self) -> Error {
        Error::Shape {
            name: "segment columns".into(),
            got: format!("{} bytes", self.offset),
            expected: "the rows that were announced".to_owned(),
        }
    }
}

/// An open segment. Its head has been checked; each row is checked when it is read.
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    file: Box<dyn RandomRead>,
    columns: Vec<Column>,
    meta: Vec<u8>,
    checksum: u32,
    bytes: u64,
}

impl Segment {
    /// Opens a segment and checks its length and head.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the file is missing or its content has changed, [`Error::Storage`] if
    /// the disk refuses.
    pub fn open(fs: &dyn Fs, path: &Path) -> Result<Self> {
        let file = fs.open(path).map_err(|cause| read_error(path, 0, cause))?;
        let size = file.size().map_err(|cause| read_error(path, 0, cause))?;
        let mut fixed = [0; FIXED_HEAD_BYTES];
        read(path, &*file, &mut fixed, 0)?;
        let (head_len, stated_size) = header::lengths(path, &fixed)?;
        if stated_size != size || head_len as u64 > size || head_len < FIXED_HEAD_BYTES + 4 {
            let what = format!("{size} bytes with a head of {head_len}, expected {stated_size}");
            return Err(Error::damaged(path, size.min(stated_size), what));
        }
        let mut head = allocate(path, head_len)?;
        read(path, &*file, &mut head, 0)?;
        let (columns, meta, checksum) = header::decode(path, &head, size)?;
        Ok(Self { path: path.to_owned(), file, columns, meta, checksum, bytes: size })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the columns in the order in which they were written.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the owner's description.
    #[must_use]
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// Returns the checksum that [`SegmentWriter::finish`] returned.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Returns the size of the file in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the index of the column `name`.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Reads the rows `numbers` of a column into `out`, which has exactly their size.
    ///
    /// `scratch` is memory that calls reuse.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a block whose content has changed, [`Error::Storage`] if the disk
    /// refuses, [`Error::Shape`] for rows that are not in the segment or an `out` of another size.
    pub fn read_rows(
        &self,
        column: usize,
        numbers: Range<u64>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let column = self.columns.get(column).ok_or_else(|| self.rows_error(&numbers))?;
        let end = column.end();
        let count = numbers.end.saturating_sub(numbers.start);
        let fits = count.checked_mul(column.row_bytes as u64) == Some(out.len() as u64);
        if numbers.start < column.first || numbers.end > end || !fits {
            return Err(self.rows_error(&numbers));
        }
        let mut rest = out;
        let mut next = numbers.start;
        while next < numbers.end {
            let (block, Range { start: begin, end: stop }) = column.block_of(next);
            let piece_end = stop.min(numbers.end);
            let bytes = byte_len(column, next..piece_end);
            let (part, tail) = rest.split_at_mut(bytes.min(rest.len()));
            if next == begin && piece_end == stop {
                self.read_block(column, block, part)?;
            } else {
                scratch.resize(byte_len(column, begin..stop), 0);
                self.read_block(column, block, scratch)?;
                let offset = byte_len(column, begin..next);
                if let Some(rows) = scratch.get(offset..).and_then(|rest| rest.get(..part.len())) {
                    part.copy_from_slice(rows);
                }
            }
            rest = tail;
            next = piece_end;
        }
        Ok(())
    }

    /// Returns all rows of a column.
    ///
    /// # Errors
    /// As [`Segment::read_rows`].
    pub fn read_column(&self, name: &str) -> Result<Vec<u8>> {
        let index = self.position(name);
        let indexed_column = index.and_then(|at| Some((at, self.columns.get(at)?)));
        let Some((column_index, column)) = indexed_column else {
            return Err(Error::damaged(&self.path, 0, format!("it has no column {name}")));
        };
        let numbers = column.first..column.end();
        let mut rows = allocate(&self.path, byte_len(column, numbers.clone()))?;
        self.read_rows(column_index, numbers, &mut rows, &mut Vec::new())?;
        Ok(rows)
    }

    /// Reads and checks every row.
    ///
    /// # Errors
    /// As [`Segment::read_rows`].
    pub fn verify(&self) -> Result<()> {
        let mut block = Vec::new();
        for column in &self.columns {
            let mut next = column.first;
            while next < column.end() {
                let (index, numbers) = column.block_of(next);
                next = numbers.end;
                block.resize(byte_len(column, numbers), 0);
                self.read_block(column, index, &mut block)?;
            }
        }
        Ok(())
    }

    /// Reads a whole block into `out` and checks it.
    fn read_block(&self, column: &Column, block: u64, out: &mut [u8]) -> Result<()> {
        let rows = block.saturating_mul(column.rows_per_block);
        let offset = column.offset.saturating_add(rows.saturating_mul(column.row_bytes as u64));
        read(&self.path, &*self.file, out, offset)?;
        let index = usize::try_from(block).unwrap_or(usize::MAX);
        let Some(&expected) = column.checksums.get(index) else {
            return Err(Error::damaged(&self.path, offset, "a block without a checksum"));
        };
        let actual = crc32fast::hash(out);
        if header::checksums_agree(actual, expected) {
            return Ok(());
        }
        Err(header::checksum_error(&self.path, offset, actual, expected))
    }

    fn rows_error(&self, numbers: &Range<u64>) -> Error {
        Error::Shape {
            name: "segment rows".into(),
            got: format!("{}..{}", numbers.start, numbers.end),
            expected: format!("rows and bytes of a column of {}", self.path.display()),
        }
    }
}

/// Allocates memory for a part of a file. A file with holes can be larger than any memory.
fn allocate(path: &Path, bytes: usize) -> Result<Vec<u8>> {
    // The size is tried first, because an allocation that fails aborts the process.
    if Vec::<u8>::new().try_reserve_exact(bytes).is_err() {
        return Err(Error::storage("read", path, format!("no memory for {bytes} bytes of it")));
    }
    Ok(vec![0; bytes])
}

/// Returns the number of bytes of these rows of a column.
fn byte_len(column: &Column, rows: Range<u64>) -> usize {
    let count = rows.end.saturating_sub(rows.start);
    usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(column.row_bytes)
}

fn read(path: &Path, file: &dyn RandomRead, out: &mut [u8], offset: u64) -> Result<()> {
    file.read_at(out, offset).map_err(|cause| read_error(path, offset, cause))
}

fn read_error(path: &Path, offset: u64, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::NotFound => Error::damaged(path, 0, "the file is missing"),
        io::ErrorKind::UnexpectedEof => Error::damaged(path, offset, "the file ends too early"),
        _ => Error::storage("read", path, cause),
    }
}
