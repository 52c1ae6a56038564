//! Sine and cosine in float32, in a form that vectorises 8 wide.
//!
//! The code uses Cody and Waite's reduction by pi/2 in three steps and the minimax polynomials of
//! Cephes (`sinf.c`, `cosf.c`). The error is below 1.2e-7 (two units in the last place of 1) up to
//! 100 turns and below 2e-7 up to [`LIMIT`]. There is no branch.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

/// Largest magnitude of an angle that is reduced: the number of quarter turns must fit 13 bits for
/// the reduction to be exact.
pub(super) const LIMIT: f32 = 8192.0;

/// 1.5 x 2^23: adding it rounds to an integer whose low bits are readable in the mantissa.
pub(super) const ROUND: f32 = 12_582_912.0;

/// 2 pi = `TAU_1` + `TAU_2`, the first with 12 bits.
pub(super) const TAU_1: f32 = 6.281_25;
pub(super) const TAU_2: f32 = 0.001_935_307_2;

/// pi/2 = `HALF_PI_1` + `HALF_PI_2` + `HALF_PI_3`, with 11 bits each.
const HALF_PI_1: f32 = f32::from_bits(0x3fc9_0000);
const HALF_PI_2: f32 = f32::from_bits(0x39fd_a000);
const HALF_PI_3: f32 = f32::from_bits(0x33a2_2000);

const S1: f32 = -1.666_665_5e-1;
const S2: f32 = 8.332_161e-3;
const S3: f32 = -1.951_529_6e-4;

const C1: f32 = 4.166_664_6e-2;
const C2: f32 = -1.388_731_6e-3;
const C3: f32 = 2.443_315_7e-5;

/// Returns (sin, cos) of an angle of at most [`LIMIT`] in magnitude.
#[inline(always)]
pub(super) fn sin_cos(angle: f32) -> (f32, f32) {
    let shifted = angle * std::f32::consts::FRAC_2_PI + ROUND;
    let quarter_bits = shifted.to_bits();
    let quarter_turns = shifted - ROUND;
    let x = ((angle - quarter_turns * HALF_PI_1) - quarter_turns * HALF_PI_2) - quarter_turns * HALF_PI_3;

    let (sin, cos) = sin_cos_small(x);
    let odd = quarter_bits & 1 == 1;
    let (sin, cos) = if odd { (cos, sin) } else { (sin, cos) };
    let sin_sign = (quarter_bits & 2) << 30;
    let cos_sign = (quarter_bits.wrapping_add(1) & 2) << 30;
    (f32::from_bits(sin.to_bits() ^ sin_sign), f32::from_bits(cos.to_bits() ^ cos_sign))
}

/// Returns (sin, cos) of an angle up to pi/4: the result of [`sin_cos`] if there is nothing to
/// reduce.
#[inline(always)]
pub(super) fn sin_cos_small(x: f32) -> (f32, f32) {
    let z = x * x;
    let sin = x + x * (z * (S1 + z * (S2 + z * S3)));
    let cos = (1.0 - 0.5 * z) + (z * z) * (C1 + z * (C2 + z * C3));
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Stream;

    #[expect(clippy::cast_possible_truncation, reason = "any float32 will do")]
    fn worst_error(scale: f64) -> f64 {
        let mut stream = Stream::new(1, "angles", 0);
        (0..1_000_000).fold(0.0, |worst: f64, _| {
            let angle = stream.uniform_in(-scale, scale) as f32;
            let (sin, cos) = sin_cos(angle);
            let exact = f64::from(angle).sin_cos();
            worst.max((f64::from(sin) - exact.0).abs()).max((f64::from(cos) - exact.1).abs())
        })
    }

    #[test]
    fn the_error_stays_below_what_the_documentation_states() {
        for (scale, bound) in
            [(1e-3, 1.2e-7), (0.2, 1.2e-7), (0.785, 1.2e-7), (8.0, 1.2e-7), (628.0, 1.2e-7), (8_191.0, 2e-7)]
        {
            let worst = worst_error(scale);
            assert!(worst <= bound, "scale {scale}: {worst}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "any float32 will do")]
    fn small_angles_give_the_same_bits_with_and_without_reduction() {
        let mut stream = Stream::new(2, "angles", 0);
        let angles = (0..100_000).map(|_| stream.uniform_in(-0.785, 0.785) as f32);
        for angle in angles.chain([0.0, -0.0]) {
            let (small, reduced) = (sin_cos_small(angle), sin_cos(angle));
            assert_eq!(small.0.to_bits(), reduced.0.to_bits(), "sin {angle}");
            assert_eq!(small.1.to_bits(), reduced.1.to_bits(), "cos {angle}");
        }
    }
}
