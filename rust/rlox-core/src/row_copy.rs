//! Copies of rows, past the caches where these could not hold the result anyway.
//!
//! A store to memory that is not in a cache first reads it: copying moves three bytes for each one.
//! Streaming stores leave that read out.
//!
//! The only module of the crate with unsafe code, and this is all of it: one function of SSE2
//! intrinsics, which every x86-64 processor has. It is sound because source and target of each are
//! references to 64 bytes, the target's address is a multiple of 16, and the fence at the end makes
//! streaming stores visible before any other memory access that follows.
#![allow(unsafe_code)]

/// What is copied by one call fits no cache from this many bytes on.
const STREAM_FROM: usize = 32 << 20;

/// How rows are copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowCopy {
    /// Through the caches.
    Cached,
    /// Past them.
    Streaming,
}

impl RowCopy {
    /// What suits a call that copies so many bytes in all.
    pub(crate) const fn of(bytes: usize) -> Self {
        if bytes >= STREAM_FROM { Self::Streaming } else { Self::Cached }
    }

    /// Copies `source` to `out`, of the same length.
    pub(crate) fn row(self, source: &[u8], out: &mut [u8]) {
        match self {
            Self::Streaming if source.len() == out.len() => stream(source, out),
            _ => out.copy_from_slice(source),
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(source: &[u8], out: &mut [u8]) {
    out.copy_from_slice(source);
}

#[cfg(target_arch = "x86_64")]
fn stream(source: &[u8], out: &mut [u8]) {
    // Miri knows neither streaming stores nor their fence; an aligned store asks the same of its place.
    #[cfg(miri)]
    use std::arch::x86_64::_mm_store_si128 as store;
    use std::arch::x86_64::{__m128i, _mm_loadu_si128};
    #[cfg(not(miri))]
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si128 as store};
    let ahead = out.as_ptr().align_offset(LINE).min(out.len());
    let (first, source) = source.split_at(ahead);
    let (start, out) = out.split_at_mut(ahead);
    start.copy_from_slice(first);
    let (lines, last) = source.as_chunks::<LINE>();
    let (places, end) = out.as_chunks_mut::<LINE>();
    for (place, line) in places.iter_mut().zip(lines) {
        let place: *mut __m128i = place.as_mut_ptr().cast();
        let line: *const __m128i = line.as_ptr().cast();
        for part in 0..LINE / 16 {
            // SAFETY: both point to LINE bytes, of which this is a sixteenth; loads need no
            // alignment, and `out` begins at a multiple of LINE.
            unsafe { store(place.add(part), _mm_loadu_si128(line.add(part))) };
        }
    }
    #[cfg(not(miri))]
    // SAFETY: SSE, which every x86-64 processor has.
    unsafe {
        _mm_sfence();
    }
    end.copy_from_slice(last);
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streamed_rows_are_the_source_at_every_length_and_alignment() {
        let source: Vec<u8> = (0..1_000_u16).map(|i| (i % 251) as u8).collect();
        let stride = if cfg!(miri) { 5 } else { 1 }; // a minute under miri
        for from in (0..17).step_by(stride) {
            for at in (0..65).step_by(stride) {
                for len in [0, 1, 15, 63, 64, 65, 127, 128, 129, 500] {
                    let mut out = vec![255; 700];
                    RowCopy::Streaming.row(&source[from..from + len], &mut out[at..at + len]);
                    assert_eq!(out[at..at + len], source[from..from + len]);
                    assert!(out[..at].iter().chain(&out[at + len..]).all(|&byte| byte == 255));
                }
            }
        }
    }

    #[test]
    fn a_call_whose_result_fits_no_cache_goes_past_them() {
        assert_eq!(RowCopy::of(STREAM_FROM - 1), RowCopy::Cached);
        assert_eq!(RowCopy::of(STREAM_FROM), RowCopy::Streaming);
    }
}
