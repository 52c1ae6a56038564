//! The number of environments in a block.

/// Number of rows whose state is stored together. They are stepped, observed and flagged while they
/// are in the first-level cache.
pub const BLOCK: usize = 64;
