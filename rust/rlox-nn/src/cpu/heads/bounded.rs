//! Normal numbers around means in [-1, 1], all of whose rows have the same deviations.

use rlox_core::error::Result;

use super::super::gemm::Number;
use super::{Scores, ToScores, gaussian};

/// Between which the logarithms of deviations are cut off, as in the authors' code.
const LOG_STD: (f64, f64) = (-5.0, 2.0);

/// Room for what lies between scores and the way back.
#[derive(Debug, Clone, Default)]
pub(in super::super) struct BoundedMemory<F> {
    /// log p of the rows, `[n]`.
    pub(in super::super) log_probs: Vec<F>,
    entropy: Vec<F>,
    /// (a - mean) / std, `[n, dim]`.
    far: Vec<F>,
}

/// Log-densities of `actions`, of `means` that tanh gave.
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

/// The gradient of what the network said before tanh; that of `log_std` is added where it is not cut off.
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
