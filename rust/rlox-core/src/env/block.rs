//! How many environments lie together.

/// Rows whose state lies together: they are stepped, observed and looked at while they are in
/// the first-level cache.
pub const BLOCK: usize = 64;
