//! What Python passes in, as Rust takes it.

pub(crate) mod arg;
pub(crate) mod coerce;
pub(crate) mod masked;
pub(crate) mod paths;
pub(crate) mod saved;
