//! Implements [`Float`] for float64 and float32.

use super::{Float, exp, trig, trig_single};

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

            #[inline]
            fn exp(self) -> Self {
                exp::exp_generic::<Self, false>(self)
            }

            #[inline(always)]
            fn nearest(self) -> Self {
                (self + $trig::ROUND) - $trig::ROUND
            }

            #[inline(always)]
            fn subtract_turns(self, turns: Self) -> Self {
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
