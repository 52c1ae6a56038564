//! Advantage estimation. Kernels take float32 or float64.

pub mod gae;
pub mod returns;
mod scan;
mod trajectory;
pub mod vtrace;

use crate::error::{Error, Result};

/// An episode flag: a bool, or a number that is true unless zero.
pub trait Flag: Copy + Send + Sync + 'static {
    /// Whether the flag is set.
    fn is_set(self) -> bool;
    /// Whether one of a few flags is set.
    fn any<const N: usize>(flags: &[Self; N]) -> bool;
}

impl Flag for bool {
    fn is_set(self) -> bool {
        self
    }
    fn any<const N: usize>(flags: &[Self; N]) -> bool {
        *flags != [false; N]
    }
}

/// A byte of a foreign bool array: set unless 0.
impl Flag for u8 {
    fn is_set(self) -> bool {
        self != 0
    }
    fn any<const N: usize>(flags: &[Self; N]) -> bool {
        *flags != [0; N]
    }
}

impl Flag for f32 {
    fn is_set(self) -> bool {
        self != 0.0
    }
    fn any<const N: usize>(flags: &[Self; N]) -> bool {
        // All bits but the sign, so that -0 counts as 0.
        flags.iter().fold(0, |bits, flag| bits | flag.to_bits()) << 1 != 0
    }
}

impl Flag for f64 {
    fn is_set(self) -> bool {
        self != 0.0
    }
    fn any<const N: usize>(flags: &[Self; N]) -> bool {
        // All bits but the sign, so that -0 counts as 0.
        flags.iter().fold(0, |bits, flag| bits | flag.to_bits()) << 1 != 0
    }
}

/// Where episodes end; both slices have one flag per step.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a, G> {
    /// s_{t+1} is terminal: its value is 0.
    pub terminated: &'a [G],
    /// The episode was cut after step t although s_{t+1} has a value.
    pub truncated: &'a [G],
}

impl<'a, G: Flag> Ends<'a, G> {
    /// Every end is a termination: the same slice serves both, since terminated or truncated
    /// cuts the trace and terminated alone stops the bootstrap.
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
    /// Checks the ranges.
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
