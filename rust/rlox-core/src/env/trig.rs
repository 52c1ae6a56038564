//! Sine and cosine of a block of angles, in a form that vectorises.
//!
//! Cody and Waite's reduction by pi/2 in two steps and the minimax polynomials of fdlibm
//! (`k_sin.c`, `k_cos.c`): error below one unit in the last place, no branch inside the loop.
//! Angles beyond the reduction's range take the standard library's functions one by one.

use multiversion::multiversion;

/// Rows that share one pair of scratch arrays on the stack.
pub(super) const BLOCK: usize = 64;

/// The reduction is exact while the number of quarter turns fits 20 bits.
const LIMIT: f64 = 1.0e6;

/// 1.5 x 2^52: adding it rounds to an integer whose low bits are readable in the mantissa.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// pi/2 = `HALF_PI_1` + `HALF_PI_2` + `HALF_PI_3`, the first two with 33 bits each (fdlibm `e_rem_pio2.c`).
const HALF_PI_1: f64 = f64::from_bits(0x3ff9_21fb_5440_0000);
const HALF_PI_2: f64 = f64::from_bits(0x3dd0_b461_1a60_0000);
const HALF_PI_3: f64 = f64::from_bits(0x3ba3_198a_2e03_7073);

const S1: f64 = f64::from_bits(0xbfc5_5555_5555_5549);
const S2: f64 = f64::from_bits(0x3f81_1111_1110_f8a6);
const S3: f64 = f64::from_bits(0xbf2a_01a0_19c1_61d5);
const S4: f64 = f64::from_bits(0x3ec7_1de3_57b1_fe7d);
const S5: f64 = f64::from_bits(0xbe5a_e5e6_8a2b_9ceb);
const S6: f64 = f64::from_bits(0x3de5_d93a_5acf_d57c);

const C1: f64 = f64::from_bits(0x3fa5_5555_5555_554c);
const C2: f64 = f64::from_bits(0xbf56_c16c_16c1_5177);
const C3: f64 = f64::from_bits(0x3efa_01a0_19cb_1590);
const C4: f64 = f64::from_bits(0xbe92_7e4f_809c_52ad);
const C5: f64 = f64::from_bits(0x3e21_ee9e_bdb4_b1c4);
const C6: f64 = f64::from_bits(0xbda8_fae9_be88_38d4);

/// Sine and cosine of up to [`BLOCK`] angles.
pub(super) struct SinCos {
    /// sin of each angle.
    pub(super) sin: [f64; BLOCK],
    /// cos of each angle.
    pub(super) cos: [f64; BLOCK],
}

impl SinCos {
    /// Of the first [`BLOCK`] `angles`; places beyond their number are unspecified.
    #[inline]
    pub(super) fn of(angles: &[f64]) -> Self {
        let mut out = Self { sin: [0.0; BLOCK], cos: [0.0; BLOCK] };
        polynomial(angles, &mut out.sin, &mut out.cos);
        // The negated comparison also catches NaN.
        if angles.iter().any(|angle| !matches!(angle.abs(), 0.0..LIMIT)) {
            for ((angle, sin), cos) in angles.iter().zip(&mut out.sin).zip(&mut out.cos) {
                if !matches!(angle.abs(), 0.0..LIMIT) {
                    (*sin, *cos) = angle.sin_cos();
                }
            }
        }
        out
    }
}

// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
fn polynomial(angles: &[f64], sin: &mut [f64; BLOCK], cos: &mut [f64; BLOCK]) {
    for ((&angle, sin), cos) in angles.iter().zip(sin).zip(cos) {
        (*sin, *cos) = sin_cos(angle);
    }
}

/// (sin, cos) of an angle below [`LIMIT`].
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn sin_cos(angle: f64) -> (f64, f64) {
    let shifted = angle * std::f64::consts::FRAC_2_PI + ROUND;
    let quarter = shifted.to_bits();
    let turns = shifted - ROUND;

    let first = angle - turns * HALF_PI_1;
    let second = turns * HALF_PI_2;
    let rest = first - second;
    let lost = turns * HALF_PI_3 - ((first - rest) - second);
    let x = rest - lost;
    let tail = (rest - x) - lost;

    let z = x * x;
    let (sin, cos) = (sin_kernel(x, tail, z), cos_kernel(x, tail, z));
    let odd = quarter & 1 == 1;
    let (sin, cos) = if odd { (cos, sin) } else { (sin, cos) };
    let sin_sign = (quarter & 2) << 62;
    let cos_sign = (quarter.wrapping_add(1) & 2) << 62;
    (f64::from_bits(sin.to_bits() ^ sin_sign), f64::from_bits(cos.to_bits() ^ cos_sign))
}

/// sin(x + tail) for |x| <= pi/4, z = x^2.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn sin_kernel(x: f64, tail: f64, z: f64) -> f64 {
    let cube = z * x;
    let r = S2 + z * (S3 + z * (S4 + z * (S5 + z * S6)));
    x - ((z * (0.5 * tail - cube * r) - tail) - cube * S1)
}

/// cos(x + tail) for |x| <= pi/4, z = x^2.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn cos_kernel(x: f64, tail: f64, z: f64) -> f64 {
    let r = z * (C1 + z * (C2 + z * (C3 + z * (C4 + z * (C5 + z * C6)))));
    let half = 0.5 * z;
    let w = 1.0 - half;
    w + (((1.0 - w) - half) + (z * r - x * tail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Stream;

    fn worst_error(scale: f64) -> f64 {
        let mut stream = Stream::new(1, "angles", 0);
        let mut worst = 0.0_f64;
        for _ in 0..2_000 {
            let angles: Vec<f64> = (0..BLOCK).map(|_| stream.uniform_in(-scale, scale)).collect();
            let got = SinCos::of(&angles);
            for (i, angle) in angles.iter().enumerate() {
                worst = worst.max((got.sin[i] - angle.sin()).abs());
                worst = worst.max((got.cos[i] - angle.cos()).abs());
            }
        }
        worst
    }

    #[test]
    fn sine_and_cosine_agree_with_the_standard_library_to_the_last_place() {
        for scale in [1e-9, 0.2, 1.0, 8.0, 100.0, 1e4, 0.99e6] {
            assert!(worst_error(scale) <= 1.2e-16, "scale {scale}: {}", worst_error(scale));
        }
    }

    #[test]
    fn angles_beyond_the_reduction_take_the_standard_library() {
        let got = SinCos::of(&[0.5, 3e9, -1e300, f64::NAN]);
        assert_eq!((got.sin[1], got.cos[2]), (3e9_f64.sin(), (-1e300_f64).cos()));
        assert!(got.sin[3].is_nan());
        assert!((got.sin[0] - 0.5_f64.sin()).abs() < 1e-16);
    }

    #[test]
    fn quarter_turns_land_in_the_right_quadrant() {
        use std::f64::consts::PI;
        let got = SinCos::of(&[0.0, PI / 2.0, PI, 1.5 * PI, -PI / 2.0, 2.0 * PI]);
        let near = |values: &[f64], expected: &[f64]| {
            values.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-15)
        };
        assert!(near(&got.sin, &[0.0, 1.0, 0.0, -1.0, -1.0, 0.0]));
        assert!(near(&got.cos, &[1.0, 0.0, -1.0, 0.0, 0.0, 1.0]));
    }
}
