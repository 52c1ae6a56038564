//! Conversion of Candle's errors to rlox's.

use rlox_core::Error;

/// Converts an error of Candle, which means a bug of this crate.
///
/// This crate checks shapes before it makes tensors.
pub(crate) fn to_internal_error(error: candle_core::Error) -> Error {
    Error::internal(format!("Candle: {error}"))
}
