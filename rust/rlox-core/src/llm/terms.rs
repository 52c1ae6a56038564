//! The terms of one token in a KL estimate, without branches.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use crate::math::{ExpParts, Float, exp_parts, mul_add};

/// The term of one token in a KL estimate, from its log-probabilities `log_p` and `log_q`.
pub(super) trait Term: Copy + Send + Sync {
    /// Returns the term; fuses multiplications and additions if `FUSED`.
    fn compute<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F;
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
    fn compute<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        // e^x = scale (1 + reduced + excess), with reduced = x - k ln 2 and excess = e^reduced - 1 - reduced
        let ExpParts { scale, reduced, excess } = exp_parts::<F, FUSED>(log_p);
        let p = mul_add::<F, FUSED>(scale, reduced + excess, scale);
        let p = if log_p > F::MAX_NORMAL_INPUT { F::INFINITY } else { p };
        // This selection comes last, so that 0 (log 0 - log q) is 0. NaN fails the comparison.
        if log_p < F::MIN_NORMAL_INPUT { F::ZERO } else { p * (log_p - log_q) }
    }
}

impl Term for K1 {
    #[inline(always)]
    fn compute<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        log_p - log_q
    }
}

impl Term for K2 {
    #[inline(always)]
    fn compute<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        let d = log_q - log_p;
        F::from_f64(0.5) * d * d
    }
}

impl Term for K3 {
    #[inline(always)]
    fn compute<F: Float, const FUSED: bool>(log_p: F, log_q: F) -> F {
        let d = log_q - log_p;
        let ExpParts { scale, reduced, excess } = exp_parts::<F, FUSED>(d);
        // Near 0 `scale` is 1 and `reduced` is d, so both summands of `rest` are exactly 0 and
        // nothing cancels. Elsewhere the result is at least 0.05, so the rounding of `rest` is small
        // beside it.
        let rest = mul_add::<F, FUSED>(scale, reduced, -d) + (scale - F::ONE);
        let sum = mul_add::<F, FUSED>(scale, excess, rest);
        if d > F::MAX_NORMAL_INPUT { F::INFINITY } else { sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Stream;

    /// Returns the error of a term, in units of rounding of its exact value.
    fn error_units<F: Float>(got: F, exact: f64) -> f64 {
        (got.to_f64() - exact).abs() / (F::EPSILON.to_f64() * exact.abs()).max(f64::MIN_POSITIVE)
    }

    /// Returns e^d - 1 - d; near 0 by its series.
    fn k3(d: f64) -> f64 {
        let series = |d: f64| (2..30).rev().fold(0.0, |sum, n| (sum + 1.0) * d / f64::from(n)) * d;
        if d.abs() < 0.5 { series(d) } else { d.exp_m1() - d }
    }

    fn assert_within_16_units<F: Float>(scale: f64) {
        let mut stream = Stream::new(1, "terms", 0);
        for _ in 0..20_000 {
            let log_p = F::from_f64(stream.uniform_in(-scale, 0.0));
            let log_q = F::from_f64(stream.uniform_in(-scale, 0.0));
            // Here `p` is the log-probability.
            let (p, d) = (log_p.to_f64(), (log_q - log_p).to_f64());
            let exact = p.exp() * (log_p - log_q).to_f64();
            for got in [Exact::compute::<F, false>(log_p, log_q), Exact::compute::<F, true>(log_p, log_q)] {
                assert!(error_units(got, exact) <= 16.0, "exact({p}, {d}): {got:?} {exact}");
            }
            for got in [K3::compute::<F, false>(log_p, log_q), K3::compute::<F, true>(log_p, log_q)] {
                assert!(error_units(got, k3(d)) <= 16.0, "k3({p}, {d}): {got:?} {}", k3(d));
            }
        }
    }

    #[test]
    fn terms_are_within_16_units_of_rounding_fused_or_not() {
        for scale in [1e-6, 1e-2, 0.3, 1.0, 20.0, 80.0] {
            assert_within_16_units::<f64>(scale);
            assert_within_16_units::<f32>(scale);
        }
    }
}
