//! KL divergence from per-token log-probabilities of a policy p and a reference q.
//!
//! Terms use fused multiply-add if the CPU has it, so the last bits of values may differ between
//! CPUs with and without it.

use multiversion::multiversion;

use super::terms::{Exact, K1, K2, K3, Term};
use crate::advantage::Flag;
use crate::error::{Error, Result, check_len};
use crate::interrupt::{self, SHARED_PIECE};
use crate::math::{Float, fused, lanes};
use crate::threads;

/// Number of tokens from which several threads share the sequences.
const PARALLEL_FROM: usize = 1 << 19;

/// Number of tokens whose terms are summed before their sum is added to the total.
const BLOCK: usize = 256;

/// Blocks are padded to a multiple of this number, so that vector loops have no remainder.
const STRIDE: usize = 16;

/// The estimator that turns the terms of a sequence into KL(p || q).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimator {
    /// p (log p - log q). The sum is KL(p || q) itself if the entries list a whole distribution.
    /// The term is 0 if p is 0; below log p = -708 (float32: -87), p counts as 0.
    Exact,
    /// log p - log q for tokens sampled from p: unbiased, of either sign.
    K1,
    /// (log q - log p)^2 / 2 for tokens sampled from p: biased, never negative.
    K2,
    /// e^d - d - 1 with d = log q - log p, for tokens sampled from p: unbiased, never negative
    /// (Schulman 2020, "Approximating KL divergence"). Infinite above d = 709 (float32: 88).
    K3,
}

impl Estimator {
    /// All names, in the order of the variants.
    pub const NAMES: [&'static str; 4] = ["exact", "k1", "k2", "k3"];

    /// Returns the estimator of this name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the known names.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "exact" => Ok(Self::Exact),
            "k1" => Ok(Self::K1),
            "k2" => Ok(Self::K2),
            "k3" => Ok(Self::K3),
            _ => Err(Error::unknown_name("estimator", name, &Self::NAMES)),
        }
    }
}

/// The reduction of the terms of a sequence to one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// The sum of the terms.
    Sum,
    /// The sum divided by the number of tokens that the mask keeps; 0 if it keeps none.
    Mean,
}

impl Reduction {
    /// All names, in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["sum", "mean"];

    /// Returns the reduction of this name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the known names.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            _ => Err(Error::unknown_name("reduction", name, &Self::NAMES)),
        }
    }
}

/// Log-probabilities of the same tokens under policy and reference.
#[derive(Debug, Clone, Copy)]
pub struct Tokens<'a, F, G> {
    /// log p of each token under the policy.
    pub log_p: &'a [F],
    /// log q of each token under the reference.
    pub log_q: &'a [F],
    /// Says which tokens count. The values of the others, NaN and infinities included, do not
    /// matter.
    pub mask: Option<&'a [G]>,
}

impl<F: Float, G: Flag> Tokens<'_, F, G> {
    fn check(&self) -> Result<()> {
        check_len("log_q", self.log_q.len(), self.log_p.len(), "as many as log_p")?;
        self.mask.map_or(Ok(()), |mask| check_len("mask", mask.len(), self.log_p.len(), "as many as log_p"))
    }

    fn slice(&self, range: std::ops::Range<usize>) -> Self {
        Self {
            log_p: slice_range(self.log_p, &range),
            log_q: slice_range(self.log_q, &range),
            mask: self.mask.map(|mask| slice_range(mask, &range)),
        }
    }
}

/// Returns the KL estimate of one sequence.
///
/// Terms are computed in the precision of the input and added in float64: in 8 lanes within blocks
/// of 256 tokens, then block by block. A k3 term is within 16 units of rounding of its value for
/// the rounded difference log q - log p, also near 0. The result is NaN if a token that counts has
/// NaN. With every estimator except the exact one, a pair of equal infinities gives NaN too.
///
/// # Errors
/// [`Error::Shape`] if a slice is not as long as `log_p`.
pub fn token_kl<F: Float, G: Flag>(
    tokens: Tokens<'_, F, G>,
    estimator: Estimator,
    reduction: Reduction,
) -> Result<f64> {
    tokens.check()?;
    Ok(match estimator {
        Estimator::Exact => estimate_one(tokens, reduction, Exact),
        Estimator::K1 => estimate_one(tokens, reduction, K1),
        Estimator::K2 => estimate_one(tokens, reduction, K2),
        Estimator::K3 => estimate_one(tokens, reduction, K3),
    })
}

/// Writes the KL estimate of each of B sequences of `seq_len` tokens to `out`, `[B]`. The sequences
/// follow each other in `[B * seq_len]` slices. Each result is that of [`token_kl`], rounded to
/// `F`.
///
/// # Errors
/// [`Error::Config`] if `seq_len` is 0, [`Error::Shape`] if a slice does not fit,
/// [`Error::Interrupted`].
pub fn batch_token_kl<F: Float, G: Flag>(
    tokens: Tokens<'_, F, G>,
    seq_len: usize,
    estimator: Estimator,
    reduction: Reduction,
    out: &mut [F],
) -> Result<()> {
    if seq_len == 0 {
        return Err(Error::config("seq_len", 0, "at least 1"));
    }
    tokens.check()?;
    let n = tokens.log_p.len() / seq_len;
    check_len("log_p", tokens.log_p.len(), n * seq_len, "a multiple of seq_len")?;
    check_len("out", out.len(), n, "one per sequence")?;
    match estimator {
        Estimator::Exact => estimate_all(tokens, seq_len, reduction, Exact, out),
        Estimator::K1 => estimate_all(tokens, seq_len, reduction, K1, out),
        Estimator::K2 => estimate_all(tokens, seq_len, reduction, K2, out),
        Estimator::K3 => estimate_all(tokens, seq_len, reduction, K3, out),
    }
}

/// Computes all sequences, with several threads from [`PARALLEL_FROM`] tokens on.
fn estimate_all<F: Float, G: Flag>(
    tokens: Tokens<'_, F, G>,
    seq_len: usize,
    reduction: Reduction,
    term: impl Term,
    out: &mut [F],
) -> Result<()> {
    if tokens.log_p.len() < PARALLEL_FROM {
        estimate_rows(tokens, seq_len, reduction, term, out);
        return Ok(());
    }
    let per_task = (BLOCK * BLOCK / seq_len).max(1);
    let sequences_per_round = (SHARED_PIECE / seq_len).max(threads::count());
    for (first, out) in (0..).step_by(sequences_per_round).zip(out.chunks_mut(sequences_per_round)) {
        interrupt::check()?;
        threads::for_each_chunk(out, per_task, |task, out| {
            let start = (first + task * per_task) * seq_len;
            estimate_rows(tokens.slice(start..start + out.len() * seq_len), seq_len, reduction, term, out);
        });
    }
    Ok(())
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn estimate_rows<F: Float, G: Flag, T: Term>(
    tokens: Tokens<'_, F, G>,
    seq_len: usize,
    reduction: Reduction,
    _: T,
    out: &mut [F],
) {
    for (row, out) in out.iter_mut().enumerate() {
        let tokens = tokens.slice(row * seq_len..(row + 1) * seq_len);
        *out = F::from_f64(estimate_sequence::<F, G, T, { fused!() }>(tokens, reduction));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn estimate_one<F: Float, G: Flag, T: Term>(tokens: Tokens<'_, F, G>, reduction: Reduction, _: T) -> f64 {
    estimate_sequence::<F, G, T, { fused!() }>(tokens, reduction)
}

/// Computes one sequence: sums block by block, then the reduction.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn estimate_sequence<F: Float, G: Flag, T: Term, const FUSED: bool>(
    tokens: Tokens<'_, F, G>,
    reduction: Reduction,
) -> f64 {
    let mut scratch = Scratch::<F>::new();
    let pairs = tokens.log_p.chunks(BLOCK).zip(tokens.log_q.chunks(BLOCK));
    let (mut total, mut n_kept) = (0.0, 0);
    match tokens.mask {
        None => {
            for (log_p, log_q) in pairs {
                total += scratch.sum::<T, FUSED>(log_p, log_q);
            }
            n_kept = tokens.log_p.len();
        }
        Some(mask) => {
            for ((log_p, log_q), mask) in pairs.zip(mask.chunks(BLOCK)) {
                n_kept += mask.iter().filter(|flag| flag.is_set()).count();
                total += scratch.masked_sum::<T, FUSED, _>(log_p, log_q, mask);
            }
        }
    }
    match reduction {
        Reduction::Sum => total,
        Reduction::Mean => total / as_f64(n_kept.max(1)),
    }
}

/// One block of tokens on the stack.
struct Scratch<F> {
    log_p: [F; BLOCK],
    log_q: [F; BLOCK],
    terms: [F; BLOCK],
}

#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
impl<F: Float> Scratch<F> {
    #[inline(always)]
    fn new() -> Self {
        Self { log_p: [F::ZERO; BLOCK], log_q: [F::ZERO; BLOCK], terms: [F::ZERO; BLOCK] }
    }

    /// Returns the sum of the terms of at most [`BLOCK`] pairs.
    #[inline(always)]
    fn sum<T: Term, const FUSED: bool>(&mut self, log_p: &[F], log_q: &[F]) -> f64 {
        if log_p.len().is_multiple_of(STRIDE) {
            return add_terms::<F, T, FUSED>(log_p, log_q, &mut self.terms);
        }
        let padded = log_p.len().next_multiple_of(STRIDE);
        pad(&mut self.log_p, log_p, padded);
        pad(&mut self.log_q, log_q, padded);
        self.padded_sum::<T, FUSED>(padded)
    }

    /// Returns the sum over the pairs that the mask keeps. The others become (0, 0), whose term is
    /// 0.
    #[inline(always)]
    fn masked_sum<T: Term, const FUSED: bool, G: Flag>(
        &mut self,
        log_p: &[F],
        log_q: &[F],
        mask: &[G],
    ) -> f64 {
        let padded = log_p.len().next_multiple_of(STRIDE);
        select(&mut self.log_p, log_p, mask, padded);
        select(&mut self.log_q, log_q, mask, padded);
        self.padded_sum::<T, FUSED>(padded)
    }

    #[inline(always)]
    fn padded_sum<T: Term, const FUSED: bool>(&mut self, padded: usize) -> f64 {
        let (log_p, log_q) = (slice_range(&self.log_p, &(0..padded)), slice_range(&self.log_q, &(0..padded)));
        add_terms::<F, T, FUSED>(log_p, log_q, &mut self.terms)
    }
}

/// Returns the sum of the terms. The terms are written to memory first, so that computing them
/// vectorises.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn add_terms<F: Float, T: Term, const FUSED: bool>(log_p: &[F], log_q: &[F], terms: &mut [F; BLOCK]) -> f64 {
    for ((out, &log_p), &log_q) in terms.iter_mut().zip(log_p).zip(log_q) {
        *out = T::compute::<F, FUSED>(log_p, log_q);
    }
    lanes::sum(slice_range(terms, &(0..log_p.len())), F::to_f64)
}

/// Writes `values` to `out`, then zeros up to `padded`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn pad<F: Float>(out: &mut [F; BLOCK], values: &[F], padded: usize) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = value;
    }
    out.iter_mut().take(padded).skip(values.len()).for_each(|out| *out = F::ZERO);
}

/// Writes `values` where the mask is set and 0 elsewhere, then zeros up to `padded`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn select<F: Float, G: Flag>(out: &mut [F; BLOCK], values: &[F], mask: &[G], padded: usize) {
    for ((out, &value), flag) in out.iter_mut().zip(values).zip(mask) {
        *out = if flag.is_set() { value } else { F::ZERO };
    }
    out.iter_mut().take(padded).skip(values.len()).for_each(|out| *out = F::ZERO);
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn slice_range<'a, T>(all: &'a [T], range: &std::ops::Range<usize>) -> &'a [T] {
    all.get(range.clone()).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "no slice has 2^53 elements")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
