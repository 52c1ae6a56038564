//! e^x in float64 and float32, as one number and in parts.
//!
//! The code uses Cody and Waite's reduction x = k ln 2 + r with |r| <= ln(2) / 2. It rounds k by
//! adding a number whose unit in the last place is 1. This leaves k in the low bits of the mantissa
//! and avoids a conversion instruction, which would saturate and keep the loop scalar. (e^r - 1 -
//! r) / r^2 is a minimax polynomial (Remez exchange in 50 digits) with a relative error of 3e-18 in
//! float64 and 3e-9 in float32.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use super::float::Exponential;
use super::{Float, mul_add};

const TWO_TO_MINUS_64: f64 = 1.0 / 18_446_744_073_709_551_616.0;

impl Exponential for f64 {
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const ROUND: Self = 6_755_399_441_055_744.0;
    const LN_2_HIGH: Self = Self::from_bits(0x3fe6_2e42_fee0_0000);
    const LN_2_LOW: Self = Self::from_bits(0x3dea_39ef_3579_3c76);
    const ZERO_BELOW: Self = -746.0;
    const INFINITY_ABOVE: Self = 709.782_712_893_384;
    const MIN_NORMAL_INPUT: Self = -708.0;
    const MAX_NORMAL_INPUT: Self = 709.0;

    #[inline(always)]
    fn excess<const FUSED: bool>(r: Self) -> Self {
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
        let fma = mul_add::<Self, FUSED>;
        let low = fma(fma(c3, r, c2), r2, fma(c1, r, 0.5));
        let middle = fma(fma(c7, r, c6), r2, fma(c5, r, c4));
        let high = fma(c10, r2, fma(c9, r, c8));
        r2 * fma(fma(high, r4, middle), r4, low)
    }

    #[inline(always)]
    fn power_of_2(shifted: Self) -> Self {
        Self::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
    }

    #[inline(always)]
    fn times_power_of_2(power: Self, shifted: Self) -> Self {
        Self::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 52))
    }
}

impl Exponential for f32 {
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const ROUND: Self = 12_582_912.0;
    const LN_2_HIGH: Self = Self::from_bits(0x3f31_7200);
    const LN_2_LOW: Self = Self::from_bits(0x35bf_be8e);
    const ZERO_BELOW: Self = -105.0;
    const INFINITY_ABOVE: Self = 88.722_84;
    const MIN_NORMAL_INPUT: Self = -87.0;
    const MAX_NORMAL_INPUT: Self = 88.0;

    #[inline(always)]
    fn excess<const FUSED: bool>(r: Self) -> Self {
        let c1 = Self::from_bits(0x3e2a_aaab);
        let c2 = Self::from_bits(0x3d2a_aa75);
        let c3 = Self::from_bits(0x3c08_88a6);
        let c4 = Self::from_bits(0x3ab6_a16d);
        let c5 = Self::from_bits(0x3950_3962);
        let r2 = r * r;
        let fma = mul_add::<Self, FUSED>;
        let high = fma(fma(c5, r, c4), r2, fma(c3, r, c2));
        r2 * fma(high, r2, fma(c1, r, 0.5))
    }

    #[inline(always)]
    fn power_of_2(shifted: Self) -> Self {
        Self::from_bits(shifted.to_bits().wrapping_add(127) << 23)
    }

    #[inline(always)]
    fn times_power_of_2(power: Self, shifted: Self) -> Self {
        Self::from_bits(power.to_bits().wrapping_add(shifted.to_bits() << 23))
    }
}

/// The parts of e^x = `scale` (1 + `reduced` + `excess`). With them e^x - 1 - x keeps its precision
/// near 0.
#[derive(Clone, Copy)]
pub(crate) struct ExpParts<F> {
    /// 2^k, exactly; 1 for |x| < 0.34.
    pub(crate) scale: F,
    /// r = x - k ln 2; x itself if `scale` is 1.
    pub(crate) reduced: F,
    /// e^r - 1 - r, which equals r^2 times a positive number.
    pub(crate) excess: F,
}

/// Returns the parts of e^x. Below [`Exponential::MIN_NORMAL_INPUT`] and for NaN it returns the parts at
/// [`Exponential::MIN_NORMAL_INPUT`]. Above [`Exponential::MAX_NORMAL_INPUT`] the parts have no meaning,
/// and the caller selects another result.
#[inline(always)]
pub(crate) fn exp_parts<F: Float, const FUSED: bool>(x: F) -> ExpParts<F> {
    let x = if x > F::MIN_NORMAL_INPUT { x } else { F::MIN_NORMAL_INPUT };
    let (shifted, reduced) = reduce::<F, FUSED>(x);
    ExpParts { scale: F::power_of_2(shifted), reduced, excess: F::excess::<FUSED>(reduced) }
}

/// Returns e^x with an error below 1.5 units in the last place; below the smallest normal number
/// the unit is the smallest subnormal number. The result is infinity from 709.8 on, 0 below -745.2,
/// and NaN for NaN.
#[must_use]
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    exp_generic::<_, false>(x)
}

/// Returns e^x with an error below 1.5 units in the last place; below the smallest normal number
/// the unit is the smallest subnormal number. The result is infinity from 88.8 on, 0 below -104,
/// and NaN for NaN.
#[must_use]
#[inline(always)]
pub fn exp_f32(x: f32) -> f32 {
    exp_generic::<_, false>(x)
}

/// Returns e^x. Results below the smallest normal number are computed 2^64 times too large and then
/// multiplied by 2^-64, so that they round once.
#[inline(always)]
pub(super) fn exp_generic<F: Float, const FUSED: bool>(x: F) -> F {
    // These are selections, because `clamp` has a branch that panics; NaN stays NaN.
    let raised = if x < F::ZERO_BELOW { F::ZERO_BELOW } else { x };
    let (shifted, r) = reduce::<F, FUSED>(raised);
    let power = F::ONE + (r + F::excess::<FUSED>(r));
    let small = x < F::MIN_NORMAL_INPUT;
    let shifted = shifted + if small { F::from_f64(64.0) } else { F::ZERO };
    let large = F::times_power_of_2(power, shifted);
    let result = large * if small { F::from_f64(TWO_TO_MINUS_64) } else { F::ONE };
    // NaN and overflow take the second branch.
    if x <= F::INFINITY_ABOVE { result } else { x + F::INFINITY }
}

/// Returns e^x - 1 for x from 0 to [`Exponential::MAX_NORMAL_INPUT`] or NaN; nothing cancels near 0.
#[inline(always)]
pub(super) fn exp_m1<F: Float, const FUSED: bool>(x: F) -> F {
    let (shifted, r) = reduce::<F, FUSED>(x);
    let scale = F::power_of_2(shifted);
    mul_add::<F, FUSED>(scale, r + F::excess::<FUSED>(r), scale - F::ONE)
}

/// Returns (k + [`Exponential::ROUND`], r) for x = k ln 2 + r.
#[inline(always)]
fn reduce<F: Float, const FUSED: bool>(x: F) -> (F, F) {
    let shifted = mul_add::<F, FUSED>(x, F::LOG2_E, F::ROUND);
    let k = shifted - F::ROUND;
    let r = mul_add::<F, FUSED>(-k, F::LN_2_HIGH, x);
    (shifted, mul_add::<F, FUSED>(-k, F::LN_2_LOW, r))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "limits are exact")]
mod tests {
    use super::*;
    use crate::seed::Stream;

    /// Returns the distance of `got` from `exact` in units in the last place of `exact`.
    fn ulps(got: f64, exact: f64) -> f64 {
        (got - exact).abs() / (exact.next_up() - exact)
    }

    /// Returns the largest error over 200,000 points of [-scale, scale] against the library's exp,
    /// whose own error is about half a unit.
    fn worst_error(scale: f64) -> f64 {
        let mut stream = Stream::new(1, "exp", 0);
        let points = (0..200_000).map(|_| stream.uniform_in(-scale, scale));
        let error = |x: f64| ulps(exp(x), x.exp()).max(ulps(exp_generic::<_, true>(x), x.exp()));
        points.map(error).fold(0.0, f64::max)
    }

    /// Returns the largest error in float32, against the float64 library function.
    fn worst_error_f32(scale: f64) -> f64 {
        let mut stream = Stream::new(2, "exp", 0);
        #[expect(clippy::cast_possible_truncation, reason = "float32 points")]
        let points = (0..200_000).map(|_| stream.uniform_in(-scale, scale) as f32);
        let error = |x: f32| {
            let exact = f64::from(x).exp();
            #[expect(clippy::cast_possible_truncation, reason = "the unit of the nearest number")]
            let near = exact as f32;
            let distance = |got: f32| (f64::from(got) - exact).abs();
            distance(exp_f32(x)).max(distance(exp_generic::<_, true>(x))) / f64::from(near.next_up() - near)
        };
        points.map(error).fold(0.0, f64::max)
    }

    #[test]
    fn the_error_stays_below_its_bound() {
        for scale in [1e-8, 0.3, 1.0, 20.0, 700.0, 709.7, 745.0] {
            assert!(worst_error(scale) <= 1.0, "scale {scale}: {}", worst_error(scale));
        }
        for scale in [1e-4, 0.3, 1.0, 10.0, 88.7, 103.0] {
            assert!(worst_error_f32(scale) <= 1.0, "scale {scale}: {}", worst_error_f32(scale));
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
    fn results_beyond_the_range_are_infinity_or_0() {
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
    fn nan_stays_nan() {
        assert!(exp(f64::NAN).is_nan() && exp(-f64::NAN).is_nan());
        assert!(exp_f32(f32::NAN).is_nan() && exp_f32(-f32::NAN).is_nan());
    }
}
