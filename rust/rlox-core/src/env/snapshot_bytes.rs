//! Snapshots as little-endian bytes: a mark and a version, every field with its length, and at the
//! end a CRC-32 of all bytes before it.

// A file can hold any number, so this module has no operation that could overflow.
#![deny(clippy::arithmetic_side_effects)]

use super::{Precision, Snapshot};
use crate::error::{Error, Result};

/// The first bytes of a snapshot; the last of them is the version.
const MAGIC: [u8; 8] = *b"rloxenv\x01";

/// Number of bytes of the checksum at the end.
const CHECKSUM_BYTES: usize = 4;

impl Snapshot {
    /// Returns the snapshot as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        write_items(&mut out, self.env_id.bytes().map(|byte| [byte]));
        write_items(&mut out, self.precision.name().bytes().map(|byte| [byte]));
        for numbers in [&self.seeds, &self.indices, &self.positions] {
            write_items(&mut out, numbers.iter().map(|number| number.to_le_bytes()));
        }
        write_items(&mut out, self.elapsed.iter().map(|steps| steps.to_le_bytes()));
        write_items(&mut out, self.state.iter().map(|value| value.to_le_bytes()));
        out.extend(crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// Reads the bytes of [`Snapshot::to_bytes`].
    ///
    /// # Errors
    /// [`Error::Snapshot`] for another format or version, or for damaged bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let damage_error = || Error::snapshot("bytes", "damaged", "the bytes of a snapshot of environments");
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(damage_error)?;
        let mut rest = content.strip_prefix(&MAGIC).ok_or_else(|| {
            let got = format!("{:?}", bytes.get(..MAGIC.len()).unwrap_or(bytes));
            Error::snapshot("format", got, format!("{MAGIC:?}"))
        })?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(damage_error());
        }
        let mut read = || {
            let mut text = || String::from_utf8(read_items(&mut rest, |[byte]| byte)?).ok();
            let (env_id, name) = (text()?, text()?);
            let batch_snapshot = Self {
                env_id,
                precision: Precision::ALL.into_iter().find(|kind| kind.name() == name)?,
                seeds: read_items(&mut rest, u64::from_le_bytes)?,
                indices: read_items(&mut rest, u64::from_le_bytes)?,
                positions: read_items(&mut rest, u64::from_le_bytes)?,
                elapsed: read_items(&mut rest, u32::from_le_bytes)?,
                state: read_items(&mut rest, f64::from_le_bytes)?,
            };
            rest.is_empty().then_some(batch_snapshot)
        };
        read().ok_or_else(damage_error)
    }
}

/// Appends the number of items, then the items.
fn write_items<const N: usize>(out: &mut Vec<u8>, items: impl ExactSizeIterator<Item = [u8; N]>) {
    out.extend((items.len() as u64).to_le_bytes());
    items.for_each(|item| out.extend(item));
}

/// Removes from the front of `rest` the items of `N` bytes that [`write_items`] appended, and returns
/// them.
fn read_items<const N: usize, T>(rest: &mut &[u8], item: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
    let (count, after) = rest.split_first_chunk()?;
    let bytes = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(N)?;
    let (items, after) = after.split_at_checked(bytes)?;
    *rest = after;
    Some(items.as_chunks::<N>().0.iter().map(|&bytes| item(bytes)).collect())
}
