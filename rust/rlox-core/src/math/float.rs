//! The one trait of number types: what kernels written once for float64 and float32 need.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use super::exp::{self, Exponential};
use super::{trig, trig_single};

/// float64 or float32, with the arithmetic of kernels in forms that vectorise.
///
/// Nothing here is fused: every CPU gives the same bits.
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
    /// Larger than every number.
    const INFINITY: Self;
    /// Up to this magnitude [`Float::sin_cos_reduced`] is accurate and [`Float::nearest`] exact.
    const LIMIT: Self;

    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;

    /// The same number as float64.
    fn to_f64(self) -> f64;

    /// The nearest float32.
    fn to_f32(self) -> f32;

    /// |x|.
    #[must_use]
    fn abs(self) -> Self;

    /// |x| with the sign of `sign`.
    #[must_use]
    fn copysign(self, sign: Self) -> Self;

    /// a b + c for a = `self`, rounded once. Slow where the CPU has no such instruction, and never
    /// formed from a multiplication and an addition by itself.
    #[must_use]
    fn mul_add(self, b: Self, c: Self) -> Self;

    /// e^x, see [`super::exp`].
    #[inline]
    #[must_use]
    fn exp(self) -> Self {
        exp::whole::<Self, false>(self)
    }

    /// The nearest integer, half to even, for |x| <= [`Float::LIMIT`].
    #[must_use]
    fn nearest(self) -> Self;

    /// x - `turns` 2 pi, as if rounded once, for |x| and |`turns`| <= [`Float::LIMIT`].
    #[must_use]
    fn less_turns(self, turns: Self) -> Self;

    /// x modulo `modulus`, in [0, `modulus`), for any x.
    #[must_use]
    fn remainder(self, modulus: Self) -> Self;

    /// (sin x, cos x) for |x| <= pi/4; bit for bit that of [`Float::sin_cos_reduced`].
    #[must_use]
    fn sin_cos_small(self) -> (Self, Self);

    /// (sin x, cos x) for |x| <= [`Float::LIMIT`].
    #[must_use]
    fn sin_cos_reduced(self) -> (Self, Self);

    /// (sin x, cos x) for any x, by the standard library; does not vectorise.
    #[must_use]
    fn sin_cos_slow(self) -> (Self, Self);

    /// x if it is within `low..=high`, else the bound it is beyond; NaN stays.
    #[inline(always)]
    #[must_use]
    fn within(self, low: Self, high: Self) -> Self {
        let raised = if self < low { low } else { self };
        if raised > high { high } else { raised }
    }
}

macro_rules! float {
    ($float:ident, $trig:ident) => {
        #[expect(
            clippy::allow_attributes,
            clippy::cast_possible_truncation,
            reason = "rounding to the type is what is asked for"
        )]
        #[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "one text for two types")]
        impl Float for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const EPSILON: Self = $float::EPSILON;
            const INFINITY: Self = $float::INFINITY;
            const LIMIT: Self = $trig::LIMIT;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                self.copysign(sign)
            }

            #[inline(always)]
            fn mul_add(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }

            #[inline(always)]
            fn nearest(self) -> Self {
                (self + $trig::ROUND) - $trig::ROUND
            }

            #[inline(always)]
            fn less_turns(self, turns: Self) -> Self {
                (self - turns * $trig::TAU_1) - turns * $trig::TAU_2
            }

            #[inline(always)]
            fn remainder(self, modulus: Self) -> Self {
                self.rem_euclid(modulus)
            }

            #[inline(always)]
            fn sin_cos_small(self) -> (Self, Self) {
                $trig::sin_cos_small(self)
            }

            #[inline(always)]
            fn sin_cos_reduced(self) -> (Self, Self) {
                $trig::sin_cos(self)
            }

            #[inline(always)]
            fn sin_cos_slow(self) -> (Self, Self) {
                self.sin_cos()
            }
        }
    };
}

float!(f64, trig);
float!(f32, trig_single);
