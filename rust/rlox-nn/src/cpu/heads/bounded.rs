//! A Gaussian with means in [-1, 1] and the same deviations for all rows.

use rlox_core::error::Result;

use super::super::gemm::Number;
use super::{Scores, ToScores, gaussian};

/// The range to which log deviations are clipped, as in the code of IQL's authors.
const LOG_STD_RANGE: (f64, f64) = (-5.0, 2.0);

/// Values that the backward pass needs from the scores.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct BoundedMemory<F> {
    /// log p of each row, `[n]`.
    pub(in super::super) log_probs: Vec<F>,
    entropy: Vec<F>,
    /// (a - mean) / std, `[n, dim]`.
    z_scores: Vec<F>,
}

/// Computes log-densities of `actions`. `means` are outputs of tanh.
pub(in super::super) fn score<F: Number>(
    means: &[F],
    log_std: &[F],
    actions: &[F],
    memory: &mut BoundedMemory<F>,
) -> Result<()> {
    let n = means.len() / log_std.len().max(1);
    memory.log_probs.resize(n, F::ZERO);
    memory.entropy.resize(n, F::ZERO);
    let out = Scores { log_probs: &mut memory.log_probs, entropy: &mut memory.entropy };
    gaussian::score(means, &clip_log_std(log_std), actions, &mut memory.z_scores, out)
}

/// Computes the gradient with respect to the network's outputs before tanh. Where `log_std` is not
/// clipped, adds the gradient with respect to it to `to_log_std`.
pub(in super::super) fn backward<F: Number>(
    means: &[F],
    log_std: &[F],
    memory: &BoundedMemory<F>,
    to_log_probs: &[F],
    (to_outputs, to_log_std): (&mut [F], &mut [F]),
) {
    let to_scores = ToScores { log_probs: to_log_probs, entropy: F::ZERO };
    let mut log_std_gradient = vec![F::ZERO; log_std.len()];
    gaussian::backward(
        &memory.z_scores,
        &clip_log_std(log_std),
        to_scores,
        to_outputs,
        &mut log_std_gradient,
    );
    for (slope, &mean) in to_outputs.iter_mut().zip(means) {
        *slope = *slope * (F::ONE - mean * mean);
    }
    let (low, high) = (F::from_f64(LOG_STD_RANGE.0), F::from_f64(LOG_STD_RANGE.1));
    for ((sum, slope), &log_std) in to_log_std.iter_mut().zip(log_std_gradient).zip(log_std) {
        if log_std >= low && log_std <= high {
            *sum += slope;
        }
    }
}

fn clip_log_std<F: Number>(log_std: &[F]) -> Vec<F> {
    let (low, high) = (F::from_f64(LOG_STD_RANGE.0), F::from_f64(LOG_STD_RANGE.1));
    let clip = |&value: &F| {
        if value < low {
            low
        } else if value > high {
            high
        } else {
            value
        }
    };
    log_std.iter().map(clip).collect()
}
