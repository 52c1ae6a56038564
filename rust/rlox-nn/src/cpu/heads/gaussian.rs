//! A diagonal Gaussian with the same deviations for all rows.

use rlox_core::error::{Result, check_len};

use super::super::gemm::Number;
use super::{Scores, ToScores};

/// ln sqrt(2 pi).
pub(super) const LOG_ROOT_TAU: f64 = 0.918_938_533_204_672_7;

/// Computes mean + std * noise.
pub(super) fn act<F: Number>(means: &[F], log_std: &[F], noise: &[F], actions: &mut [F]) {
    let dim = log_std.len();
    let deviations: Vec<F> = log_std.iter().map(|&log_std| log_std.exp()).collect();
    let rows = means.chunks_exact(dim).zip(noise.chunks_exact(dim));
    for ((means, noise), actions) in rows.zip(actions.chunks_exact_mut(dim)) {
        let numbers = means.iter().zip(noise).zip(&deviations).zip(actions);
        for (((&mean, &noise), &deviation), action) in numbers {
            *action = mean + noise * deviation;
        }
    }
}

/// Computes log-densities and entropies of `actions`, and the z-scores (a - mean) / std.
pub(super) fn score<F: Number>(
    means: &[F],
    log_std: &[F],
    actions: &[F],
    z_scores: &mut Vec<F>,
    out: Scores<'_, F>,
) -> Result<()> {
    check_len("actions", actions.len(), means.len(), "one for each observation")?;
    let (half, dim) = (F::from_f64(0.5), log_std.len());
    let constant = log_std.iter().fold(F::ZERO, |sum, &value| sum + value + F::from_f64(LOG_ROOT_TAU));
    let inverse_std: Vec<F> = log_std.iter().map(|&log_std| (-log_std).exp()).collect();
    z_scores.resize(means.len(), F::ZERO);
    let rows = means.chunks_exact(dim).zip(actions.chunks_exact(dim));
    for (((means, actions), row_z), log_prob) in rows.zip(z_scores.chunks_exact_mut(dim)).zip(out.log_probs) {
        let mut squares = F::ZERO;
        for (((&mean, &action), z), &per_std) in means.iter().zip(actions).zip(row_z).zip(&inverse_std) {
            *z = (action - mean) * per_std;
            squares += *z * *z;
        }
        *log_prob = -half * squares - constant;
    }
    #[expect(clippy::cast_precision_loss, reason = "a few dimensions")]
    out.entropy.fill(constant + half * F::from_f64(dim as f64));
    Ok(())
}

/// Computes the gradient with respect to the means, and adds that for `log_std` to `to_log_std`.
///
/// With the z-score z = (a - mean) / std: d log p / d mean = z / std, d log p / d `log_std` = z^2 - 1,
/// dH / d `log_std` = 1.
pub(super) fn backward<F: Number>(
    z_scores: &[F],
    log_std: &[F],
    to_scores: ToScores<'_, F>,
    to_means: &mut [F],
    to_log_std: &mut [F],
) {
    let dim = log_std.len();
    let inverse_std: Vec<F> = log_std.iter().map(|&log_std| (-log_std).exp()).collect();
    let rows = z_scores.chunks_exact(dim).zip(to_means.chunks_exact_mut(dim));
    for ((row_z, to_means), &slope) in rows.zip(to_scores.log_probs) {
        let numbers = row_z.iter().zip(to_means).zip(to_log_std.iter_mut()).zip(&inverse_std);
        for (((&z, to_mean), to_log_std), &per_std) in numbers {
            *to_mean = slope * z * per_std;
            *to_log_std += slope * (z * z - F::ONE) + to_scores.entropy;
        }
    }
}
