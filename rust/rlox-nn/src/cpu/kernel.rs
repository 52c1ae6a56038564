//! Products of float32 matrices with the vectors of x86-64 CPUs: AVX-512, or AVX2 with FMA.
//!
//! A number of the result is a sum over blocks of [`BLOCK`] terms. Each block is summed in ascending
//! order by fused multiply-adds, from 0, and then added to the number. On a CPU with FMA `matrixmultiply`
//! sums in the same order, so the bits are the same, but for the sign of a zero that underflows; the tests
//! compare them.
//!
//! A tile is a part of the result that stays in registers during the sum: [`avx512::ROWS`] rows and
//! [`avx512::COLUMNS`] columns, fewer at the edges. For each term a tile reads a number of every row of
//! a, where it lies, and one line of columns of b. The lines are first copied into a panel, one after
//! the other, unless they already lie close together.
//!
//! All functions take pointers and are unsafe. They are sound for matrices whose numbers lie within
//! their slices, as `Number::multiply` ensures: a tile reads and writes only rows and columns that exist,
//! but for lines of a panel, and for the tile of an edge, which has an array of its own.
#![allow(unsafe_code)]

use std::arch::x86_64::{
    __m256, __m512, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_set1_ps,
    _mm256_setzero_ps, _mm256_shuffle_ps, _mm256_storeu_ps, _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    _mm512_add_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};
use std::array;
use std::mem::MaybeUninit;

use super::operand::{Operand, Product};

/// Number of terms that are summed before they are added to a number of the result.
const BLOCK: usize = 256;

/// Largest distance in bytes between the first and last line of b that are read where they lie.
const MAX_DIRECT_BYTES: usize = 24 << 10;

impl Operand<f32> {
    /// Returns the part of the matrix that begins at this row and column.
    ///
    /// # Safety
    /// The matrix has that row and column.
    #[inline]
    unsafe fn from(self, row: usize, column: usize) -> Self {
        // SAFETY: the number lies in the matrix.
        Self { start: unsafe { self.start.add(row * self.row + column * self.column) }, ..self }
    }
}

/// Where a tile writes its sums: its first number, the distance to the next row, and the numbers to
/// which they are added.
#[derive(Clone, Copy)]
struct Target {
    start: *mut f32,
    row: usize,
    addend: Option<Operand<f32>>,
}

impl Target {
    /// Returns the part of the target that begins at this row and column.
    ///
    /// # Safety
    /// The target has that row and column.
    #[inline]
    unsafe fn from(self, row: usize, column: usize) -> Self {
        // SAFETY: the numbers lie in the target and its addend.
        unsafe {
            let addend = self.addend.map(|addend| addend.from(row, column));
            Self { start: self.start.add(row * self.row + column), addend, ..self }
        }
    }
}

/// Returns the fastest product on this CPU; None without AVX2 and FMA.
pub(super) fn product_of_cpu() -> Option<Product<f32>> {
    if is_x86_feature_detected!("avx512f") {
        Some(avx512::multiply)
    } else if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        Some(avx2::multiply)
    } else {
        None
    }
}

/// Writes the transpose of 8 rows of 8 numbers.
///
/// # Safety
/// The CPU has AVX; the rows can be read and written.
#[target_feature(enable = "avx")]
#[inline]
unsafe fn transpose_8x8(from: *const f32, from_row: usize, to: *mut f32, to_row: usize) {
    // SAFETY: the caller's.
    let rows: [__m256; 8] = array::from_fn(|i| unsafe { _mm256_loadu_ps(from.add(i * from_row)) });
    let [r0, r1, r2, r3, r4, r5, r6, r7] = rows;
    let pairs = |a, b| (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    let ((p0, p1), (p2, p3)) = (pairs(r0, r1), pairs(r2, r3));
    let ((p4, p5), (p6, p7)) = (pairs(r4, r5), pairs(r6, r7));
    let fours = |a, b| (_mm256_shuffle_ps::<0x44>(a, b), _mm256_shuffle_ps::<0xEE>(a, b));
    let ((q0, q1), (q2, q3)) = (fours(p0, p2), fours(p1, p3));
    let ((q4, q5), (q6, q7)) = (fours(p4, p6), fours(p5, p7));
    let low = |a, b| _mm256_permute2f128_ps::<0x20>(a, b);
    let high = |a, b| _mm256_permute2f128_ps::<0x31>(a, b);
    let columns = [
        low(q0, q4),
        low(q1, q5),
        low(q2, q6),
        low(q3, q7),
        high(q0, q4),
        high(q1, q5),
        high(q2, q6),
        high(q3, q7),
    ];
    for (i, column) in columns.into_iter().enumerate() {
        // SAFETY: the caller's.
        unsafe { _mm256_storeu_ps(to.add(i * to_row), column) };
    }
}

macro_rules! kernels {
    (
        $module:ident, $features:literal, $vector:ty, lanes $lanes:literal, rows $rows:literal of $($r:literal)*,
        $zero:ident, $load:ident, $store:ident, $splat:ident, $multiply_add:ident, $sum:ident
    ) => {
        mod $module {
            use super::*;

            /// Number of rows of a tile.
            pub(super) const ROWS: usize = $rows;
            /// Number of columns of a tile: two vectors.
            pub(super) const COLUMNS: usize = 2 * $lanes;

            /// The lines of a panel.
            #[repr(C, align(64))]
            struct Panel(MaybeUninit<[f32; BLOCK * COLUMNS]>);

            /// Computes R rows and W vectors of columns from `depth` terms.
            ///
            /// # Safety
            /// The CPU has the vectors; rows and lines can be read, and the target's rows be written.
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn tile<const R: usize, const W: usize>(
                depth: usize,
                a: Operand<f32>,
                b: Operand<f32>,
                target: Target,
            ) {
                let mut sums = [[$zero(); W]; R];
                for term in 0..depth {
                    // SAFETY: the caller's; term is less than `depth`, r than R, w than W.
                    unsafe {
                        let line = b.start.add(term * b.row);
                        let columns: [$vector; W] = array::from_fn(|w| $load(line.add(w * $lanes)));
                        let first = a.start.add(term * a.column);
                        for (r, sums) in sums.iter_mut().enumerate() {
                            let factor = $splat(*first.add(r * a.row));
                            for (sum, &column) in sums.iter_mut().zip(&columns) {
                                *sum = $multiply_add(factor, column, *sum);
                            }
                        }
                    }
                }
                for (r, sums) in sums.into_iter().enumerate() {
                    for (w, sum) in sums.into_iter().enumerate() {
                        // SAFETY: the caller's, as above.
                        unsafe {
                            let sum = match target.addend {
                                Some(addend) => $sum($load(addend.from(r, w * $lanes).start), sum),
                                None => sum,
                            };
                            $store(target.start.add(r * target.row + w * $lanes), sum);
                        }
                    }
                }
            }

            /// Computes a tile of this number of rows, and of one vector of columns or two.
            ///
            /// # Safety
            /// That of [`tile`].
            #[target_feature(enable = $features)]
            #[inline]
            unsafe fn tile_of_rows(
                (rows, is_wide): (usize, bool),
                depth: usize,
                a: Operand<f32>,
                b: Operand<f32>,
                target: Target,
            ) {
                // SAFETY: the caller's.
                unsafe {
                    match (rows, is_wide) {
                        $(
                            ($r, true) => tile::<$r, 2>(depth, a, b, target),
                            ($r, false) => tile::<$r, 1>(depth, a, b, target),
                        )*
                        _ => {}
                    }
                }
            }

            /// Copies `depth` lines of `width` numbers into a panel, with zeros at their ends.
            ///
            /// # Safety
            /// The CPU has the vectors; the lines can be read, and the panel be written.
            #[target_feature(enable = $features)]
            unsafe fn copy_lines(b: Operand<f32>, depth: usize, width: usize, panel: *mut f32) {
                let in_eights = |n: usize| n / 8 * 8;
                let (rows, columns) = if b.row == 1 { (in_eights(depth), in_eights(width)) } else { (0, 0) };
                // SAFETY: the caller's; a line of the panel has COLUMNS numbers, at least `width`.
                unsafe {
                    for i in (0..rows).step_by(8) {
                        for j in (0..columns).step_by(8) {
                            transpose_8x8(b.from(i, j).start, b.column, panel.add(i * COLUMNS + j), COLUMNS);
                        }
                    }
                    for i in 0..depth {
                        let line = panel.add(i * COLUMNS);
                        if b.column == 1 && width == COLUMNS {
                            let from = b.from(i, 0).start;
                            $store(line, $load(from));
                            $store(line.add($lanes), $load(from.add($lanes)));
                            continue;
                        }
                        for j in if i < rows { columns } else { 0 }..width {
                            *line.add(j) = *b.from(i, j).start;
                        }
                        line.add(width).write_bytes(0, COLUMNS - width);
                    }
                }
            }

            /// Computes the product: see [`Product`].
            ///
            /// # Safety
            /// That of [`Product`].
            #[target_feature(enable = $features)]
            pub(super) unsafe fn multiply(
                a: Operand<f32>,
                b: Operand<f32>,
                [m, k, n]: [usize; 3],
                addend: Option<Operand<f32>>,
                c: *mut f32,
            ) {
                let mut target = Target { start: c, row: n, addend };
                let mut panel = Panel(MaybeUninit::uninit());
                let panel = panel.0.as_mut_ptr().cast::<f32>();
                for first in (0..k).step_by(BLOCK) {
                    let depth = BLOCK.min(k - first);
                    for column in (0..n).step_by(COLUMNS) {
                        // SAFETY: the caller's; first is less than k, column than n.
                        unsafe {
                            let (a, mut b) = (a.from(0, first), b.from(first, column));
                            let width = COLUMNS.min(n - column);
                            let is_whole = width % $lanes == 0;
                            let is_close = m <= ROWS || (depth - 1) * b.row * size_of::<f32>() <= MAX_DIRECT_BYTES;
                            if !(is_whole && b.column == 1 && is_close) {
                                copy_lines(b, depth, width, panel);
                                b = Operand { start: panel, row: COLUMNS, column: 1 };
                            }
                            columns(a, b, [m, depth, width], target.from(0, column));
                        }
                    }
                    target.addend = Some(Operand { start: c, row: n, column: 1 });
                }
            }

            /// Computes `width` columns of the result, at most COLUMNS.
            ///
            /// # Safety
            /// That of [`tile`], for m rows; whole vectors of the lines can be read.
            #[target_feature(enable = $features)]
            unsafe fn columns(a: Operand<f32>, b: Operand<f32>, [m, depth, width]: [usize; 3], target: Target) {
                let is_whole = width % $lanes == 0;
                for row in (0..m).step_by(ROWS) {
                    let rows = ROWS.min(m - row);
                    let shape = (rows, width > $lanes);
                    // SAFETY: the caller's; a row of the edge has COLUMNS numbers, at least the tile's.
                    unsafe {
                        let a = a.from(row, 0);
                        let target = target.from(row, 0);
                        if is_whole {
                            tile_of_rows(shape, depth, a, b, target);
                            continue;
                        }
                        let mut edge = [0.0; ROWS * COLUMNS];
                        let edge_target = Target { start: edge.as_mut_ptr(), row: COLUMNS, addend: None };
                        tile_of_rows(shape, depth, a, b, edge_target);
                        for (r, sums) in edge.chunks_exact(COLUMNS).take(rows).enumerate() {
                            for (j, &sum) in sums.iter().take(width).enumerate() {
                                let to = target.from(r, j);
                                *to.start = to.addend.map_or(sum, |addend| *addend.start + sum);
                            }
                        }
                    }
                }
            }
        }
    };
}

kernels!(
    avx512, "avx512f", __m512, lanes 16, rows 12 of 1 2 3 4 5 6 7 8 9 10 11 12,
    _mm512_setzero_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps
);
kernels!(
    avx2, "avx2,fma", __m256, lanes 8, rows 6 of 1 2 3 4 5 6,
    _mm256_setzero_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps
);

#[cfg(test)]
mod tests;
