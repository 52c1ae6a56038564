//! Unbiased draws of whole numbers from a named stream.

use crate::seed::Stream;

/// Name of the streams that replay draws come from: draw number i of a buffer, or batch number i
/// of a call with a seed, is `Stream(seed, "replay", i)`.
pub const STREAM: &str = "replay";

/// Draws below a bound, 32 random bits at a time where they suffice.
pub struct SampleRng {
    stream: Stream,
}

impl SampleRng {
    /// Batch number `index` of `seed`.
    #[must_use]
    pub fn new(seed: u64, index: u64) -> Self {
        Self { stream: Stream::new(seed, STREAM, index) }
    }

    /// A uniform number in `0..bound`, exactly (Lemire 2019, "Fast random integer generation in an
    /// interval", algorithm 5); 0 for a bound of 0.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        let Ok(bound) = u32::try_from(bound) else { return self.below_wide(bound) };
        let mut product = u64::from(self.stream.next_u32()) * u64::from(bound);
        if low(product) < bound {
            product = self.redraw(bound, product);
        }
        (product >> 32) as usize
    }

    /// Draws until the product lies outside the short interval that makes small numbers likelier.
    #[cold]
    fn redraw(&mut self, bound: u32, mut product: u64) -> u64 {
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        while low(product) < threshold {
            product = u64::from(self.stream.next_u32()) * u64::from(bound);
        }
        product
    }

    /// [`SampleRng::below`] for bounds of more than 32 bits, from 64 bits without rejection: the bias
    /// is below bound / 2^64.
    #[expect(clippy::cast_possible_truncation, reason = "the result is below `bound`")]
    fn below_wide(&mut self, bound: usize) -> usize {
        ((u128::from(self.stream.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A uniform number in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.stream.uniform()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn low(word: u64) -> u32 {
    word as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_bound_is_equally_likely() {
        for bound in [1, 2, 3, 7, 100] {
            let mut draws = SampleRng::new(1, bound as u64);
            let mut counts = vec![0_i64; bound];
            (0..100_000).for_each(|_| counts[draws.below(bound)] += 1);
            let expected = 100_000 / i64::try_from(bound).unwrap();
            let worst = counts.iter().map(|count| (count - expected).abs()).max().unwrap();
            assert!(worst * worst < 25 * expected, "{bound}: {worst}");
        }
    }

    #[test]
    fn a_bound_above_32_bits_reaches_its_upper_half() {
        let mut draws = SampleRng::new(1, 0);
        let bound = 1_usize << 40;
        let draws: Vec<usize> = (0..100).map(|_| draws.below(bound)).collect();
        assert!(draws.iter().all(|&draw| draw < bound));
        assert!((20..80).contains(&draws.iter().filter(|&&draw| draw >= bound / 2).count()));
    }

    #[test]
    fn a_bound_just_above_half_the_range_is_not_biased_to_even_numbers() {
        // Without rejection half of the numbers below 3 * 2^30 would be twice as likely.
        let (mut draws, bound) = (SampleRng::new(1, 0), 3_usize << 30);
        let thirds = (0..30_000).filter(|_| draws.below(bound) % 3 == 0).count();
        assert!((9_700..10_300).contains(&thirds), "{thirds}");
    }
}
