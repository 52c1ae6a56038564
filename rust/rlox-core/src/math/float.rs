//! Traits of the number types of kernels that are generic over float64 and float32.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// Constants and a polynomial for the exponential function of a number type.
///
/// The function computes e^x = 2^k e^r from x = k ln 2 + r, where k is an integer and |r| is at most
/// ln(2) / 2.
pub trait Exponential: Sized {
    /// log2 e.
    const LOG2_E: Self;
    /// Adding this number rounds to an integer: 1.5 x 2^52 or 1.5 x 2^23.
    const ROUND: Self;
    /// ln 2 = `LN_2_HIGH` + `LN_2_LOW`. The high part is short, so that its product with k is
    /// exact.
    const LN_2_HIGH: Self;
    /// The rest of ln 2.
    const LN_2_LOW: Self;
    /// Below this number, e^x rounds to 0.
    const ZERO_BELOW: Self;
    /// Above this number, e^x rounds to infinity: ln 2 times the exponent of infinity.
    const INFINITY_ABOVE: Self;
    /// For x from this number up to `MAX_NORMAL_INPUT`, 2^k is a normal number.
    const MIN_NORMAL_INPUT: Self;
    /// See `MIN_NORMAL_INPUT`.
    const MAX_NORMAL_INPUT: Self;

    /// Returns e^r - 1 - r.
    #[must_use]
    fn excess<const FUSED: bool>(r: Self) -> Self;

    /// Returns 2^k for `shifted` = k + [`Exponential::ROUND`].
    #[must_use]
    fn power_of_2(shifted: Self) -> Self;

    /// Returns `power` 2^k for `shifted` = k + [`Exponential::ROUND`], if the result is a normal
    /// number.
    #[must_use]
    fn times_power_of_2(power: Self, shifted: Self) -> Self;
}

/// A number type, float64 or float32. It has the arithmetic of kernels in forms that vectorise.
///
/// Only [`Float::mul_add`] is fused, so everything else gives the same bits on every CPU.
pub trait Float:
    Exponential
    + Copy
    + Debug
    + Default
    + PartialOrd
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// The distance from 1 to the next number.
    const EPSILON: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Up to this magnitude [`Float::sin_cos_reduced`] is accurate and [`Float::nearest`] exact.
    const LIMIT: Self;

    /// Returns the nearest number of this type.
    fn from_f64(value: f64) -> Self;

    /// Returns the same number as float64.
    fn to_f64(self) -> f64;

    /// Returns the nearest float32.
    fn to_f32(self) -> f32;

    /// Returns |x|.
    #[must_use]
    fn abs(self) -> Self;

    /// Returns |x| with the sign of `sign`.
    #[must_use]
    fn copysign(self, sign: Self) -> Self;

    /// Returns a b + c for a = `self`, rounded once. This is slow if the CPU has no such
    /// instruction. The compiler never forms it from a multiplication and an addition by itself.
    #[must_use]
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// Returns e^x, see [`super::exp`].
    #[must_use]
    fn exp(self) -> Self;

    /// Returns the nearest integer, half to even, for |x| <= [`Float::LIMIT`].
    #[must_use]
    fn nearest(self) -> Self;

    /// Returns x - `turns` 2 pi, as if rounded once, for |x| and |`turns`| <= [`Float::LIMIT`].
    #[must_use]
    fn subtract_turns(self, turns: Self) -> Self;

    /// Returns x modulo `modulus`, in [0, `modulus`), for any x.
    #[must_use]
    fn remainder(self, modulus: Self) -> Self;

    /// Returns (sin x, cos x) for |x| <= pi/4, with the bits of [`Float::sin_cos_reduced`].
    #[must_use]
    fn sin_cos_small(self) -> (Self, Self);

    /// Returns (sin x, cos x) for |x| <= [`Float::LIMIT`].
    #[must_use]
    fn sin_cos_reduced(self) -> (Self, Self);

    /// Returns (sin x, cos x) for any x from the standard library; it does not vectorise.
    #[must_use]
    fn sin_cos_slow(self) -> (Self, Self);

    /// Returns x if it is within `low..=high`, else the bound that it exceeds; NaN stays NaN.
    #[inline(always)]
    #[must_use]
    fn clip(self, low: Self, high: Self) -> Self {
        let raised = if self < low { low } else { self };
        if raised > high { high } else { raised }
    }
}
