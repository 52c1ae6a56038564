//! A sealed file of numbered rows in columns; never changed after it is in its place.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::fs::{Fs, RandomRead, replace_file};
use super::header::{self, Column, ColumnData, FIXED};
use crate::error::{Error, Result};

/// Writes a segment in one step and returns its checksum, which stands for its whole content.
///
/// # Errors
/// [`Error::Storage`] if the disk refuses; [`Error::Shape`] or [`Error::Config`] for columns that are
/// not whole rows.
pub fn write_segment(
    fs: &dyn Fs,
    path: &Path,
    columns: &[ColumnData<'_>],
    meta: &[u8],
) -> Result<u32> {
    let head = header::encode(columns, meta)?;
    let parts: Vec<&[u8]> = std::iter::once(head.as_slice())
        .chain(columns.iter().flat_map(|column| column.parts.iter().copied()))
        .collect();
    replace_file(fs, path, &parts)?;
    let own = head.last_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    Ok(own)
}

/// An open segment. Its head has been checked; each row is checked as it is read.
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
    /// [`Error::Damaged`] if the file is missing or not what was written, [`Error::Storage`] if the
    /// disk refuses.
    pub fn open(fs: &dyn Fs, path: &Path) -> Result<Self> {
        let file = fs.open(path).map_err(|cause| failure(path, 0, cause))?;
        let size = file.size().map_err(|cause| failure(path, 0, cause))?;
        let mut fixed = [0; FIXED];
        read(path, &*file, &mut fixed, 0)?;
        let (head_len, stated) = header::lengths(path, &fixed)?;
        if stated != size || head_len as u64 > size || head_len < FIXED + 4 {
            let what = format!("{size} bytes with a head of {head_len}, expected {stated}");
            return Err(Error::damaged(path, size.min(stated), what));
        }
        let mut head = vec![0; head_len];
        read(path, &*file, &mut head, 0)?;
        let (columns, meta, checksum) = header::decode(path, &head, size)?;
        Ok(Self { path: path.to_owned(), file, columns, meta, checksum, bytes: size })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its columns, in the order they were written.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The owner's description.
    #[must_use]
    pub fn meta(&self) -> &[u8] {
        &self.meta
    }

    /// The checksum that [`write_segment`] returned.
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.checksum
    }

    /// Bytes of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Position of the column `name`.
    #[must_use]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// Reads the rows `numbers` of a column into `out`, which has exactly their bytes.
    ///
    /// `scratch` is memory to be reused from call to call.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a block that is not what was written, [`Error::Storage`] if the disk
    /// refuses, [`Error::Shape`] for rows that are not in the segment or an `out` of another size.
    pub fn read_rows(
        &self,
        column: usize,
        numbers: Range<u64>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> Result<()> {
        let column = self.columns.get(column).ok_or_else(|| self.absent(&numbers))?;
        let end = column.first + column.rows;
        let count = numbers.end.saturating_sub(numbers.start);
        let fits = count.checked_mul(column.row_bytes as u64) == Some(out.len() as u64);
        if numbers.start < column.first || numbers.end > end || !fits {
            return Err(self.absent(&numbers));
        }
        let mut rest = out;
        let mut next = numbers.start;
        while next < numbers.end {
            let block = (next - column.first) / column.rows_per_block;
            let begin = column.first + block * column.rows_per_block;
            let stop = (begin + column.rows_per_block).min(end);
            let until = stop.min(numbers.end);
            let bytes = span(column, next..until);
            let (now, later) = rest.split_at_mut(bytes.min(rest.len()));
            if next == begin && until == stop {
                self.read_block(column, block, now)?;
            } else {
                scratch.resize(span(column, begin..stop), 0);
                self.read_block(column, block, scratch)?;
                let from = span(column, begin..next);
                if let Some(rows) = scratch.get(from..from + now.len()) {
                    now.copy_from_slice(rows);
                }
            }
            rest = later;
            next = until;
        }
        Ok(())
    }

    /// All rows of a column.
    ///
    /// # Errors
    /// As [`Segment::read_rows`].
    pub fn read_column(&self, name: &str) -> Result<Vec<u8>> {
        let index = self.position(name);
        let found = index.and_then(|at| Some((at, self.columns.get(at)?)));
        let Some((at, column)) = found else {
            return Err(Error::damaged(&self.path, 0, format!("it has no column {name}")));
        };
        let numbers = column.first..column.first + column.rows;
        // The file is at least this long: its length was checked against its columns.
        let mut rows = vec![0; span(column, numbers.clone())];
        self.read_rows(at, numbers, &mut rows, &mut Vec::new())?;
        Ok(rows)
    }

    /// Reads and checks every row.
    ///
    /// # Errors
    /// As [`Segment::read_rows`].
    pub fn verify(&self) -> Result<()> {
        let mut block = Vec::new();
        for column in &self.columns {
            for index in 0..column.checksums.len() as u64 {
                let begin = index * column.rows_per_block;
                let stop = (begin + column.rows_per_block).min(column.rows);
                block.resize(span(column, begin..stop), 0);
                self.read_block(column, index, &mut block)?;
            }
        }
        Ok(())
    }

    /// Reads a whole block into `out` and checks it.
    fn read_block(&self, column: &Column, block: u64, out: &mut [u8]) -> Result<()> {
        let offset = column.offset + block * column.rows_per_block * column.row_bytes as u64;
        read(&self.path, &*self.file, out, offset)?;
        let index = usize::try_from(block).unwrap_or(usize::MAX);
        let expected = column.checksums.get(index).copied().unwrap_or_default();
        let found = crc32fast::hash(out);
        if found == expected {
            return Ok(());
        }
        Err(header::mismatch(&self.path, offset, found, expected))
    }

    fn absent(&self, numbers: &Range<u64>) -> Error {
        Error::Shape {
            name: "segment rows".into(),
            got: format!("{}..{}", numbers.start, numbers.end),
            expected: format!("rows and bytes of a column of {}", self.path.display()),
        }
    }
}

/// Bytes of rows.
fn span(column: &Column, rows: Range<u64>) -> usize {
    usize::try_from(rows.end - rows.start).unwrap_or(usize::MAX).saturating_mul(column.row_bytes)
}

fn read(path: &Path, file: &dyn RandomRead, out: &mut [u8], offset: u64) -> Result<()> {
    file.read_at(out, offset).map_err(|cause| failure(path, offset, cause))
}

fn failure(path: &Path, offset: u64, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::NotFound => Error::damaged(path, 0, "the file is missing"),
        io::ErrorKind::UnexpectedEof => Error::damaged(path, offset, "the file ends too early"),
        _ => Error::storage("read", path, cause),
    }
}
