//! A Gaussian with means in [-1, 1] and the same deviations for all rows.

use rlox_core::error::Result;

use super::super::gemm::Number;
use super::{Scores, ToScores, gaussian};

/// The range to which log deviations are clipped, as in the authors' code.
const LOG_STD: (f64, f64) = (-5.0, 2.0);

/// Values that the backward pass needs from the scores.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct BoundedMemory<F> {
    /// log p of each row, `[n]`.
    pub(in super::super) log_probs: Vec<F>,
    entropy: Vec<F>,
    /// (a - mean) / std, `[n, dim]`.
    far: Vec<F>,
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
    gaussian::score(means, &cut(log_std), actions, &mut memory.far, out)
}

/// Computes the gradient of the network's outputs before tanh. Adds the gradient of `log_std` where
/// it is not clipped.
pub(in super::super) fn back<F: Number>(
    means: &[F],
    log_std: &[F],
    memory: &BoundedMemory<F>,
    to_log_probs: &[F],
    (to_said, to_log_std): (&mut [F], &mut [F]),
) {
    let to = ToScores { log_probs: to_log_probs, entropy: F::ZERO };
    let mut spread = vec![F::ZERO; log_std.len()];
    gaussian::back(&memory.far, &cut(log_std), to, to_said, &mut spread);
    for (slope, &mean) in to_said.iter_mut().zip(means) {
        *slope = *slope * (F::ONE - mean * mean);
    }
    let (least, most) = (F::from_f64(LOG_STD.0), F::from_f64(LOG_STD.1));
    for ((place, slope), &log_std) in to_log_std.iter_mut().zip(spread).zip(log_std) {
        if log_std >= least && log_std <= most {
            *place += slope;
        }
    }
}

fn cut<F: Number>(log_std: &[F]) -> Vec<F> {
    let (least, most) = (F::from_f64(LOG_STD.0), F::from_f64(LOG_STD.1));
    let cut = |&of: &F| {
        if of < least {
            least
        } else if of > most {
            most
        } else {
            of
        }
    };
    log_std.iter().map(cut).collect()
}
