//! The byte layout of a record, which has everything of a row except its observations. Each
//! observation is stored elsewhere under a number; the record has the lower half of this number.

use crate::buffer::schema::Schema;

/// Flag bit: the row reached a terminal state.
pub(in crate::buffer) const TERMINATED: u8 = 1;
/// Flag bit: the row's episode was truncated.
pub(in crate::buffer) const TRUNCATED: u8 = 2;

/// The offsets of the parts of a record.
#[derive(Debug, Clone)]
pub(in crate::buffer) struct Layout {
    /// Size of a record in bytes: lower half (u32) of each observation's number, flags, columns.
    pub stride: usize,
    /// Offset of the flags.
    pub flags_offset: usize,
    /// Offset and size in bytes of each column.
    pub columns: Vec<(usize, usize)>,
    /// For each observation column, the size of one observation in bytes. Observations are stored
    /// outside the records.
    pub obs_bytes: Vec<usize>,
}

impl Layout {
    /// Makes the layout of a schema's records.
    pub(super) fn new(schema: &Schema) -> Self {
        let flags_offset = 4 * schema.obs().len();
        let mut stride = flags_offset + 1;
        let columns = schema.columns().iter().map(|column| {
            let place = (stride, column.row_bytes());
            stride += place.1;
            place
        });
        let columns = columns.collect();
        let obs = schema.obs().iter().map(|column| column.field.row_bytes()).collect();
        Self { stride, flags_offset, columns, obs_bytes: obs }
    }

    /// Returns the reward and the flags of a record.
    pub(super) fn reward_and_flags(&self, record: &[u8]) -> (f64, u8) {
        let (offset, width) = self.columns.get(Schema::REWARDS).copied().unwrap_or_default();
        let reward = match record.get(offset..offset + width).unwrap_or_default() {
            &[a, b, c, d] => f64::from(f32::from_ne_bytes([a, b, c, d])),
            bytes => f64::from_ne_bytes(read_array(bytes, 0)),
        };
        (reward, self.flags(record))
    }

    /// Returns the flags of a record.
    #[inline]
    pub(super) fn flags(&self, record: &[u8]) -> u8 {
        let [flags] = read_array(record, self.flags_offset);
        flags
    }
}

/// Returns the record at a byte offset.
#[inline]
pub(super) fn record(records: &[u8], offset: usize, stride: usize) -> &[u8] {
    records.get(offset..offset + stride).unwrap_or_default()
}

/// Writes the lower half of an observation's number into a record.
#[inline]
pub(super) fn write_lower_half(records: &mut [u8], offset: usize, lower: u32) {
    records.get_mut(offset..offset + 4).unwrap_or_default().copy_from_slice(&lower.to_ne_bytes());
}

/// Writes the flags into a record.
#[inline]
pub(super) fn write_flags(records: &mut [u8], offset: usize, flags: u8) {
    // For a slice of one byte, the compiler would call memcpy.
    assert!(offset < records.len(), "no record at byte {offset}");
    if let Some(place) = records.get_mut(offset) {
        *place = flags;
    }
}

/// Reads the lower half of an observation's number from a record.
#[inline]
pub(in crate::buffer) fn lower_half_at(records: &[u8], offset: usize) -> u32 {
    u32::from_ne_bytes(read_array(records, offset))
}

/// Reads `N` bytes from an offset on.
///
/// # Panics
/// Panics if there are fewer bytes. So missing bytes are never read as zeros.
#[inline]
pub(super) fn read_array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes.get(offset..offset + N).unwrap_or_default());
    array
}
