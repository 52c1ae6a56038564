//! e^x in float64 and float32.
//!
//! x = n ln 2 + r with |r| <= ln(2) / 2, e^x = 2^n e^r. n is rounded by adding a number whose unit
//! in the last place is 1, which also leaves n in the low bits of the mantissa: no conversion
//! instruction, which would saturate and keep the loop scalar. e^r = 1 + r + r^2 q(r) with q
//! minimax for the relative error (Remez). 2^n is applied in two halves, so that results below the
//! smallest normal number round once and overflow gives infinity.

/// log2(e).
const LOG2_E: f64 = std::f64::consts::LOG2_E;

/// 1.5 x 2^52.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// ln 2 = `LN_2_HIGH` + `LN_2_LOW`; the first has 33 bits, so that its product with n is exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fef0_0000);
const LN_2_LOW: f64 = f64::from_bits(0x3dd4_73de_6af2_78ed);

/// Coefficients of q from r^0 on; the error of e^r is 0.03 units in the last place.
const Q: [f64; 10] = [
    f64::from_bits(0x3fe0_0000_0000_000a),
    f64::from_bits(0x3fc5_5555_5555_54fa),
    f64::from_bits(0x3fa5_5555_5555_087c),
    f64::from_bits(0x3f81_1111_1112_7be5),
    f64::from_bits(0x3f56_c16c_1842_a126),
    f64::from_bits(0x3f2a_01a0_12a5_7b5e),
    f64::from_bits(0x3efa_0199_a0c6_6195),
    f64::from_bits(0x3ec7_1df2_5523_5e0b),
    f64::from_bits(0x3e92_8ad7_2cd4_ab37),
    f64::from_bits(0x3e5a_d7f6_f0e2_4922),
];

/// 1.5 x 2^23.
const ROUND_F32: f32 = 12_582_912.0;

/// ln 2 in two parts, the first with 15 bits.
const LN_2_HIGH_F32: f32 = f32::from_bits(0x3f31_7200);
const LN_2_LOW_F32: f32 = f32::from_bits(0x35bf_be8e);

/// As [`Q`]; the error of e^r is 0.06 units in the last place.
const Q_F32: [f32; 5] = [
    f32::from_bits(0x3eff_fffe),
    f32::from_bits(0x3e2a_aa49),
    f32::from_bits(0x3d2a_ac79),
    f32::from_bits(0x3c09_1cf1),
    f32::from_bits(0x3ab5_121a),
];

/// e^x with an error below 1.5 units in the last place; below the smallest normal number, of
/// the smallest subnormal one. Infinity from 709.8 on, 0 below -745.2, NaN for NaN.
#[must_use]
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub fn exp(x: f64) -> f64 {
    // Selects instead of `clamp`, which has a branch that panics; NaN passes both.
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let n = (x * LOG2_E + ROUND) - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let [q0, q1, q2, q3, q4, q5, q6, q7, q8, q9] = Q;
    let square = r * r;
    let fourth = square * square;
    let low = (q0 + q1 * r) + (q2 + q3 * r) * square;
    let high = (q4 + q5 * r) + (q6 + q7 * r) * square + (q8 + q9 * r) * fourth;
    let power = 1.0 + (r + square * (low + high * fourth));
    let shifted = 0.5 * n + ROUND;
    let half = shifted - ROUND;
    power * power_of_2(shifted) * power_of_2((n - half) + ROUND)
}

/// e^x with an error below 1.5 units in the last place; below the smallest normal number, of
/// the smallest subnormal one. Infinity from 88.8 on, 0 below -104, NaN for NaN.
#[must_use]
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub fn exp_f32(x: f32) -> f32 {
    let x = if x > 89.0 { 89.0 } else { x };
    let x = if x < -105.0 { -105.0 } else { x };
    let n = (x * std::f32::consts::LOG2_E + ROUND_F32) - ROUND_F32;
    let r = (x - n * LN_2_HIGH_F32) - n * LN_2_LOW_F32;
    let [q0, q1, q2, q3, q4] = Q_F32;
    let square = r * r;
    let q = (q0 + q1 * r) + ((q2 + q3 * r) + q4 * square) * square;
    let power = 1.0 + (r + square * q);
    let shifted = 0.5 * n + ROUND_F32;
    let half = shifted - ROUND_F32;
    power * power_of_2_f32(shifted) * power_of_2_f32((n - half) + ROUND_F32)
}

/// 2^n of `shifted` = n + [`ROUND`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn power_of_2(shifted: f64) -> f64 {
    f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52)
}

/// 2^n of `shifted` = n + [`ROUND_F32`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn power_of_2_f32(shifted: f32) -> f32 {
    f32::from_bits(shifted.to_bits().wrapping_add(127) << 23)
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
