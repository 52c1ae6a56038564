//! Trigonometry of a block of angles, for the rules of environments.
//!
//! Every function checks the whole block once and then runs a loop without branches. The result of
//! an angle depends on that angle alone, never on the others of its block.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use super::{BLOCK, Float};

/// Largest magnitude of a small angle. It is so far below pi/4 that rounding never reaches pi/4.
const SMALL: f64 = 0.785;

/// Sine and cosine of up to [`BLOCK`] angles.
#[derive(Debug, Clone, Copy)]
pub struct SinCos<F> {
    /// sin of each angle.
    pub sin: [F; BLOCK],
    /// cos of each angle.
    pub cos: [F; BLOCK],
}

impl<F: Float> SinCos<F> {
    /// Returns sine and cosine of the first [`BLOCK`] `angles`; entries without an angle are 0. NaN
    /// and infinity give NaN.
    #[inline(always)]
    #[must_use]
    pub fn of(angles: &[F]) -> Self {
        if all_within(angles, F::from_f64(SMALL)) {
            Self::map_angles(angles, F::sin_cos_small)
        } else if all_within(angles, F::LIMIT) {
            Self::map_angles(angles, F::sin_cos_reduced)
        } else {
            Self::map_angles(angles, sin_cos_any)
        }
    }

    #[inline(always)]
    fn map_angles(angles: &[F], sin_cos: impl Fn(F) -> (F, F)) -> Self {
        let mut out = Self { sin: [F::default(); BLOCK], cos: [F::default(); BLOCK] };
        for ((&angle, sin), cos) in angles.iter().zip(&mut out.sin).zip(&mut out.cos) {
            (*sin, *cos) = sin_cos(angle);
        }
        out
    }
}

/// Moves every angle by whole turns into [-pi, pi]. Angles in that range do not change.
#[inline(always)]
pub fn wrap<F: Float>(angles: &mut [F]) {
    if all_within(angles, F::LIMIT) {
        for angle in angles {
            *angle = wrap_reduced(*angle);
        }
    } else {
        for angle in angles {
            *angle = wrap_any(*angle);
        }
    }
}

/// Returns true if every |value| is at most `bound`; false for NaN.
#[inline(always)]
fn all_within<F: Float>(values: &[F], bound: F) -> bool {
    values.iter().fold(true, |all, value| all & (value.abs() <= bound))
}

fn sin_cos_any<F: Float>(angle: F) -> (F, F) {
    if angle.abs() <= F::LIMIT { angle.sin_cos_reduced() } else { angle.sin_cos_slow() }
}

#[inline(always)]
fn wrap_reduced<F: Float>(angle: F) -> F {
    let turns = (angle * F::from_f64(1.0 / std::f64::consts::TAU)).nearest();
    let (pi, tau) = (F::from_f64(std::f64::consts::PI), F::from_f64(std::f64::consts::TAU));
    let reduced = angle.subtract_turns(turns);
    // Next to pi the rounded quotient may be wrong by one turn.
    let reduced = if reduced > pi { reduced - tau } else { reduced };
    if reduced < -pi { reduced + tau } else { reduced }
}

fn wrap_any<F: Float>(angle: F) -> F {
    let (pi, tau) = (F::from_f64(std::f64::consts::PI), F::from_f64(std::f64::consts::TAU));
    if angle.abs() <= F::LIMIT { wrap_reduced(angle) } else { (angle + pi).remainder(tau) - pi }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn the_result_of_an_angle_does_not_depend_on_the_others_of_its_block() {
        let alone = |angle: f64| {
            let got = SinCos::of(&[angle]);
            (got.sin[0], got.cos[0])
        };
        let mixed = [0.3, 5.0, -123.456, 3e9, -1e300, -0.7, 0.99e6, f64::NAN];
        let together = SinCos::of(&mixed);
        let mut wrapped = mixed;
        wrap(&mut wrapped);
        for (i, &angle) in mixed.iter().enumerate().take(7) {
            assert_eq!((together.sin[i], together.cos[i]), alone(angle), "{angle}");
            let mut single = [angle];
            wrap(&mut single);
            assert_eq!(single[0], wrapped[i], "{angle}");
            assert!(single[0].abs() <= std::f64::consts::PI);
        }
        assert!(together.sin[7].is_nan() && wrapped[7].is_nan());
    }

    #[test]
    fn angles_beyond_the_limit_use_the_standard_library() {
        let got = SinCos::of(&[3e9, -1e300]);
        assert_eq!((got.sin[0], got.cos[1]), (3e9_f64.sin(), (-1e300_f64).cos()));
    }

    #[test]
    fn wrapping_keeps_what_is_inside_and_removes_whole_turns_elsewhere() {
        use std::f64::consts::{PI, TAU};
        let inside = [PI, -PI, 0.0, 3.0, -3.1];
        let mut wrapped = inside;
        wrap(&mut wrapped);
        assert_eq!(wrapped, inside);
        for turns in [-40.0, -1.0, 1.0, 2.0, 1000.0] {
            for angle in [0.1, -0.1, 3.1, -3.1] {
                let mut moved = [angle + turns * TAU];
                wrap(&mut moved);
                assert!((moved[0] - angle).abs() < 1e-12, "{angle} + {turns} turns");
            }
        }
    }
}
