//! The number types of environment state.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use super::{trig, trig_single};

/// What the state of an environment is kept and stepped in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// As Gymnasium's environment, step by step.
    F64,
    /// float32 throughout: twice the rows per instruction, a stated deviation per step.
    F32,
}

impl Precision {
    /// Both.
    pub const ALL: [Self; 2] = [Self::F64, Self::F32];

    /// `f64` or `f32`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F64 => "f64",
            Self::F32 => "f32",
        }
    }
}

/// float64 or float32, with the arithmetic that rules need in forms that vectorise.
pub trait Float:
    Copy
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
    /// Up to this magnitude [`Float::sin_cos_reduced`] is accurate and [`Float::nearest`] exact.
    const LIMIT: Self;

    /// The nearest number of this type.
    fn of(value: f64) -> Self;

    /// The same number as float64.
    fn double(self) -> f64;

    /// The nearest float32.
    fn single(self) -> f32;

    /// |x|.
    #[must_use]
    fn abs(self) -> Self;

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
    ($float:ty, $trig:ident) => {
        #[expect(
            clippy::allow_attributes,
            clippy::cast_possible_truncation,
            reason = "rounding to the type is what is asked for"
        )]
        #[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "one text for two types")]
        impl Float for $float {
            const LIMIT: Self = $trig::LIMIT;

            #[inline(always)]
            fn of(value: f64) -> Self {
                value as Self
            }

            #[inline(always)]
            fn double(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn single(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
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
