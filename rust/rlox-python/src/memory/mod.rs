//! NumPy's memory as slices: who may use it, and its allocation.

mod claims;
mod pool;
mod shelf;
pub(crate) mod views;
