//! Conversion of Python arguments to Rust values.

pub(crate) mod arg;
pub(crate) mod coerce;
pub(crate) mod masked;
pub(crate) mod paths;
pub(crate) mod saved;
