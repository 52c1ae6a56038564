//! The bytes of one row.

use super::schema::Schema;

/// Where the parts of a record are.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Bytes of a record: numbers of the observations (u32 each), flags, columns.
    pub stride: usize,
    /// Offset of the flags.
    pub flags: usize,
    /// Offset and bytes of each column.
    pub columns: Vec<(usize, usize)>,
    /// Bytes of each observation column, which are kept apart.
    pub obs: Vec<usize>,
}

impl Layout {
    /// The layout of a schema's records.
    pub(super) fn new(schema: &Schema) -> Self {
        let flags = 4 * schema.obs().len();
        let mut stride = flags + 1;
        let columns = schema.columns().iter().map(|column| {
            let place = (stride, column.row_bytes());
            stride += place.1;
            place
        });
        let columns = columns.collect();
        let obs = schema.obs().iter().map(|column| column.field.row_bytes()).collect();
        Self { stride, flags, columns, obs }
    }
}

/// Writes the lower half of an observation's number into a record.
#[inline]
pub(super) fn put_number(records: &mut [u8], at: usize, lower: u32) {
    if let Some(slot) = records.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *slot = lower.to_ne_bytes();
    }
}

/// The lower half of an observation's number in a record.
#[inline]
pub(super) fn number_at(records: &[u8], at: usize) -> u32 {
    records.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |lower| u32::from_ne_bytes(*lower))
}

/// The number with lower half `lower` that is at most 2^32 before `end`.
#[inline]
pub(super) const fn number_behind(end: u64, lower: u32) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    let behind = (end as u32).wrapping_sub(lower);
    end.wrapping_sub(behind as u64)
}
