//! Squared errors of values, and their gradients.

use super::super::gemm::Number;

/// Returns the sum of (V - R)^2, and writes `2 weight` (V - R) as the gradient.
pub(super) fn plain<F: Number>(values: &[F], returns: &[F], weight: f64, to: &mut [F]) -> f64 {
    let (mut sum, twice) = (0.0, F::from_f64(2.0 * weight));
    for ((&value, &goal), to) in values.iter().zip(returns).zip(to) {
        let error = value - goal;
        sum += (error * error).to_f64();
        *to = twice * error;
    }
    sum
}

/// Returns the sum of max((V - R)^2, (V' - R)^2), where V' is V clipped to within `clip_eps` of its
/// old value. Writes the gradient times `weight`. Where V' has the larger error, the gradient is 0
/// unless V' = V.
pub(super) fn clipped<F: Number>(
    values: &[F],
    (before, returns): (&[F], &[F]),
    clip_eps: F,
    weight: f64,
    to: &mut [F],
) -> f64 {
    let (mut sum, twice) = (0.0, F::from_f64(2.0 * weight));
    for (((&value, &before), &goal), to) in values.iter().zip(before).zip(returns).zip(to) {
        let (error, change) = (value - goal, value - before);
        let bounded = change.within(-clip_eps, clip_eps);
        let clipped = before + bounded - goal;
        let (plain, other) = (error * error, clipped * clipped);
        let inside = if change == bounded { clipped } else { F::ZERO };
        *to = twice * if plain >= other { error } else { inside };
        sum += if plain >= other { plain } else { other }.to_f64();
    }
    sum
}
