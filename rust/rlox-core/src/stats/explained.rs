//! How much of what came values had foreseen.

use crate::error::{Result, check_len};
use crate::math::Float;

/// 1 - Var(R - V) / Var(R) of values V and returns R: 1 where V says all of R, 0 where it says no more than
/// their mean, and where R does not vary (or is empty). Sums are of float64.
///
/// # Errors
/// [`crate::Error::Shape`] unless there are as many of both.
pub fn explained_variance<F: Float>(values: &[F], returns: &[F]) -> Result<f64> {
    check_len("returns", returns.len(), values.len(), "one for each value")?;
    let all = variance(returns.iter().map(|target| target.to_f64()));
    // A mean that was rounded leaves something of numbers that are all the same.
    if all == 0.0 || returns.windows(2).all(|pair| pair.first() == pair.last()) {
        return Ok(0.0);
    }
    let pairs = returns.iter().zip(values);
    let left = variance(pairs.map(|(target, value)| target.to_f64() - value.to_f64()));
    Ok(1.0 - left / all)
}

/// The mean square of what is left without the mean; 0 of nothing.
fn variance(numbers: impl ExactSizeIterator<Item = f64> + Clone) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "rows of a rollout")]
    let n = numbers.len().max(1) as f64;
    let mean = numbers.clone().sum::<f64>() / n;
    numbers.map(|number| (number - mean).powi(2)).sum::<f64>() / n
}
