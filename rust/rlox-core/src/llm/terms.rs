//! What one token contributes to a KL estimate, without branches.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use crate::math::{Float, Parts, mul_add, parts};

/// A term of log-probabilities `log_p` and `log_q` of one token.
pub(super) trait Term: Copy + Send + Sync {
    /// The term; multiplications and additions in one if `FUSED`.
    fn of<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F;
}

/// p (log p - log q), 0 where p is 0.
#[derive(Clone, Copy)]
pub(super) struct Exact;

/// log p - log q.
#[derive(Clone, Copy)]
pub(super) struct K1;

/// (log q - log p)^2 / 2.
#[derive(Clone, Copy)]
pub(super) struct K2;

/// q / p - 1 - log(q / p).
#[derive(Clone, Copy)]
pub(super) struct K3;

impl Term for Exact {
    #[inline(always)]
    fn of<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        let Parts { scale, reduced, excess } = parts::<F, FUSED>(log_p);
        let p = mul_add::<F, FUSED>(scale, reduced + excess, scale);
        let p = if log_p > F::HIGHEST { F::INFINITY } else { p };
        // Selected last, so that 0 (log 0 - log q) is 0; NaN fails the comparison.
        if log_p < F::LOWEST { F::ZERO } else { p * (log_p - log_q) }
    }
}

impl Term for K1 {
    #[inline(always)]
    fn of<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        log_p - log_q
    }
}

impl Term for K2 {
    #[inline(always)]
    fn of<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        let d = log_q - log_p;
        F::from_f64(0.5) * d * d
    }
}

impl Term for K3 {
    #[inline(always)]
    fn of<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        let d = log_q - log_p;
        let Parts { scale, reduced, excess } = parts::<F, FUSED>(d);
        // Near 0 the scale is 1 and `reduced` is d: both brackets vanish exactly, and
        // nothing cancels. Elsewhere the result is at least 0.05.
        let rest = mul_add::<F, FUSED>(scale, reduced, -d) + (scale - F::ONE);
        let sum = mul_add::<F, FUSED>(scale, excess, rest);
        if d > F::HIGHEST { F::INFINITY } else { sum }
    }
}
