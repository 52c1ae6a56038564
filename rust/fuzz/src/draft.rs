//! The contents of a saved buffer without lengths and checksums: the harness writes valid ones.
//!
//! The bytes of a draft are one byte for the kind of the buffer, and then its columns. A column is
//! one byte for its file (0 for the manifest, otherwise a segment), one for its name, the number of
//! its first row (8 bytes, only for segments), its length in bytes (2 bytes), and its bytes.

/// Name of a column that no buffer has, so that unknown columns occur too.
pub(crate) const UNKNOWN_COLUMN: &str = "stranger";

/// Largest number of segments of a draft.
pub(crate) const MAX_SEGMENTS: usize = 8;

/// A column of the manifest or a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftColumn {
    /// 0 for the manifest, otherwise the segment's number, counted from 1.
    pub file: usize,
    /// The position of its name among the column names of a buffer.
    pub name_index: usize,
    /// Number of its first row.
    pub first: u64,
    /// The bytes of its rows.
    pub bytes: Vec<u8>,
}

/// The contents of a saved buffer, which may be invalid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// The kind of the buffer.
    pub kind: u8,
    /// Columns, in the order that they have in their files.
    pub columns: Vec<DraftColumn>,
}

impl Draft {
    /// Decodes a draft. If the data ends early, the last column is shorter or missing.
    #[must_use]
    pub fn from_bytes(data: &[u8]) -> Self {
        let (&kind, mut rest) = data.split_first().unwrap_or((&0, &[]));
        let mut columns = Vec::new();
        while let Some(column) = take_column(&mut rest) {
            columns.push(column);
        }
        Self { kind, columns }
    }

    /// Encodes the draft.
    ///
    /// # Panics
    /// If a column is too long, or the number of its file or name too large.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.kind];
        for column in &self.columns {
            out.push(u8::try_from(column.file).expect("a file"));
            out.push(u8::try_from(column.name_index).expect("a name"));
            if column.file > 0 {
                out.extend(column.first.to_le_bytes());
            }
            out.extend(u16::try_from(column.bytes.len()).expect("a short column").to_le_bytes());
            out.extend(&column.bytes);
        }
        out
    }
}

fn take_column(rest: &mut &[u8]) -> Option<DraftColumn> {
    let (&[file, name], after) = rest.split_first_chunk()?;
    let file = usize::from(file) % (MAX_SEGMENTS + 1);
    let (first, after) = if file > 0 {
        after.split_first_chunk().map(|(x, rest)| (u64::from_le_bytes(*x), rest))?
    } else {
        (0, after)
    };
    let (len, after) = after.split_first_chunk()?;
    let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
    let (bytes, after) = after.split_at(len);
    *rest = after;
    Some(DraftColumn { file, name_index: usize::from(name), first, bytes: bytes.to_vec() })
}
