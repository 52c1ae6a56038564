//! Named random streams: a draw depends on (run seed, stream name, index, position) and nothing
//! else.
//!
//! A stream is a `ChaCha8` generator whose key comes from seed, name and index. So a new stream
//! never shifts another one, and the draws of a worker do not depend on the process that runs it.
//! The position is a number that can be saved.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use crate::math::{self, Float};

/// FNV-1a, 128 bits: offset basis and prime (<http://www.isthe.com/chongo/tech/comp/fnv/>).
const FNV_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// One unit in the last place of a uniform number in [0, 1): 2^-53.
const UNIT: f64 = 1.0 / 9_007_199_254_740_992.0;

/// Number of normal numbers that [`Stream::fill_normal`] draws at once.
const BATCH: usize = 256;

/// A random stream keyed by (run seed, name, index).
#[derive(Debug, Clone)]
pub struct Stream {
    rng: ChaCha8Rng,
}

impl Stream {
    /// Returns stream `name` number `index` of run `run_seed`, at position 0.
    #[must_use]
    pub fn new(run_seed: u64, name: &str, index: u64) -> Self {
        let (mut key, name) = ([0_u8; 32], fnv1a(name));
        #[expect(clippy::cast_possible_truncation, reason = "the halves of the hash")]
        let parts = [run_seed, index, name as u64, (name >> 64) as u64];
        for (slot, part) in key.as_chunks_mut().0.iter_mut().zip(parts) {
            *slot = part.to_le_bytes();
        }
        Self { rng: ChaCha8Rng::from_seed(key) }
    }

    /// Returns the next 64 random bits; advances the position by 2 words.
    pub fn next_u64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Returns the next 32 random bits; advances the position by 1 word.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.rng.next_u32()
    }

    /// Returns a uniform number in [0, 1) with 53 random bits; advances the position by 2 words.
    pub fn uniform(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
        let mantissa = (self.next_u64() >> 11) as f64;
        mantissa * UNIT
    }

    /// Returns a uniform number in [low, high); advances the position by 2 words.
    pub fn uniform_in(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Returns a uniform number in `0..bound`; 0 for a bound of 0.
    ///
    /// For bounds of up to 32 bits the distribution is exact (Lemire 2019, "Fast random integer
    /// generation in an interval", algorithm 5). The position advances by a word, rarely by more.
    /// For larger bounds the number comes from 2 words without rejection, and the bias is below
    /// bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: usize) -> usize {
        let Ok(bound) = u32::try_from(bound) else { return self.below_wide(bound) };
        let mut product = u64::from(self.next_u32()) * u64::from(bound);
        if low(product) < bound {
            product = self.redraw(bound, product);
        }
        (product >> 32) as usize
    }

    /// Draws again until the product lies outside the short interval that makes small numbers
    /// likelier.
    #[cold]
    fn redraw(&mut self, bound: u32, mut product: u64) -> u64 {
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        while low(product) < threshold {
            product = u64::from(self.next_u32()) * u64::from(bound);
        }
        product
    }

    #[expect(clippy::cast_possible_truncation, reason = "the result is below `bound`")]
    fn below_wide(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Shuffles `items`; all orders are equally likely (Fisher and Yates; Durstenfeld 1964).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }

    /// Returns a standard normal number by the cosine branch of the Box-Muller transform; advances
    /// the position by 4 words.
    ///
    /// The sine branch is dropped, so that `n` numbers are the same whether one call or many draw
    /// them.
    pub fn normal(&mut self) -> f64 {
        // 1 - u lies in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Fills `out` with standard normal numbers; each advances the position by 2 words.
    ///
    /// The mapping differs from that of [`Stream::normal`]: it is faster, the same on every
    /// platform, and never changes. A number depends only on its own 2 words, so `n` numbers are
    /// the same whether one call or many draw them, from any position.
    ///
    /// Let m be the upper 52 bits of the draw ([`Stream::next_u64`]) and q = (2 m + 1) / 2^53 -
    /// 1/2. The number is the normal quantile of q + 1/2 by Wichura's algorithm AS 241. Every
    /// operation is rounded to float64, polynomials use Horner's rule, and the logarithm is that of
    /// fdlibm's `e_log.c`. The magnitude is at most 8.21. float32 numbers are the rounded float64
    /// numbers.
    pub fn fill_normal<F: Float>(&mut self, out: &mut [F]) {
        let mut draws = [[0; 8]; BATCH];
        for out in out.chunks_mut(BATCH) {
            let draws = draws.get_mut(..out.len()).unwrap_or_default();
            self.rng.fill_bytes(draws.as_flattened_mut());
            math::fill_normals(draws, out);
        }
    }

    /// Returns the number of 32-bit words drawn so far.
    #[must_use]
    pub fn position(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "2^64 words outlast any run")]
        let position = self.rng.get_word_pos() as u64;
        position
    }

    /// Continues from a saved [`Stream::position`].
    pub fn set_position(&mut self, position: u64) {
        self.rng.set_word_pos(u128::from(position));
    }
}

/// Returns a 63-bit seed for a generator of another library: the first draw of the stream
/// (`run_seed`, `name`, `index`) without its lowest bit.
#[must_use]
pub fn stream_seed(run_seed: u64, name: &str, index: u64) -> u64 {
    Stream::new(run_seed, name, index).next_u64() >> 1
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn low(word: u64) -> u32 {
    word as u32
}

/// Returns the 128-bit FNV-1a hash of a stream name.
fn fnv1a(name: &str) -> u128 {
    name.bytes().fold(FNV_BASIS, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mapping_from_key_to_draws_never_changes() {
        // The numbers come from an independent implementation of ChaCha8 and FNV-1a.
        let first = |seed, name, index| {
            let mut stream = Stream::new(seed, name, index);
            [stream.next_u64(), stream.next_u64(), stream.next_u64()]
        };
        assert_eq!(first(0, "env", 0), [0x918e_d39b_6915_4c94, 0x15f5_e0c0_536c_5b73, 0x6510_742e_b7e6_bcf2]);
        assert_eq!(
            first(42, "env", 7),
            [0xd3d6_7643_e959_3380, 0xc904_0efe_f542_0b84, 0xc6df_859a_1272_7ec0]
        );
        assert_eq!(
            first(u64::MAX, "policy/λ", 3),
            [0x2ad9_572c_747c_b706, 0xe3f6_5012_9f28_8261, 0x9288_011f_05ce_a67d]
        );
        assert_eq!(stream_seed(42, "env", 7), 7_632_259_010_534_349_248);
    }

    #[test]
    fn a_uniform_number_is_the_top_53_bits_of_a_draw() {
        let mut stream = Stream::new(42, "env", 7);
        #[expect(clippy::float_cmp, reason = "the mapping is exact")]
        {
            assert_eq!(stream.uniform(), 0.827_491_180_019_340_7);
        }
        assert_eq!(stream.position(), 2);
    }

    #[test]
    fn streams_differ_by_seed_by_name_and_by_index() {
        let first = |seed, name, index| Stream::new(seed, name, index).next_u64();
        let all = [first(1, "a", 0), first(2, "a", 0), first(1, "b", 0), first(1, "a", 1)];
        for (i, left) in all.iter().enumerate() {
            assert!(all.iter().skip(i + 1).all(|right| left != right));
        }
    }

    #[test]
    fn a_saved_position_continues_the_same_draws() {
        for skipped in [0, 1, 7, 8, 31, 32, 33, 1_000] {
            let mut stream = Stream::new(5, "replay", 1);
            for _ in 0..skipped {
                stream.next_u64();
            }
            let position = stream.position();
            assert_eq!(position, 2 * skipped);
            let expected: Vec<u64> = (0..40).map(|_| stream.next_u64()).collect();
            let mut resumed = Stream::new(5, "replay", 1);
            resumed.set_position(position);
            assert_eq!(resumed.position(), position);
            let got: Vec<u64> = (0..40).map(|_| resumed.next_u64()).collect();
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn uniform_numbers_have_the_mean_and_spread_of_their_interval() {
        let mut stream = Stream::new(3, "moments", 0);
        let draws: Vec<f64> = (0..100_000).map(|_| stream.uniform_in(-2.0, 4.0)).collect();
        assert!(draws.iter().all(|x| (-2.0..4.0).contains(x)));
        let (mean, variance) = moments(&draws);
        assert!((mean - 1.0).abs() < 0.03 && (variance - 3.0).abs() < 0.05);
    }

    #[test]
    fn normal_numbers_have_mean_0_variance_1_and_cost_4_words() {
        let mut stream = Stream::new(3, "moments", 1);
        let draws: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
        assert_eq!(stream.position(), 400_000);
        let (mean, variance) = moments(&draws);
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.03);
        let within_one = draws.iter().filter(|x| x.abs() < 1.0).count();
        assert!((67_500..69_000).contains(&within_one), "{within_one}");
    }

    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    fn moments(draws: &[f64]) -> (f64, f64) {
        let n = draws.len() as f64;
        let mean = draws.iter().sum::<f64>() / n;
        (mean, draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
    }

    #[test]
    fn every_number_below_the_bound_is_equally_likely() {
        for bound in [1, 2, 3, 7, 100] {
            let mut draws = Stream::new(1, "below", bound as u64);
            let mut counts = vec![0_i64; bound];
            (0..100_000).for_each(|_| counts[draws.below(bound)] += 1);
            let expected = 100_000 / i64::try_from(bound).unwrap();
            let worst = counts.iter().map(|count| (count - expected).abs()).max().unwrap();
            assert!(worst * worst < 25 * expected, "{bound}: {worst}");
        }
    }

    #[test]
    fn a_bound_above_32_bits_reaches_its_upper_half() {
        let mut draws = Stream::new(1, "below", 0);
        let bound = 1_usize << 40;
        let draws: Vec<usize> = (0..100).map(|_| draws.below(bound)).collect();
        assert!(draws.iter().all(|&draw| draw < bound));
        assert!((20..80).contains(&draws.iter().filter(|&&draw| draw >= bound / 2).count()));
    }

    #[test]
    fn a_bound_just_above_half_the_range_is_not_biased_to_even_numbers() {
        // Without rejection half of the numbers below 3 * 2^30 would be twice as likely.
        let (mut draws, bound) = (Stream::new(1, "below", 0), 3_usize << 30);
        let thirds = (0..30_000).filter(|_| draws.below(bound) % 3 == 0).count();
        assert!((9_700..10_300).contains(&thirds), "{thirds}");
    }

    #[test]
    fn every_order_of_a_shuffle_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for index in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            Stream::new(1, "shuffle", index).shuffle(&mut items);
            *counts.entry(items).or_insert(0_i32) += 1;
        }
        assert_eq!(counts.len(), 24);
        assert!(counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
