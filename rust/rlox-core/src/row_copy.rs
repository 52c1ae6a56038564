//! Copies of rows. Copies that are too large for the caches bypass them.
//!
//! A store to memory that is not in a cache first reads that memory, so a copy moves three bytes
//! for each copied byte. Streaming stores avoid this read.
//!
//! This is the only module of the crate with unsafe code: one function of SSE2 intrinsics, which
//! every x86-64 processor has. The code is sound because the source and the target of each store
//! are references to 64 bytes, the address of the target is a multiple of 16, and the fence at the
//! end makes streaming stores visible before any other memory access that follows.
#![allow(unsafe_code)]

/// Bytes per call from which the copied data fits no cache.
const STREAM_FROM: usize = 32 << 20;

/// A way to copy rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowCopy {
    /// The copy goes through the caches.
    Cached,
    /// The copy bypasses the caches.
    Streaming,
}

impl RowCopy {
    /// Returns the way that suits a call that copies `bytes` bytes in total.
    pub(crate) const fn for_size(bytes: usize) -> Self {
        if bytes >= STREAM_FROM { Self::Streaming } else { Self::Cached }
    }

    /// Copies `source` to `out`, which has the same length.
    pub(crate) fn copy_row(self, source: &[u8], out: &mut [u8]) {
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
    // Miri knows neither streaming stores nor their fence. An aligned store has the same
    // requirements for its address.
    #[cfg(miri)]
    use std::arch::x86_64::_mm_store_si128 as store;
    use std::arch::x86_64::{__m128i, _mm_loadu_si128};
    #[cfg(not(miri))]
    use std::arch::x86_64::{_mm_sfence, _mm_stream_si128 as store};
    let unaligned_len = out.as_ptr().align_offset(LINE).min(out.len());
    let (head, source) = source.split_at(unaligned_len);
    let (out_head, out) = out.split_at_mut(unaligned_len);
    out_head.copy_from_slice(head);
    let (lines, tail) = source.as_chunks::<LINE>();
    let (out_lines, out_tail) = out.as_chunks_mut::<LINE>();
    for (out_line, line) in out_lines.iter_mut().zip(lines) {
        let target: *mut __m128i = out_line.as_mut_ptr().cast();
        let line: *const __m128i = line.as_ptr().cast();
        for part in 0..LINE / 16 {
            // SAFETY: both pointers point to LINE bytes, of which this part is 16; loads need no
            // alignment, and `out` begins at a multiple of LINE.
            unsafe { store(target.add(part), _mm_loadu_si128(line.add(part))) };
        }
    }
    #[cfg(not(miri))]
    // SAFETY: the fence needs SSE, which every x86-64 processor has.
    unsafe {
        _mm_sfence();
    }
    out_tail.copy_from_slice(tail);
}

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_copies_equal_the_source_at_every_length_and_alignment() {
        let source: Vec<u8> = (0..1_000_u16).map(|i| (i % 251) as u8).collect();
        let stride = if cfg!(miri) { 5 } else { 1 }; // Miri would take a minute
        for source_start in (0..17).step_by(stride) {
            for out_start in (0..65).step_by(stride) {
                for len in [0, 1, 15, 63, 64, 65, 127, 128, 129, 500] {
                    let mut out = vec![255; 700];
                    RowCopy::Streaming.copy_row(
                        &source[source_start..source_start + len],
                        &mut out[out_start..out_start + len],
                    );
                    assert_eq!(out[out_start..out_start + len], source[source_start..source_start + len]);
                    assert!(out[..out_start].iter().chain(&out[out_start + len..]).all(|&byte| byte == 255));
                }
            }
        }
    }

    #[test]
    fn a_copy_too_large_for_the_caches_bypasses_them() {
        assert_eq!(RowCopy::for_size(STREAM_FROM - 1), RowCopy::Cached);
        assert_eq!(RowCopy::for_size(STREAM_FROM), RowCopy::Streaming);
    }
}
