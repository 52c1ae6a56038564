//! e^x, tanh, sigmoid and log-softmax of all numbers of a slice, in place.
//!
//! The functions use fused multiply-add if the CPU has it. The result of a number depends on no
//! other number of the slice; in log-softmax, on no number outside its row. Errors are in units in
//! the last place of the result. For results below the smallest normal number they are in units of
//! the smallest subnormal number.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use multiversion::multiversion;

use super::exp::{exp_generic, exp_m1};
use super::log::ln;
use super::{Float, fused, lanes};
use crate::error::{Error, Result, check_len};

/// Computes e^x with an error below 1.5 units. The result is infinity from 709.8 on (float32:
/// 88.8), 0 below -745.2 (-104), and NaN for NaN.
pub fn exp<F: Float>(values: &mut [F]) {
    apply::<F, Exp>(values);
}

/// Computes tanh x with an error below 2.5 units. The result has the sign of x, also for -0, and is
/// NaN for NaN.
pub fn tanh<F: Float>(values: &mut [F]) {
    apply::<F, Tanh>(values);
}

/// Computes 1 / (1 + e^-x) with an error below 2.5 units, also near 0. The result is NaN for NaN.
pub fn sigmoid<F: Float>(values: &mut [F]) {
    apply::<F, Sigmoid>(values);
}

/// Computes x - ln(sum of e^x) over each row of `[n, k]` values.
///
/// The error is below 2 units in the last place of the result plus 2 units in the last place of 1.
/// The largest number of each row is subtracted first, so nothing overflows. Sums are in float64.
/// If a row has a finite number, its -infinities stay -infinity. A row of only -infinities, or with
/// NaN or +infinity, becomes NaN, as in torch.
///
/// # Errors
/// [`Error::Config`] if `k` is 0, [`Error::Shape`] if the last row is incomplete.
pub fn log_softmax<F: Float>(values: &mut [F], k: usize) -> Result<()> {
    if k == 0 {
        return Err(Error::config("k", 0, "at least 1"));
    }
    check_len("values", values.len(), values.len() / k * k, "a multiple of k")?;
    log_softmax_rows(values, k);
    Ok(())
}

/// A function of one number.
pub(super) trait Elementwise {
    /// Returns the function's value at x.
    fn at<F: Float, const FUSED: bool>(x: F) -> F;
}

pub(super) struct Exp;
pub(super) struct Tanh;
pub(super) struct Sigmoid;

impl Elementwise for Exp {
    #[inline(always)]
    fn at<F: Float, const FUSED: bool>(x: F) -> F {
        exp_generic::<F, FUSED>(x)
    }
}

impl Elementwise for Tanh {
    /// Computes (e^2a - 1) / (e^2a + 1) for a = |x|. [`exp_m1`] computes e^2a - 1, so that nothing
    /// cancels near 0.
    #[inline(always)]
    fn at<F: Float, const FUSED: bool>(x: F) -> F {
        // For x > 20 tanh rounds to 1 in both precisions. NaN fails the comparison and stays.
        let limit = F::from_f64(20.0);
        let a = if x.abs() > limit { limit } else { x.abs() };
        let exp_2a_m1 = exp_m1::<F, FUSED>(a + a);
        (exp_2a_m1 / (exp_2a_m1 + F::from_f64(2.0))).copysign(x)
    }
}

impl Elementwise for Sigmoid {
    /// Computes 1 / (1 + e^-a) or e^-a / (1 + e^-a) for a = |x|, which neither overflows nor
    /// cancels.
    #[inline(always)]
    fn at<F: Float, const FUSED: bool>(x: F) -> F {
        let small = exp_generic::<F, FUSED>(-x.abs());
        let numerator = if x < F::ZERO { small } else { F::ONE };
        numerator / (F::ONE + small)
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn apply<F: Float, E: Elementwise>(values: &mut [F]) {
    for value in values {
        *value = E::at::<F, { fused!() }>(*value);
    }
}

/// Number of exponentials that are on the stack together.
const BLOCK: usize = 256;

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn log_softmax_rows<F: Float>(values: &mut [F], k: usize) {
    if k > BLOCK {
        for row in values.chunks_exact_mut(k) {
            long_row::<F, { fused!() }>(row);
        }
    } else {
        for rows in values.chunks_mut(BLOCK / k * k) {
            short_rows::<F, { fused!() }>(rows, k);
        }
    }
}

/// Computes rows that fill a block together. Each step runs over all of them in one vector loop,
/// also if the rows are short.
#[inline(always)]
fn short_rows<F: Float, const FUSED: bool>(values: &mut [F], k: usize) {
    let mut exps = [F::ZERO; BLOCK];
    let mut sums = [1.0; BLOCK];
    for (row, exps) in values.chunks_exact_mut(k).zip(exps.chunks_exact_mut(k)) {
        let row_max = largest(row);
        for (value, exp) in row.iter_mut().zip(exps) {
            *value = *value - row_max;
            *exp = *value;
        }
    }
    // The loop covers the whole block, so that it has no remainder. The exponentials beyond the rows
    // are not read.
    for exp in &mut exps {
        *exp = exp_generic::<F, FUSED>(*exp);
    }
    for (sum, exps) in sums.iter_mut().zip(exps.chunks_exact(k)) {
        *sum = total(exps);
    }
    for sum in sums.iter_mut().take(values.len() / k) {
        *sum = ln::<FUSED>(*sum);
    }
    for (row, &log) in values.chunks_exact_mut(k).zip(&sums) {
        subtract(row, F::from_f64(log));
    }
}

/// Computes a row that is longer than a block.
#[inline(always)]
fn long_row<F: Float, const FUSED: bool>(row: &mut [F]) {
    let (row_max, mut sum) = (largest(row), 0.0);
    let mut exps = [F::ZERO; BLOCK];
    for part in row.chunks_mut(BLOCK) {
        for (value, exp) in part.iter_mut().zip(&mut exps) {
            *value = *value - row_max;
            *exp = exp_generic::<F, FUSED>(*value);
        }
        sum += lanes::sum(exps.get(..part.len()).unwrap_or_default(), F::to_f64);
    }
    subtract(row, F::from_f64(ln::<FUSED>(sum)));
}

#[inline(always)]
fn subtract<F: Float>(row: &mut [F], log: F) {
    for value in row {
        *value = *value - log;
    }
}

/// Rows of at least this length are summed faster with vector instructions.
const VECTOR_MIN_LEN: usize = 16;

/// Returns the sum of a row, in an order that depends only on its length.
#[inline(always)]
fn total<F: Float>(row: &[F]) -> f64 {
    if row.len() < VECTOR_MIN_LEN {
        return row.iter().fold(0.0, |sum, value| sum + value.to_f64());
    }
    lanes::sum(row, F::to_f64)
}

/// Number of partial maxima. The result does not depend on this number, so it was chosen for speed.
const MAX_LANES: usize = 32;

/// Returns the largest number of a row, ignoring NaN.
#[inline(always)]
fn largest<F: Float>(row: &[F]) -> F {
    let larger = |a: F, b: F| if b > a { b } else { a };
    let mut lanes = [-F::INFINITY; MAX_LANES];
    let (blocks, rest) = row.as_chunks::<MAX_LANES>();
    for block in blocks {
        for (lane, &value) in lanes.iter_mut().zip(block) {
            *lane = larger(*lane, value);
        }
    }
    let block_max =
        if blocks.is_empty() { -F::INFINITY } else { lanes.into_iter().fold(-F::INFINITY, larger) };
    rest.iter().copied().fold(block_max, larger)
}
