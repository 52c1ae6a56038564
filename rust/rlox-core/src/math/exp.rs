//! e^x in float64 and float32, whole and in parts.
//!
//! Cody and Waite's reduction x = k ln 2 + r with |r| <= ln(2) / 2. k is rounded by adding a number
//! whose unit in the last place is 1, which also leaves k in the low bits of the mantissa: no
//! conversion instruction, which would saturate and keep the loop scalar. (e^r - 1 - r) / r^2 is a
//! minimax polynomial (Remez exchange in 50 digits) of relative error 3e-18 in float64 and 3e-9 in
//! float32.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::ops::{Add, Mul, Sub};

/// float64 or float32, with the constants and the polynomial of its exponential.
pub(crate) trait Exponential:
    Copy + PartialOrd + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    const HALF: Self;
    const ONE: Self;
    const LOG2_E: Self;
    /// Adding it rounds to an integer: 1.5 x 2^52 or 1.5 x 2^23.
    const ROUND: Self;
    /// ln 2 = `LN_2_HIGH` + `LN_2_LOW`; the first is short, so that its product with k is exact.
    const LN_2_HIGH: Self;
    const LN_2_LOW: Self;
    /// Outside, e^x rounds to 0 or infinity.
    const RANGE: (Self, Self);
    /// Between them, 2^k is a normal number.
    const LOWEST: Self;
    const HIGHEST: Self;

    /// e^r - 1 - r.
    fn excess(r: Self) -> Self;

    /// 2^k of `shifted` = k + [`Exponential::ROUND`].
    fn power_of_2(shifted: Self) -> Self;
}

impl Exponential for f64 {
    const HALF: Self = 0.5;
    const ONE: Self = 1.0;
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const ROUND: Self = 6_755_399_441_055_744.0;
    const LN_2_HIGH: Self = Self::from_bits(0x3fe6_2e42_fee0_0000);
    const LN_2_LOW: Self = Self::from_bits(0x3dea_39ef_3579_3c76);
    const RANGE: (Self, Self) = (-746.0, 710.0);
    const LOWEST: Self = -708.0;
    const HIGHEST: Self = 709.0;

    #[inline(always)]
    fn excess(r: Self) -> Self {
        let c1 = Self::from_bits(0x3fc5_5555_5555_5557);
        let c2 = Self::from_bits(0x3fa5_5555_5555_554e);
        let c3 = Self::from_bits(0x3f81_1111_1111_00eb);
        let c4 = Self::from_bits(0x3f56_c16c_16c1_a07e);
        let c5 = Self::from_bits(0x3f2a_01a0_1abe_0cdb);
        let c6 = Self::from_bits(0x3efa_01a0_1905_fed3);
        let c7 = Self::from_bits(0x3ec7_1de0_2458_9b6c);
        let c8 = Self::from_bits(0x3e92_7e51_0dc7_8a13);
        let c9 = Self::from_bits(0x3e5a_f4dc_4933_3af4);
        let c10 = Self::from_bits(0x3e21_f19f_6d0a_5067);
        let r2 = r * r;
        let r4 = r2 * r2;
        let low = (0.5 + c1 * r) + (c2 + c3 * r) * r2;
        let middle = (c4 + c5 * r) + (c6 + c7 * r) * r2;
        let high = (c8 + c9 * r) + c10 * r2;
        r2 * (low + (middle + high * r4) * r4)
    }

    #[inline(always)]
    fn power_of_2(shifted: Self) -> Self {
        Self::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
    }
}

impl Exponential for f32 {
    const HALF: Self = 0.5;
    const ONE: Self = 1.0;
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const ROUND: Self = 12_582_912.0;
    const LN_2_HIGH: Self = Self::from_bits(0x3f31_7200);
    const LN_2_LOW: Self = Self::from_bits(0x35bf_be8e);
    const RANGE: (Self, Self) = (-105.0, 89.0);
    const LOWEST: Self = -87.0;
    const HIGHEST: Self = 88.0;

    #[inline(always)]
    fn excess(r: Self) -> Self {
        let c1 = Self::from_bits(0x3e2a_aaab);
        let c2 = Self::from_bits(0x3d2a_aa75);
        let c3 = Self::from_bits(0x3c08_88a6);
        let c4 = Self::from_bits(0x3ab6_a16d);
        let c5 = Self::from_bits(0x3950_3962);
        let r2 = r * r;
        let high = (c2 + c3 * r) + (c4 + c5 * r) * r2;
        r2 * ((0.5 + c1 * r) + high * r2)
    }

    #[inline(always)]
    fn power_of_2(shifted: Self) -> Self {
        Self::from_bits(shifted.to_bits().wrapping_add(127) << 23)
    }
}

/// e^x = `scale` (1 + `reduced` + `excess`), so that e^x - 1 - x keeps its precision near 0.
#[derive(Clone, Copy)]
pub(crate) struct Parts<F> {
    /// 2^k, exactly; 1 for |x| < 0.34.
    pub(crate) scale: F,
    /// r = x - k ln 2; x itself where `scale` is 1.
    pub(crate) reduced: F,
    /// e^r - 1 - r, which is r^2 times a positive number.
    pub(crate) excess: F,
}

/// The parts of e^x; below [`Exponential::LOWEST`] and for NaN those of its value there. Above
/// [`Exponential::HIGHEST`] they mean nothing, and the caller selects another result.
#[inline(always)]
pub(crate) fn parts<F: Exponential>(x: F) -> Parts<F> {
    let x = if x > F::LOWEST { x } else { F::LOWEST };
    let (shifted, reduced) = reduce(x);
    Parts { scale: F::power_of_2(shifted), reduced, excess: F::excess(reduced) }
}

/// e^x with an error below 1.5 units in the last place; below the smallest normal number, of
/// the smallest subnormal one. Infinity from 709.8 on, 0 below -745.2, NaN for NaN.
#[must_use]
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    whole(x)
}

/// e^x with an error below 1.5 units in the last place; below the smallest normal number, of
/// the smallest subnormal one. Infinity from 88.8 on, 0 below -104, NaN for NaN.
#[must_use]
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    whole(x)
}

/// 2^k is applied in two halves, so that results below the smallest normal number round once and
/// overflow gives infinity.
#[inline(always)]
fn whole<F: Exponential>(x: F) -> F {
    let (low, high) = F::RANGE;
    // Selects instead of `clamp`, which has a branch that panics; NaN passes both.
    let x = if x > high { high } else { x };
    let x = if x < low { low } else { x };
    let (shifted, r) = reduce(x);
    let power = F::ONE + (r + F::excess(r));
    let k = shifted - F::ROUND;
    let shifted = F::HALF * k + F::ROUND;
    let half = shifted - F::ROUND;
    power * F::power_of_2(shifted) * F::power_of_2((k - half) + F::ROUND)
}

/// (k + [`Exponential::ROUND`], r) of x = k ln 2 + r.
#[inline(always)]
fn reduce<F: Exponential>(x: F) -> (F, F) {
    let shifted = x * F::LOG2_E + F::ROUND;
    let k = shifted - F::ROUND;
    (shifted, (x - k * F::LN_2_HIGH) - k * F::LN_2_LOW)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "limits are exact")]
mod tests {
    use super::*;
    use crate::seed::Stream;

    /// Distance of `got` from `exact` in units in the last place of `exact`.
    fn ulps(got: f64, exact: f64) -> f64 {
        (got - exact).abs() / (exact.next_up() - exact)
    }

    /// The largest error over 200,000 points of [-scale, scale], against the library's exp, whose
    /// own error is about half a unit.
    fn worst(scale: f64) -> f64 {
        let mut stream = Stream::new(1, "exp", 0);
        let points = (0..200_000).map(|_| stream.uniform_in(-scale, scale));
        points.map(|x| ulps(exp(x), x.exp())).fold(0.0, f64::max)
    }

    /// Likewise, against the float64 library function.
    fn worst_f32(scale: f64) -> f64 {
        let mut stream = Stream::new(2, "exp", 0);
        #[expect(clippy::cast_possible_truncation, reason = "float32 points")]
        let points = (0..200_000).map(|_| stream.uniform_in(-scale, scale) as f32);
        let error = |x: f32| {
            let exact = f64::from(x).exp();
            #[expect(clippy::cast_possible_truncation, reason = "the unit of the nearest number")]
            let near = exact as f32;
            (f64::from(exp_f32(x)) - exact).abs() / f64::from(near.next_up() - near)
        };
        points.map(error).fold(0.0, f64::max)
    }

    #[test]
    fn the_error_stays_below_its_bound() {
        for scale in [1e-8, 0.3, 1.0, 20.0, 700.0, 709.7, 745.0] {
            assert!(worst(scale) <= 1.0, "scale {scale}: {}", worst(scale));
        }
        for scale in [1e-4, 0.3, 1.0, 10.0, 88.7, 103.0] {
            assert!(worst_f32(scale) <= 1.0, "scale {scale}: {}", worst_f32(scale));
        }
    }

    #[test]
    fn whole_numbers_give_the_known_powers() {
        assert_eq!((exp(0.0), exp(-0.0), exp_f32(0.0)), (1.0, 1.0, 1.0));
        assert!(ulps(exp(1.0), std::f64::consts::E) <= 1.0);
        assert!(ulps(exp(10.0), 22_026.465_794_806_718) <= 1.0);
        assert!((exp_f32(1.0) - std::f32::consts::E).abs() <= f32::EPSILON);
    }

    #[test]
    fn beyond_the_range_there_are_infinity_and_0() {
        for x in [709.79, 710.0, 1e3, 1e300, f64::INFINITY] {
            assert_eq!(exp(x), f64::INFINITY, "{x}");
            assert_eq!(exp(-x - 36.5), 0.0, "{}", -x - 36.5);
        }
        for x in [88.73, 89.0, 1e3, f32::INFINITY] {
            assert_eq!(exp_f32(x), f32::INFINITY, "{x}");
            assert_eq!(exp_f32(-x - 16.0), 0.0, "{}", -x - 16.0);
        }
        assert!(exp(709.78).is_finite() && exp_f32(88.72).is_finite());
    }

    #[test]
    fn small_results_go_down_to_the_smallest_subnormal_number() {
        assert!((exp(-740.0) - (-740.0_f64).exp()).abs() <= f64::from_bits(1));
        assert_eq!(exp(-745.0), f64::from_bits(1));
        assert_eq!(exp_f32(-103.0), f32::from_bits(1));
    }

    #[test]
    fn not_a_number_stays_one() {
        assert!(exp(f64::NAN).is_nan() && exp(-f64::NAN).is_nan());
        assert!(exp_f32(f32::NAN).is_nan() && exp_f32(-f32::NAN).is_nan());
    }
}
