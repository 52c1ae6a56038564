//! Conversion of Burn's errors to rlox's.

use std::fmt::Debug;

use rlox_core::Error;

/// Converts an error of Burn, which means that a tensor cannot be read.
///
/// If shapes do not fit, Burn panics, so this crate checks them before it makes tensors.
pub(crate) fn to_internal_error(error: impl Debug) -> Error {
    Error::internal(format!("Burn: {error:?}"))
}
