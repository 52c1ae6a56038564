//! Errors of Candle as those of rlox.

use rlox_core::Error;

/// Shapes are checked before tensors are made, so what Candle refuses is a mistake of this crate.
pub(crate) fn internal(error: candle_core::Error) -> Error {
    Error::internal(format!("Candle: {error}"))
}
