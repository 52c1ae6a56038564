//! Matrix products.
//!
//! `kernel` computes products of float32, and `matrixmultiply` all others, also those on CPUs without the
//! vectors of `kernel`. Both take pointers; no other module of the crate has unsafe code. Their calls are
//! sound because [`Number::multiply`] continues only if the sizes fit one another
//! and the slice of each matrix has all of its numbers, in row-major order or as the transpose of it. So
//! every address that is used lies within its slice, and the result is borrowed exclusively.
//!
//! A number of the result depends on its row of a, its column of b and the CPU, not on the number
//! of other rows and columns.
#![allow(unsafe_code)]

use std::ops::Range;

use rlox_core::math::Float;
use rlox_core::{Error, Result};

#[cfg(target_arch = "x86_64")]
use super::kernel;
use super::operand::{Operand, Product};

/// float32 or float64, with the operations that networks need.
pub trait Number: Float {
    /// Returns the square root.
    #[must_use]
    fn sqrt(self) -> Self;

    /// Computes c = a b, plus what `addend` says.
    ///
    /// # Errors
    /// [`Error::Internal`] unless the sizes fit.
    fn multiply(
        a: Matrix<'_, Self>,
        b: Matrix<'_, Self>,
        addend: Addend<'_, Self>,
        c: &mut [Self],
    ) -> Result<()>;
}

/// What is added to a product.
#[derive(Debug, Clone, Copy)]
pub enum Addend<'a, F> {
    /// Nothing; the earlier numbers of the result are overwritten.
    Nothing,
    /// The earlier numbers of the result.
    Result,
    /// This row, to each row of the product.
    Row(&'a [F]),
}

/// A view of a matrix.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a, F> {
    values: &'a [F],
    rows: usize,
    columns: usize,
    /// The distance from a row in `values` to the next one.
    stride: usize,
    /// Whether `values` are the rows of the transpose.
    transposed: bool,
}

impl<'a, F> Matrix<'a, F> {
    /// Returns the matrix of `rows` rows that `values` holds one after the other.
    #[must_use]
    pub const fn new(values: &'a [F], rows: usize, columns: usize) -> Self {
        Self { values, rows, columns, stride: columns, transposed: false }
    }

    /// Returns some columns of the matrix that [`Matrix::new`] returns.
    #[must_use]
    pub fn of_columns(values: &'a [F], rows: usize, stride: usize, columns: &Range<usize>) -> Self {
        let values = values.get(columns.start..).unwrap_or_default();
        Self { values, rows, columns: columns.len(), stride, transposed: false }
    }

    /// Returns the transpose.
    #[must_use]
    pub const fn transposed(self) -> Self {
        let Self { values, rows, columns, stride, transposed } = self;
        Self { values, rows: columns, columns: rows, stride, transposed: !transposed }
    }

    /// Returns the distance from a number to the next row and to the next column; None unless the
    /// slice has the numbers of all rows, and no more if the matrix has all columns.
    fn strides(&self) -> Option<(usize, usize)> {
        let (n, width) = if self.transposed { (self.columns, self.rows) } else { (self.rows, self.columns) };
        isize::try_from(self.stride).ok()?;
        let len = self.values.len();
        let fits = if width == self.stride {
            n.checked_mul(width) == Some(len)
        } else {
            let end =
                n.checked_sub(1).map_or(Some(0), |last| last.checked_mul(self.stride)?.checked_add(width));
            width < self.stride && end.is_some_and(|end| end <= len)
        };
        fits.then_some(if self.transposed { (1, self.stride) } else { (self.stride, 1) })
    }
}

macro_rules! impl_number {
    ($type:ty, $gemm:path, $product_of_cpu:path) => {
        impl Number for $type {
            #[inline]
            fn sqrt(self) -> Self {
                self.sqrt()
            }

            fn multiply(
                a: Matrix<'_, Self>,
                b: Matrix<'_, Self>,
                addend: Addend<'_, Self>,
                c: &mut [Self],
            ) -> Result<()> {
                let (m, k, n) = (a.rows, a.columns, b.columns);
                let out = Matrix::new(&*c, m, n);
                let strides = (a.strides(), b.strides(), out.strides());
                let addend_fits = !matches!(addend, Addend::Row(row) if row.len() != n);
                let (Some(a_strides), Some(b_strides), Some(_), true) =
                    (strides.0, strides.1, strides.2, k == b.rows && addend_fits)
                else {
                    return Err(size_error(&a, &b, c.len()));
                };
                let operand =
                    |values: &[Self], (row, column)| Operand { start: values.as_ptr(), row, column };
                let (a, b) = (operand(a.values, a_strides), operand(b.values, b_strides));
                if let (Some(product), true) = ($product_of_cpu(), k > 0 && !c.is_empty()) {
                    let out = c.as_mut_ptr();
                    let addend = match addend {
                        Addend::Nothing => None,
                        Addend::Result => Some(Operand { start: out.cast_const(), row: n, column: 1 }),
                        Addend::Row(row) => Some(Operand { start: row.as_ptr(), row: 0, column: 1 }),
                    };
                    // SAFETY: see the head of the module; the strides are those of m k, k n and m n
                    // numbers within their slices, which was checked, and the CPU has the vectors.
                    unsafe { product(a, b, [m, k, n], addend, out) };
                    return Ok(());
                }
                if let Addend::Row(row) = addend {
                    c.chunks_exact_mut(n.max(1)).for_each(|c| c.copy_from_slice(row));
                }
                // SAFETY: as above.
                unsafe {
                    $gemm(
                        m,
                        k,
                        n,
                        1.0,
                        a.start,
                        a.row.cast_signed(),
                        a.column.cast_signed(),
                        b.start,
                        b.row.cast_signed(),
                        b.column.cast_signed(),
                        if matches!(addend, Addend::Nothing) { 0.0 } else { 1.0 },
                        c.as_mut_ptr(),
                        n.cast_signed(),
                        1,
                    );
                }
                Ok(())
            }
        }
    };
}

impl_number!(f32, matrixmultiply::sgemm, kernel::product_of_cpu);
impl_number!(f64, matrixmultiply::dgemm, no_product);

/// Networks of float64 serve comparisons and need no kernel of their own.
const fn no_product() -> Option<Product<f64>> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
mod kernel {
    /// Other CPUs than x86-64 have no kernel yet.
    pub(super) const fn product_of_cpu() -> Option<super::Product<f32>> {
        None
    }
}

fn size_error<F>(a: &Matrix<'_, F>, b: &Matrix<'_, F>, c: usize) -> Error {
    let describe = |m: &Matrix<'_, F>| format!("{} x {} in {} numbers", m.rows, m.columns, m.values.len());
    Error::Internal { what: format!("a product of {} and {}, into {c}", describe(a), describe(b)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers<F: From<i8>>(n: usize, first: usize) -> Vec<F> {
        (0..n).map(|i| F::from(i8::try_from((i * 37 + first * 11) % 17).unwrap() - 8)).collect()
    }

    #[test]
    fn products_match_the_definition_also_of_transposed_matrices() {
        for (m, k, n) in [(1, 1, 1), (3, 5, 2), (17, 4, 64), (8, 300, 9)] {
            let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
            let mut expected = numbers(m * n, 3);
            let start = expected.clone();
            for (place, value) in expected.iter_mut().enumerate() {
                let (i, j) = (place / n, place % n);
                *value += (0..k).map(|t| a[i * k + t] * b[t * n + j]).sum::<f64>();
            }
            let transpose = |x: &[f64], rows: usize, columns: usize| -> Vec<f64> {
                (0..rows * columns).map(|p| x[p % rows * columns + p / rows]).collect()
            };
            let (at, bt) = (transpose(&a, m, k), transpose(&b, k, n));
            let plain = (Matrix::new(&a, m, k), Matrix::new(&b, k, n));
            let other = (Matrix::new(&at, k, m).transposed(), Matrix::new(&bt, n, k).transposed());
            for (a, b) in [plain, other, (plain.0, other.1), (other.0, plain.1)] {
                let mut c = start.clone();
                f64::multiply(a, b, Addend::Result, &mut c).unwrap();
                assert_eq!(c, expected, "{m} {k} {n}");
                let bias = numbers(n, 4);
                let mut c = vec![f64::NAN; m * n];
                f64::multiply(a, b, Addend::Row(&bias), &mut c).unwrap();
                let with_bias = expected.iter().zip(&start).zip(bias.iter().cycle());
                assert_eq!(c, with_bias.map(|((e, s), bias)| e - s + bias).collect::<Vec<_>>());
                let mut c = vec![f64::NAN; m * n];
                f64::multiply(a, b, Addend::Nothing, &mut c).unwrap();
                let product: Vec<f64> = expected.iter().zip(&start).map(|(e, s)| e - s).collect();
                assert_eq!(c, product, "{m} {k} {n}");
            }
        }
    }

    #[test]
    fn products_of_float32_have_the_numbers_of_float64_also_without_rows_or_terms() {
        for (m, k, n) in [(0, 300, 70), (3, 0, 40), (3, 5, 0), (1, 1, 1), (7, 513, 33), (2, 64, 64)] {
            let sizes = [m * k, k * n, n, m * n];
            let [a, b, bias, start] = [1, 2, 3, 4].map(|i| numbers::<f64>(sizes[i - 1], i));
            let [a32, b32, bias32, start32] = [1, 2, 3, 4].map(|i| numbers::<f32>(sizes[i - 1], i));
            for (addend, addend32) in [
                (Addend::Nothing, Addend::Nothing),
                (Addend::Result, Addend::Result),
                (Addend::Row(&bias[..]), Addend::Row(&bias32[..])),
            ] {
                let (mut c, mut c32) = (start.clone(), start32.clone());
                f64::multiply(Matrix::new(&a, m, k), Matrix::new(&b, k, n), addend, &mut c).unwrap();
                f32::multiply(Matrix::new(&a32, m, k), Matrix::new(&b32, k, n), addend32, &mut c32).unwrap();
                assert_eq!(c32.into_iter().map(f64::from).collect::<Vec<_>>(), c, "{m} {k} {n}");
            }
        }
    }

    #[test]
    fn a_product_of_some_columns_has_the_columns_of_the_whole_product() {
        let (rows, depth, width) = (5, 7, 9);
        let (a, b, mut whole) =
            (numbers(rows * depth, 1), numbers(depth * width, 2), vec![0.0; rows * width]);
        let a = Matrix::new(&a, rows, depth);
        f64::multiply(a, Matrix::new(&b, depth, width), Addend::Nothing, &mut whole).unwrap();
        for columns in [0..width, 0..2, 3..4, 6..width] {
            let mut part = vec![f64::NAN; rows * columns.len()];
            let b = Matrix::of_columns(&b, depth, width, &columns);
            f64::multiply(a, b, Addend::Nothing, &mut part).unwrap();
            let expected: Vec<f64> =
                whole.chunks(width).flat_map(|row| row[columns.clone()].to_vec()).collect();
            assert_eq!(part, expected);
        }
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_before_an_address_is_used() {
        let (a, b, mut c) = ([0.0_f32; 6], [0.0; 6], [0.0; 4]);
        let error_message = |a: Matrix<'_, f32>, b: Matrix<'_, f32>, c: &mut [f32]| {
            f32::multiply(a, b, Addend::Nothing, c).unwrap_err().to_string()
        };
        let (two, three) = (Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2));
        assert!(f32::multiply(two, three, Addend::Row(&[0.0; 2]), &mut c).is_ok());
        let other_row = f32::multiply(two, three, Addend::Row(&[0.0; 3]), &mut c).unwrap_err().to_string();
        for message in [
            other_row,
            error_message(two, three.transposed(), &mut c),
            error_message(two, Matrix::new(&b, 3, 3), &mut c),
            error_message(Matrix::new(&a, 2, 4), three, &mut c),
            error_message(Matrix::new(&a, usize::MAX, 3), three, &mut c),
            error_message(two, three, &mut [0.0; 5]),
            error_message(two, three, &mut []),
            error_message(two, Matrix::of_columns(&b, 3, 2, &(1..3)), &mut c),
            error_message(two, Matrix::of_columns(&b, 3, 3, &(1..3)), &mut c),
            error_message(two, Matrix::of_columns(&b, 3, usize::MAX, &(1..3)), &mut c),
        ] {
            assert!(message.starts_with("internal error: a product of "), "{message}");
        }
    }
}
