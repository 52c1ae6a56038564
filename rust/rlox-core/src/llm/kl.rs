//! KL divergence from per-token log-probabilities of a policy p and a reference q.
//!
//! Terms use fused multiply-add where the CPU has it, so values may differ in the last bits between
//! CPUs with and without.

use multiversion::multiversion;

use super::terms::{Exact, K1, K2, K3, Term};
use crate::advantage::Flag;
use crate::error::{Error, Result, check_len};
use crate::interrupt::{self, SHARED_PIECE};
use crate::math::{Float, fused, lanes};
use crate::threads;

/// Tokens from which sequences are spread over threads.
const PARALLEL_FROM: usize = 1 << 19;

/// Tokens whose terms are added up before the total is touched.
const BLOCK: usize = 256;

/// Blocks are filled up to a multiple of this, so that vector loops have no tail.
const STRIDE: usize = 16;

/// How the terms of a sequence become an estimate of KL(p || q).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimator {
    /// p (log p - log q): KL(p || q) itself where the entries list a whole distribution. 0 where p
    /// is 0, which is taken below log p = -708 (float32: -87).
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

    /// By name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the known names.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "exact" => Ok(Self::Exact),
            "k1" => Ok(Self::K1),
            "k2" => Ok(Self::K2),
            "k3" => Ok(Self::K3),
            _ => Err(Error::unknown_name("estimator", name, &Self::NAMES)),
        }
    }
}

/// What is made of the terms of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Their sum.
    Sum,
    /// Their sum over the number of tokens that the mask keeps; 0 if it keeps none.
    Mean,
}

impl Reduction {
    /// All names, in the order of the variants.
    pub const NAMES: [&'static str; 2] = ["sum", "mean"];

    /// By name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the known names.
    pub fn named(name: &str) -> Result<Self> {
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
    /// Which tokens count; what the others hold, NaN and infinities included, never matters.
    pub mask: Option<&'a [G]>,
}

impl<F: Float, G: Flag> Tokens<'_, F, G> {
    fn check(&self) -> Result<()> {
        check_len("log_q", self.log_q.len(), self.log_p.len(), "as many as log_p")?;
        self.mask.map_or(Ok(()), |mask| {
            check_len("mask", mask.len(), self.log_p.len(), "as many as log_p")
        })
    }

    fn part(&self, range: std::ops::Range<usize>) -> Self {
        Self {
            log_p: cut(self.log_p, &range),
            log_q: cut(self.log_q, &range),
            mask: self.mask.map(|mask| cut(mask, &range)),
        }
    }
}

/// KL of one sequence.
///
/// Terms are computed in the precision of the input and added in float64: 8 lanes within blocks of
/// 256 tokens, then block by block. A k3 term is within 16 units of rounding of its value for the
/// difference log q - log p as rounded, also near 0. NaN outside the mask gives NaN; so does, but
/// for the exact estimator, a pair of equal infinities.
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
        Estimator::Exact => single(tokens, reduction, Exact),
        Estimator::K1 => single(tokens, reduction, K1),
        Estimator::K2 => single(tokens, reduction, K2),
        Estimator::K3 => single(tokens, reduction, K3),
    })
}

/// KL of each of B sequences of `seq_len` tokens, one after the other in `[B * seq_len]` slices;
/// `out` is `[B]`. Each as [`token_kl`] gives it, rounded to `F`.
///
/// # Errors
/// [`Error::Config`] if `seq_len` is 0, [`Error::Shape`] if a slice does not fit.
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
        Estimator::Exact => spread(tokens, seq_len, reduction, Exact, out),
        Estimator::K1 => spread(tokens, seq_len, reduction, K1, out),
        Estimator::K2 => spread(tokens, seq_len, reduction, K2, out),
        Estimator::K3 => spread(tokens, seq_len, reduction, K3, out),
    }
}

/// All sequences, on several threads where it pays.
fn spread<F: Float, G: Flag>(
    tokens: Tokens<'_, F, G>,
    seq_len: usize,
    reduction: Reduction,
    term: impl Term,
    out: &mut [F],
) -> Result<()> {
    if tokens.log_p.len() < PARALLEL_FROM {
        rows(tokens, seq_len, reduction, term, out);
        return Ok(());
    }
    let per_task = (BLOCK * BLOCK / seq_len).max(1);
    let at_once = (SHARED_PIECE / seq_len).max(threads::count());
    for (first, out) in (0..).step_by(at_once).zip(out.chunks_mut(at_once)) {
        interrupt::check()?;
        threads::for_each_chunk(out, per_task, |task, out| {
            let start = (first + task * per_task) * seq_len;
            rows(tokens.part(start..start + out.len() * seq_len), seq_len, reduction, term, out);
        });
    }
    Ok(())
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn rows<F: Float, G: Flag, T: Term>(
    tokens: Tokens<'_, F, G>,
    seq_len: usize,
    reduction: Reduction,
    _: T,
    out: &mut [F],
) {
    for (row, out) in out.iter_mut().enumerate() {
        let tokens = tokens.part(row * seq_len..(row + 1) * seq_len);
        *out = F::from_f64(sequence::<F, G, T, { fused!() }>(tokens, reduction));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl+fma", "x86_64+avx2+fma"))]
fn single<F: Float, G: Flag, T: Term>(tokens: Tokens<'_, F, G>, reduction: Reduction, _: T) -> f64 {
    sequence::<F, G, T, { fused!() }>(tokens, reduction)
}

/// One sequence: sums block by block, then the reduction.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn sequence<F: Float, G: Flag, T: Term, const FUSED: bool>(
    tokens: Tokens<'_, F, G>,
    reduction: Reduction,
) -> f64 {
    let mut scratch = Scratch::<F>::new();
    let pairs = tokens.log_p.chunks(BLOCK).zip(tokens.log_q.chunks(BLOCK));
    let (mut total, mut kept) = (0.0, 0);
    match tokens.mask {
        None => {
            for (log_p, log_q) in pairs {
                total += scratch.sum::<T, FUSED>(log_p, log_q);
            }
            kept = tokens.log_p.len();
        }
        Some(mask) => {
            for ((log_p, log_q), mask) in pairs.zip(mask.chunks(BLOCK)) {
                kept += mask.iter().filter(|flag| flag.is_set()).count();
                total += scratch.masked_sum::<T, FUSED, _>(log_p, log_q, mask);
            }
        }
    }
    match reduction {
        Reduction::Sum => total,
        Reduction::Mean => total / as_f64(kept.max(1)),
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

    /// The sum of the terms of at most [`BLOCK`] pairs.
    #[inline(always)]
    fn sum<T: Term, const FUSED: bool>(&mut self, log_p: &[F], log_q: &[F]) -> f64 {
        if log_p.len().is_multiple_of(STRIDE) {
            return add_terms::<F, T, FUSED>(log_p, log_q, &mut self.terms);
        }
        let padded = log_p.len().next_multiple_of(STRIDE);
        fill(&mut self.log_p, log_p, padded);
        fill(&mut self.log_q, log_q, padded);
        self.padded_sum::<T, FUSED>(padded)
    }

    /// The same over the pairs that the mask keeps: the others become (0, 0), whose term is 0.
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
        let (log_p, log_q) = (cut(&self.log_p, &(0..padded)), cut(&self.log_q, &(0..padded)));
        add_terms::<F, T, FUSED>(log_p, log_q, &mut self.terms)
    }
}

/// The sum of the terms, which are written down first so that computing them vectorises.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn add_terms<F: Float, T: Term, const FUSED: bool>(
    log_p: &[F],
    log_q: &[F],
    terms: &mut [F; BLOCK],
) -> f64 {
    for ((out, &log_p), &log_q) in terms.iter_mut().zip(log_p).zip(log_q) {
        *out = T::of::<F, FUSED>(log_p, log_q);
    }
    lanes::sum(cut(terms, &(0..log_p.len())), F::to_f64)
}

/// `values`, then zeros up to `padded`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn fill<F: Float>(out: &mut [F; BLOCK], values: &[F], padded: usize) {
    for (out, &value) in out.iter_mut().zip(values) {
        *out = value;
    }
    out.iter_mut().take(padded).skip(values.len()).for_each(|out| *out = F::ZERO);
}

/// `values` where the mask is set, else 0, then zeros up to `padded`.
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
fn cut<'a, T>(all: &'a [T], range: &std::ops::Range<usize>) -> &'a [T] {
    all.get(range.clone()).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "no slice has 2^53 elements")]
fn as_f64(count: usize) -> f64 {
    count as f64
}
