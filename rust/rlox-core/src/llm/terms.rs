//! What one token contributes to a KL estimate, in each precision, without branches.

use crate::advantage::Real;
use crate::math::{Exponential, Parts, parts};

/// A precision in which these kernels read and write: float32 or float64.
pub trait Precision: Real + sealed::Terms {}

impl Precision for f32 {}
impl Precision for f64 {}

mod sealed {
    /// Terms of log-probabilities `log_p` and `log_q` of one token.
    pub trait Terms: Sized {
        /// The distance from 1 to the next number.
        const UNIT: f64;
        /// p (log p - log q), 0 where p is 0.
        fn exact(log_p: Self, log_q: Self) -> Self;
        /// log p - log q.
        fn k1(log_p: Self, log_q: Self) -> Self;
        /// (log q - log p)^2 / 2.
        fn k2(log_p: Self, log_q: Self) -> Self;
        /// q / p - 1 - log(q / p).
        fn k3(log_p: Self, log_q: Self) -> Self;
    }
}

macro_rules! terms {
    ($float:ident) => {
        // Inlined always, to become part of each CPU-specific loop.
        impl sealed::Terms for $float {
            const UNIT: f64 = $float::EPSILON as f64;

            #[inline(always)]
            fn exact(log_p: Self, log_q: Self) -> Self {
                let Parts { scale, reduced, excess } = parts(log_p);
                let p = scale + scale * (reduced + excess);
                let p = if log_p > Self::HIGHEST { Self::INFINITY } else { p };
                // Selected last, so that 0 (log 0 - log q) is 0; NaN fails the comparison.
                if log_p < Self::LOWEST { 0.0 } else { p * (log_p - log_q) }
            }

            #[inline(always)]
            fn k1(log_p: Self, log_q: Self) -> Self {
                log_p - log_q
            }

            #[inline(always)]
            fn k2(log_p: Self, log_q: Self) -> Self {
                let d = log_q - log_p;
                0.5 * d * d
            }

            #[inline(always)]
            fn k3(log_p: Self, log_q: Self) -> Self {
                let d = log_q - log_p;
                let Parts { scale, reduced, excess } = parts(d);
                // Near 0 the scale is 1 and `reduced` is d: both brackets vanish exactly, and
                // nothing cancels. Elsewhere the result is at least 0.05.
                let sum = scale * excess + ((scale * reduced - d) + (scale - 1.0));
                if d > Self::HIGHEST { Self::INFINITY } else { sum }
            }
        }
    };
}

terms!(f32);
terms!(f64);
