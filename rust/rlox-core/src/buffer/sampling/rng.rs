//! Unbiased draws of whole numbers from a named stream.

use crate::seed::Stream;

/// Name of the streams that replay draws come from: draw number i of a buffer, or batch number i
/// of a call with a seed, is `Stream(seed, "replay", i)`.
pub const STREAM: &str = "replay";

/// Draws below a bound.
pub struct SampleRng {
    stream: Stream,
}

impl SampleRng {
    /// Batch number `index` of `seed`.
    #[must_use]
    pub fn new(seed: u64, index: u64) -> Self {
        Self { stream: Stream::new(seed, STREAM, index) }
    }

    /// [`Stream::below`].
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        self.stream.below(bound)
    }

    /// A uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.stream.uniform()
    }
}
