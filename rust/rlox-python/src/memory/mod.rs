//! NumPy's memory as slices: who may use it and where it comes from.

mod claims;
mod pool;
mod shelf;
pub(crate) mod views;
