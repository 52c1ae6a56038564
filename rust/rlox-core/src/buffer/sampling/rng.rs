//! Unbiased draws of integers from a named random stream.

use crate::seed::Stream;

/// Name of the random streams of replay draws.
///
/// Draw number i of a buffer, or batch number i of a call with a seed, uses
/// `Stream(seed, "replay", i)`.
pub const STREAM: &str = "replay";

/// The random numbers of one batch.
pub struct SampleRng {
    stream: Stream,
}

impl SampleRng {
    /// Makes the random numbers of batch number `index` of `seed`.
    #[must_use]
    pub fn new(seed: u64, index: u64) -> Self {
        Self { stream: Stream::new(seed, STREAM, index) }
    }

    /// Same as [`Stream::below`].
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        self.stream.below(bound)
    }

    /// Returns a uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.stream.uniform()
    }
}
