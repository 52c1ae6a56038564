//! What the numbers of a saved buffer say, apart from lengths and checksums, which always fit.
//!
//! The bytes of a draft: a byte that says which kind of buffer it is of, then columns until they end. A column is
//! a byte for its file (0: the manifest, else a segment), one for its name, the number of its first row (8, only of
//! segments), how many bytes it has (2), and these.

/// Columns beyond those of a buffer, so that strangers come too.
pub(crate) const STRANGER: &str = "stranger";

/// Segments of a draft at most.
pub(crate) const SEGMENTS: usize = 8;

/// A column of the manifest or a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftColumn {
    /// 0: the manifest; else the segment's number, counted from 1.
    pub file: usize,
    /// Its place among the names of a buffer.
    pub name: usize,
    /// Number of its first row.
    pub first: u64,
    /// Its rows.
    pub bytes: Vec<u8>,
}

/// A saved buffer that may lie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    /// Which kind of buffer it is of.
    pub kind: u8,
    /// Columns, in the order in which their files have them.
    pub columns: Vec<DraftColumn>,
}

impl Draft {
    /// The draft of some bytes; what is cut off at the end is left out.
    #[must_use]
    pub fn of(data: &[u8]) -> Self {
        let (&kind, mut rest) = data.split_first().unwrap_or((&0, &[]));
        let mut columns = Vec::new();
        while let Some(column) = take_column(&mut rest) {
            columns.push(column);
        }
        Self { kind, columns }
    }

    /// The bytes of a draft.
    ///
    /// # Panics
    /// For a column that is too long.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.kind];
        for column in &self.columns {
            out.push(u8::try_from(column.file).expect("a file"));
            out.push(u8::try_from(column.name).expect("a name"));
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
    let file = usize::from(file) % (SEGMENTS + 1);
    let (first, after) = if file > 0 {
        after.split_first_chunk().map(|(x, rest)| (u64::from_le_bytes(*x), rest))?
    } else {
        (0, after)
    };
    let (len, after) = after.split_first_chunk()?;
    let len = usize::from(u16::from_le_bytes(*len)).min(after.len());
    let (bytes, after) = after.split_at(len);
    *rest = after;
    Some(DraftColumn { file, name: usize::from(name), first, bytes: bytes.to_vec() })
}
