//! Elementary functions without branches, so that loops over them vectorise, and the trait of the
//! number types.
//!
//! The parameter `FUSED` says whether a function uses fused multiply-add. A loop that is compiled
//! for several kinds of CPU sets it. Unfused code gives the same bits on every CPU; environments,
//! advantages and random numbers use it. Fused polynomials take half the instructions. Their bits
//! are the same on every CPU that has the instruction (x86-64 since 2013, all of aarch64).

mod exp;
mod float;
mod ieee;
pub mod in_place;
pub(crate) mod lanes;
mod log;
mod quantile;
#[cfg(test)]
mod tests;
mod trig;
mod trig_single;

pub(crate) use exp::{ExpParts, exp_parts};
pub use exp::{exp, exp_f32};
pub use float::Float;
pub(crate) use quantile::fill_normals;

/// True if the present version of the enclosing `multiversion` function has fused multiply-add.
macro_rules! fused {
    () => {
        cfg!(target_arch = "aarch64") || multiversion::target::target_cfg_f!(target_feature = "fma")
    };
}

pub(crate) use fused;

/// Returns a b + c, rounded once if `FUSED`.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(crate) fn mul_add<F: Float, const FUSED: bool>(a: F, b: F, c: F) -> F {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}
