//! The explained variance of value estimates.

use crate::error::{Result, check_len};
use crate::math::Float;

/// Returns 1 - Var(R - V) / Var(R) of values V and returns R. The result is 1 if V predicts all of
/// R, and 0 if it predicts no more than the mean of R. It is also 0 if R does not vary or is empty.
/// Sums are in float64.
///
/// # Errors
/// [`crate::Error::Shape`] unless there are as many returns as values.
pub fn explained_variance<F: Float>(values: &[F], returns: &[F]) -> Result<f64> {
    check_len("returns", returns.len(), values.len(), "one for each value")?;
    let total_variance = variance(returns.iter().map(|target| target.to_f64()));
    // A rounded mean leaves a variance above 0 even if all numbers are equal.
    if total_variance == 0.0 || returns.windows(2).all(|pair| pair.first() == pair.last()) {
        return Ok(0.0);
    }
    let pairs = returns.iter().zip(values);
    let residual_variance = variance(pairs.map(|(target, value)| target.to_f64() - value.to_f64()));
    Ok(1.0 - residual_variance / total_variance)
}

/// Returns the population variance; 0 for no numbers.
fn variance(numbers: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "rows of a rollout")]
    let n = numbers.len().max(1) as f64;
    let mean = numbers.clone().sum::<f64>() / n;
    numbers.map(|number| (number - mean).powi(2)).sum::<f64>() / n
}
