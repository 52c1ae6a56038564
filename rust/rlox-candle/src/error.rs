//! Conversion of Candle's errors to rlox's.

use rlox_core::Error;

/// Converts an error of Candle. Such an error is a bug of this crate, which checks shapes before it
/// makes tensors.
pub(crate) fn to_internal_error(error: candle_core::Error) -> Error {
    Error::internal(format!("Candle: {error}"))
}
