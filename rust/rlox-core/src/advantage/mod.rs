//! Advantage estimation. Kernels take float32 or float64.

pub mod gae;
pub mod returns;
mod scan;
mod trajectory;
pub mod vtrace;

use std::ops::BitOr;

use multiversion::multiversion;

use crate::error::{Error, Result};

/// An episode flag: a bool, or a number that is true unless zero.
pub trait Flag: Copy + Send + Sync + 'static {
    /// Returns whether the flag is set.
    fn is_set(self) -> bool;
    /// Returns whether at least one of a few flags is set.
    fn any<const N: usize>(flags: &[Self; N]) -> bool;
    /// Returns the index of the first flag that is NaN. Such a flag is neither set nor unset.
    fn first_nan(_flags: &[Self]) -> Option<usize> {
        None
    }
}

impl Flag for bool {
    fn is_set(self) -> bool {
        self
    }
    fn any<const N: usize>(flags: &[Self; N]) -> bool {
        *flags != [false; N]
    }
}

/// A byte of a bool array from another library, such as NumPy. It is set unless it is 0.
impl Flag for u8 {
    fn is_set(self) -> bool {
        self != 0
    }
    fn any<const N: usize>(flags: &[Self; N]) -> bool {
        *flags != [0; N]
    }
}

macro_rules! float_flag {
    ($($type:ty)+) => { $(impl Flag for $type {
        fn is_set(self) -> bool {
            self != 0.0
        }
        fn any<const N: usize>(flags: &[Self; N]) -> bool {
            // The shift drops the sign bit, so that -0 counts as 0.
            flags.iter().fold(0, |bits, flag| bits | flag.to_bits()) << 1 != 0
        }
        fn first_nan(flags: &[Self]) -> Option<usize> {
            // In a NaN every bit of the exponent is set. So if one of these bits is set in no flag,
            // no flag is NaN. A test of each flag would take several times as long.
            let exponent = Self::INFINITY.to_bits();
            (or_bits(flags, Self::to_bits) & exponent == exponent)
                .then(|| flags.iter().position(|flag| flag.is_nan()))?
        }
    })+ };
}

float_flag! { f32 f64 }

/// Returns the bits that are set in at least one of the flags.
#[multiversion(targets("x86_64+avx2"))]
fn or_bits<T: Copy, B: Copy + Default + BitOr<Output = B>>(flags: &[T], bits: impl Fn(T) -> B) -> B {
    flags.iter().fold(B::default(), |all, &flag| all | bits(flag))
}

/// Where episodes end; both slices have one flag per step.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a, G> {
    /// s_{t+1} is terminal: its value is 0.
    pub terminated: &'a [G],
    /// The episode was cut off after step t; s_{t+1} still has a value.
    pub truncated: &'a [G],
}

impl<'a, G: Flag> Ends<'a, G> {
    /// Treats every end as a termination. The slice is also used as `truncated`, which has no effect
    /// at a terminated step.
    #[must_use]
    pub const fn without_truncation(terminated: &'a [G]) -> Self {
        Self { terminated, truncated: terminated }
    }
}

/// gamma and lambda, both in [0, 1].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Discount {
    gamma: f64,
    lam: f64,
    decay: f64,
}

impl Discount {
    /// Returns the settings after checking their ranges.
    ///
    /// # Errors
    /// [`Error::Config`] unless both are in [0, 1].
    pub fn new(gamma: f64, lam: f64) -> Result<Self> {
        for (name, value) in [("gamma", gamma), ("lam", lam)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::config(name, value, "a number in [0, 1]"));
            }
        }
        Ok(Self { gamma, lam, decay: gamma * lam })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "the same flags in float32")]
    fn the_first_nan_flag_is_found_at_any_index_and_no_other_flag_counts_as_nan() {
        for n in [1, 3, 4, 16, 31, 64, 100] {
            let mut flags = vec![0.0_f64; n];
            let others = [1.0, -0.0, f64::INFINITY, f64::MIN_POSITIVE, -5.0];
            flags.iter_mut().zip(others).for_each(|(flag, other)| *flag = other);
            let to_f32_flags = |flags: &[f64]| flags.iter().map(|&x| x as f32).collect::<Vec<_>>();
            assert_eq!((f64::first_nan(&flags), f32::first_nan(&to_f32_flags(&flags))), (None, None));
            for index in 0..n {
                let mut bad = flags.clone();
                bad.iter_mut().skip(index).for_each(|flag| *flag = -f64::NAN);
                assert_eq!(f64::first_nan(&bad), Some(index));
                assert_eq!(f32::first_nan(&to_f32_flags(&bad)), Some(index));
                let mut plain = [1.0, 0.0].repeat(n);
                assert_eq!(f64::first_nan(&plain), None);
                plain.iter_mut().skip(index).take(1).for_each(|flag| *flag = f64::NAN);
                assert_eq!(f64::first_nan(&plain), Some(index));
                assert_eq!(f32::first_nan(&to_f32_flags(&plain)), Some(index));
            }
        }
    }
}
