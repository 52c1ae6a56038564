//! Copies of constant length: small rows are moved by a few loads and stores.

/// Runs `$fixed` with `const $n` set to `$width` if that is a common size of small rows, else
/// `$any`.
macro_rules! with_width {
    ($width:expr, $n:ident => $fixed:expr, else $any:expr) => {
        $crate::buffer::rows::width::with_width!(@ $width, $n, $fixed, $any;
            1 2 4 8 12 16 20 24 28 32 40 48 56 64 68 72 80 96 112 128)
    };
    (@ $width:expr, $n:ident, $fixed:expr, $any:expr; $($size:literal)*) => {
        match $width {
            $($size => { const $n: usize = $size; $fixed })*
            _ => $any,
        }
    };
}

pub(super) use with_width;

/// Copies bytes `[offset, offset + width)` of each record into `out`, row by row. Each of `places` is
/// the byte at which a record begins.
///
/// # Panics
/// Panics if there is no such record, so that `out` never keeps its old bytes.
pub(super) fn gather(
    records: &[u8],
    places: impl Iterator<Item = usize>,
    offset: usize,
    width: usize,
    out: &mut [u8],
) {
    with_width!(width, N => gather_fixed::<N>(records, places, offset, out), else {
        for (place, row) in places.zip(out.chunks_exact_mut(width)) {
            row.copy_from_slice(part(records, place + offset, width));
        }
    });
}

// A separate function: inlined beside other widths, its counters would not stay in registers.
#[inline(never)]
fn gather_fixed<const N: usize>(
    records: &[u8],
    places: impl Iterator<Item = usize>,
    offset: usize,
    out: &mut [u8],
) {
    for (place, row) in places.zip(out.as_chunks_mut::<N>().0) {
        row.copy_from_slice(part(records, place + offset, N));
    }
}

#[inline]
fn part(records: &[u8], at: usize, width: usize) -> &[u8] {
    records.get(at..at + width).unwrap_or_default()
}

/// The inverse of [`gather`]: writes row i of `rows` into the i-th record.
pub(super) fn scatter(
    records: &mut [u8],
    places: impl Iterator<Item = usize>,
    offset: usize,
    width: usize,
    rows: &[u8],
) {
    with_width!(width, N => {
        for (place, row) in places.zip(rows.as_chunks::<N>().0) {
            let at = place + offset;
            records.get_mut(at..at + N).unwrap_or_default().copy_from_slice(row);
        }
    }, else {
        for (place, row) in places.zip(rows.chunks_exact(width)) {
            let at = place + offset;
            records.get_mut(at..at + width).unwrap_or_default().copy_from_slice(row);
        }
    });
}

/// Writes a few bytes at `offset` of a record.
#[inline]
pub(super) fn copy(source: &[u8], record: &mut [u8], offset: usize) {
    let place = record.get_mut(offset..offset + source.len()).unwrap_or_default();
    // A call of memcpy would take longer than the copy of one number.
    if let (Ok(place), Ok(source)) = (<&mut [u8; 4]>::try_from(&mut *place), <&[u8; 4]>::try_from(source)) {
        *place = *source;
    } else {
        place.copy_from_slice(source);
    }
}
