//! The bytes of one record: what a row has besides its observations.

use crate::buffer::schema::Schema;

/// Flag bit: the row reached a terminal state.
pub(in crate::buffer) const TERMINATED: u8 = 1;
/// Flag bit: the row's episode was cut short.
pub(in crate::buffer) const TRUNCATED: u8 = 2;

/// Where the parts of a record are.
#[derive(Debug, Clone)]
pub(in crate::buffer) struct Layout {
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

    /// The reward of a record and its flags.
    pub(super) fn reward_and_flags(&self, record: &[u8]) -> (f64, u8) {
        let (offset, width) = self.columns.get(Schema::REWARDS).copied().unwrap_or_default();
        let reward = match record.get(offset..offset + width).unwrap_or_default() {
            &[a, b, c, d] => f64::from(f32::from_ne_bytes([a, b, c, d])),
            bytes => f64::from_ne_bytes(copied(bytes, 0)),
        };
        (reward, self.flags(record))
    }

    /// The flags of a record.
    #[inline]
    pub(super) fn flags(&self, record: &[u8]) -> u8 {
        let [flags] = copied(record, self.flags);
        flags
    }
}

/// The record at byte `at`.
#[inline]
pub(super) fn record(records: &[u8], at: usize, stride: usize) -> &[u8] {
    records.get(at..at + stride).unwrap_or_default()
}

/// Writes the lower half of an observation's number into a record.
#[inline]
pub(super) fn put_number(records: &mut [u8], at: usize, lower: u32) {
    records.get_mut(at..at + 4).unwrap_or_default().copy_from_slice(&lower.to_ne_bytes());
}

/// Writes the flags into a record.
#[inline]
pub(super) fn put_flags(records: &mut [u8], at: usize, flags: u8) {
    // Of a slice of one byte the compiler makes a call of memcpy.
    assert!(at < records.len(), "no record at byte {at}");
    if let Some(place) = records.get_mut(at) {
        *place = flags;
    }
}

/// The lower half of an observation's number in a record.
#[inline]
pub(in crate::buffer) fn number_at(records: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(copied(records, at))
}

/// The bytes from `at` on; where there are none it ends in a panic, never in zeros.
#[inline]
pub(super) fn copied<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes.get(at..at + N).unwrap_or_default());
    array
}
