//! Sine and cosine in float64, in a form that vectorises.
//!
//! The code uses Cody and Waite's reduction by pi/2 in two steps and the minimax polynomials of
//! fdlibm (`k_sin.c`, `k_cos.c`). The error is below one unit in the last place, and there is no
//! branch.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

/// Largest magnitude of an angle that is reduced: the number of quarter turns must fit 20 bits for
/// the reduction to be exact.
pub(super) const LIMIT: f64 = 1.0e6;

/// 1.5 x 2^52: adding it rounds to an integer whose low bits are readable in the mantissa.
pub(super) const ROUND: f64 = 6_755_399_441_055_744.0;

/// 2 pi as a float64 = `TAU_1` + `TAU_2`, the first with 33 bits.
pub(super) const TAU_1: f64 = f64::from_bits(0x4019_21fb_5440_0000);
pub(super) const TAU_2: f64 = f64::from_bits(0x3df0_b460_0000_0000);

/// pi/2 = `HALF_PI_1` + `HALF_PI_2` + `HALF_PI_3`, the first two with 33 bits each (fdlibm
/// `e_rem_pio2.c`).
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

/// Returns (sin, cos) of an angle of at most [`LIMIT`] in magnitude.
#[inline(always)]
pub(super) fn sin_cos(angle: f64) -> (f64, f64) {
    let shifted = angle * std::f64::consts::FRAC_2_PI + ROUND;
    let quarter_bits = shifted.to_bits();
    let quarter_turns = shifted - ROUND;

    let first = angle - quarter_turns * HALF_PI_1;
    let second = quarter_turns * HALF_PI_2;
    let rest = first - second;
    let low_part = quarter_turns * HALF_PI_3 - ((first - rest) - second);
    let x = rest - low_part;
    let tail = (rest - x) - low_part;

    let z = x * x;
    let (sin, cos) = (sin_kernel(x, tail, z), cos_kernel(x, tail, z));
    let odd = quarter_bits & 1 == 1;
    let (sin, cos) = if odd { (cos, sin) } else { (sin, cos) };
    let sin_sign = (quarter_bits & 2) << 62;
    let cos_sign = (quarter_bits.wrapping_add(1) & 2) << 62;
    (f64::from_bits(sin.to_bits() ^ sin_sign), f64::from_bits(cos.to_bits() ^ cos_sign))
}

/// Returns (sin, cos) of an angle up to pi/4: the result of [`sin_cos`] if there is nothing to
/// reduce.
#[inline(always)]
pub(super) fn sin_cos_small(x: f64) -> (f64, f64) {
    let z = x * x;
    let (cube, half) = (z * x, 0.5 * z);
    let w = 1.0 - half;
    // These are the kernels below without the terms of the tail, which is 0. The changed sign
    // changes no other bit.
    let sin = x - (z * (cube * -sin_terms(z)) - cube * S1);
    (sin, w + (((1.0 - w) - half) + z * cos_terms(z)))
}

/// Returns sin(x + tail) for |x| <= pi/4 and z = x^2.
#[inline(always)]
fn sin_kernel(x: f64, tail: f64, z: f64) -> f64 {
    let cube = z * x;
    x - ((z * (0.5 * tail - cube * sin_terms(z)) - tail) - cube * S1)
}

/// Returns cos(x + tail) for |x| <= pi/4 and z = x^2.
#[inline(always)]
fn cos_kernel(x: f64, tail: f64, z: f64) -> f64 {
    let half = 0.5 * z;
    let w = 1.0 - half;
    w + (((1.0 - w) - half) + (z * cos_terms(z) - x * tail))
}

/// Returns S2 + S3 z + ... + S6 z^4. The sum is a tree, so that the terms of a row do not wait for
/// each other.
#[inline(always)]
fn sin_terms(z: f64) -> f64 {
    let square = z * z;
    (S2 + z * S3) + square * ((S4 + z * S5) + square * S6)
}

/// Returns C1 z + C2 z^2 + ... + C6 z^6 as a tree.
#[inline(always)]
fn cos_terms(z: f64) -> f64 {
    let square = z * z;
    z * ((C1 + z * C2) + square * ((C3 + z * C4) + square * (C5 + z * C6)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Stream;

    fn worst_error(scale: f64) -> f64 {
        let mut stream = Stream::new(1, "angles", 0);
        (0..128_000).fold(0.0, |worst: f64, _| {
            let angle = stream.uniform_in(-scale, scale);
            let (sin, cos) = sin_cos(angle);
            worst.max((sin - angle.sin()).abs()).max((cos - angle.cos()).abs())
        })
    }

    #[test]
    fn sine_and_cosine_agree_with_the_standard_library_to_the_last_place() {
        for scale in [1e-9, 0.2, 1.0, 8.0, 100.0, 1e4, 0.99e6] {
            assert!(worst_error(scale) <= 1.2e-16, "scale {scale}: {}", worst_error(scale));
        }
    }

    #[test]
    fn small_angles_give_the_same_bits_with_and_without_reduction() {
        let mut stream = Stream::new(2, "angles", 0);
        for angle in (0..100_000).map(|_| stream.uniform_in(-0.785, 0.785)).chain([0.0, -0.0]) {
            let (small, reduced) = (sin_cos_small(angle), sin_cos(angle));
            assert_eq!(small.0.to_bits(), reduced.0.to_bits(), "sin {angle}");
            assert_eq!(small.1.to_bits(), reduced.1.to_bits(), "cos {angle}");
        }
    }

    #[test]
    fn quarter_turns_land_in_the_right_quadrant() {
        use std::f64::consts::FRAC_PI_2;
        for (quarter, expected) in [(0.0, (0, 1)), (1.0, (1, 0)), (2.0, (0, -1)), (3.0, (-1, 0))]
            .into_iter()
            .chain([(-1.0, (-1, 0)), (4.0, (0, 1))])
        {
            let (sin, cos) = sin_cos(quarter * FRAC_PI_2);
            assert!((sin - f64::from(expected.0)).abs() < 1e-15, "{quarter}");
            assert!((cos - f64::from(expected.1)).abs() < 1e-15, "{quarter}");
        }
    }
}
