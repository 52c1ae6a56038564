//! The number of environments in a block.

/// Number of environments whose state is stored together. They are stepped, and their observations
/// and flags are written, while their state is in the first-level cache.
pub const BLOCK: usize = 64;
