//! Errors of Burn as those of rlox.

use std::fmt::Debug;

use rlox_core::Error;

/// Burn panics where shapes do not fit, which is why they are checked before tensors are made; what is left
/// is a tensor that cannot be read.
pub(crate) fn internal(error: impl Debug) -> Error {
    Error::internal(format!("Burn: {error:?}"))
}
