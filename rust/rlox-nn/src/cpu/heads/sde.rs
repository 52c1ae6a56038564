//! A Gaussian whose variance is a function of the last hidden layer (gSDE).

use rlox_core::error::{Result, check_len};

use super::super::gemm::{Addend, Matrix, Number};
use super::gaussian::LOG_ROOT_TAU;
use super::{HeadMemory, Scores, ToScores};

/// A constant that is added to the variance.
const VARIANCE_EPS: f64 = 1e-6;

/// Computes mean + theta E, where E is std times the row's own noise matrix `[features, dim]`.
pub(super) fn act<F: Number>(means: &[F], features: &[F], log_std: &[F], noise: &[F], actions: &mut [F]) {
    let n = noise.len() / log_std.len().max(1);
    let (dim, width) = (means.len() / n.max(1), features.len() / n.max(1));
    let deviations: Vec<F> = log_std.iter().map(|&log_std| log_std.exp()).collect();
    actions.copy_from_slice(means);
    let rows = features.chunks_exact(width).zip(noise.chunks_exact(log_std.len()));
    for ((features, noise), actions) in rows.zip(actions.chunks_exact_mut(dim)) {
        let lines = noise.chunks_exact(dim).zip(deviations.chunks_exact(dim));
        for (&theta, (noise, deviations)) in features.iter().zip(lines) {
            for ((action, &noise), &deviation) in actions.iter_mut().zip(noise).zip(deviations) {
                *action += theta * (noise * deviation);
            }
        }
    }
}

/// Computes log-densities and entropies of `actions`. Stores (a - mean) / std, std, theta^2 and
/// std_ij^2 in `memory`.
pub(super) fn score<F: Number>(
    means: &[F],
    features: &[F],
    log_std: &[F],
    actions: &[F],
    memory: &mut HeadMemory<F>,
    out: Scores<'_, F>,
) -> Result<()> {
    check_len("actions", actions.len(), means.len(), "one for each observation")?;
    let n = out.log_probs.len();
    let (dim, width) = (means.len() / n.max(1), features.len() / n.max(1));
    let HeadMemory { log_p_or_z: z_scores, deviations, squares: [theta_squared, std_squared, _] } = memory;
    theta_squared.clear();
    theta_squared.extend(features.iter().map(|&x| x * x));
    std_squared.clear();
    std_squared.extend(log_std.iter().map(|&log_std| (log_std + log_std).exp()));
    deviations.resize(means.len(), F::ZERO);
    let product = (Matrix::new(theta_squared, n, width), Matrix::new(std_squared, width, dim));
    F::multiply(product.0, product.1, Addend::Nothing, deviations)?;
    z_scores.resize(means.len(), F::ZERO);
    let (half, constant) = (F::from_f64(0.5), F::from_f64(LOG_ROOT_TAU));
    let rows = means.chunks_exact(dim).zip(actions.chunks_exact(dim));
    let memory_rows = z_scores.chunks_exact_mut(dim).zip(deviations.chunks_exact_mut(dim));
    let out_rows = out.log_probs.iter_mut().zip(out.entropy);
    for (((means, actions), (row_z, deviations)), (log_prob, entropy)) in rows.zip(memory_rows).zip(out_rows)
    {
        (*log_prob, *entropy) = (F::ZERO, F::ZERO);
        let numbers = means.iter().zip(actions).zip(row_z).zip(deviations);
        for (((&mean, &action), z), deviation) in numbers {
            let variance = *deviation + F::from_f64(VARIANCE_EPS);
            let log_std = half * F::from_f64(variance.to_f64().ln());
            *deviation = variance.sqrt();
            *z = (action - mean) / *deviation;
            *log_prob = *log_prob - half * *z * *z - log_std - constant;
            *entropy += log_std + half + constant;
        }
    }
    Ok(())
}

/// Computes the gradient with respect to the means, and adds that for the log deviations to
/// `to_log_std`.
///
/// For s, a row's log std, and z = (a - mean) / std: d log p / ds = z^2 - 1, dH / ds = 1, ds / d
/// variance = 1 / (2 variance), d variance / d `log_std_ij` = 2 theta_i^2 std_ij^2.
pub(super) fn backward<F: Number>(
    memory: &mut HeadMemory<F>,
    features: usize,
    to_scores: ToScores<'_, F>,
    to_means: &mut [F],
    to_log_std: &mut [F],
) -> Result<()> {
    let HeadMemory { log_p_or_z: z_scores, deviations, squares: [theta_squared, std_squared, slopes] } =
        memory;
    let n = to_scores.log_probs.len();
    let dim = z_scores.len() / n.max(1);
    let rows = z_scores.chunks_exact_mut(dim).zip(deviations.chunks_exact(dim));
    for (((row_z, deviations), to_means), &slope) in
        rows.zip(to_means.chunks_exact_mut(dim)).zip(to_scores.log_probs)
    {
        for ((slot, &deviation), to_mean) in row_z.iter_mut().zip(deviations).zip(to_means) {
            *to_mean = slope * *slot / deviation;
            // From here on the slot holds twice the derivative with respect to the variance.
            *slot = (slope * (*slot * *slot - F::ONE) + to_scores.entropy) / (deviation * deviation);
        }
    }
    slopes.resize(std_squared.len(), F::ZERO);
    let theta = Matrix::new(theta_squared, n, features).transposed();
    F::multiply(theta, Matrix::new(z_scores, n, dim), Addend::Nothing, slopes)?;
    for ((sum, &slope), &square) in to_log_std.iter_mut().zip(slopes.iter()).zip(std_squared.iter()) {
        *sum += slope * square;
    }
    Ok(())
}
