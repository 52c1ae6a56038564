//! Sums in a fixed order that vectorises.

/// Number of partial sums: a multiple of the widest vector of float64 in use.
pub(crate) const LANES: usize = 8;

/// Returns the sum of `term(x)`. Lane j adds elements j, j + 8, ... of the whole blocks of 8. The
/// lanes are added pairwise, then the remaining elements one by one.
///
/// Relative to the sum of the magnitudes, the error is below `(n / 8 + 11)` units of rounding.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(crate) fn sum<T: Copy>(values: &[T], term: impl Fn(T) -> f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for (lane, &value) in lanes.iter_mut().zip(block) {
            *lane += term(value);
        }
    }
    let (low, high) = lanes.split_at_mut(LANES / 2);
    for (low, &mut high) in low.iter_mut().zip(high) {
        *low += high;
    }
    let [a, b, c, d, ..] = lanes;
    let lane_total = (a + c) + (b + d);
    rest.iter().fold(lane_total, |sum, &value| sum + term(value))
}
