//! Squared errors of values, and their gradients.

use super::super::gemm::Number;

/// Returns the sum of (V - R)^2, and writes `2 weight` (V - R) as the gradient.
pub(super) fn squared_error<F: Number>(values: &[F], returns: &[F], weight: f64, slopes: &mut [F]) -> f64 {
    let (mut sum, scale) = (0.0, F::from_f64(2.0 * weight));
    for ((&value, &target), slope) in values.iter().zip(returns).zip(slopes) {
        let error = value - target;
        sum += (error * error).to_f64();
        *slope = scale * error;
    }
    sum
}

/// Returns the sum of max((V - R)^2, (V' - R)^2), where V' is V clipped to within `clip_eps` of its
/// old value. Writes the gradient times `weight`. Where V' has the larger error, the gradient is 0
/// unless V' = V.
pub(super) fn clipped_squared_error<F: Number>(
    values: &[F],
    (old_values, returns): (&[F], &[F]),
    clip_eps: F,
    weight: f64,
    slopes: &mut [F],
) -> f64 {
    let (mut sum, scale) = (0.0, F::from_f64(2.0 * weight));
    for (((&value, &old_value), &target), slope) in values.iter().zip(old_values).zip(returns).zip(slopes) {
        let (error, change) = (value - target, value - old_value);
        let bounded = change.clip(-clip_eps, clip_eps);
        let clipped_error = old_value + bounded - target;
        let (squared, clipped_squared) = (error * error, clipped_error * clipped_error);
        let inside = if change == bounded { clipped_error } else { F::ZERO };
        *slope = scale * if squared >= clipped_squared { error } else { inside };
        sum += if squared >= clipped_squared { squared } else { clipped_squared }.to_f64();
    }
    sum
}
