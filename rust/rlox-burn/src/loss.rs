//! PPO's loss as tensors.

use burn_tensor::{Device, Tensor, activation};
use rlox_core::Result;
use rlox_core::error::check_len;
use rlox_nn::cpu::losses::{PpoLoss, PpoTerms, RolloutColumns, Terms};

use crate::net::{choice_tensor, to_number, to_tensor};

/// ln sqrt(2 pi).
const LOG_ROOT_TAU: f64 = 0.918_938_533_204_672_7;

/// The outputs of a policy and a value function for a minibatch, `[n]` each.
pub(crate) struct NetOutputs {
    pub(crate) log_probs: Tensor<1>,
    pub(crate) entropy: Tensor<1>,
    pub(crate) values: Tensor<1>,
}

/// Computes log-probabilities of `actions` `[n]` under the softmax of `logits` `[n, k]`, and
/// entropies.
pub(crate) fn categorical(logits: Tensor<2>, actions: &[i64], device: &Device) -> (Tensor<1>, Tensor<1>) {
    let log_p = activation::log_softmax(logits, 1);
    let log_probs = log_p.clone().gather(1, choice_tensor(actions, device)).squeeze_dim(1);
    let entropy = (log_p.clone().exp() * log_p).sum_dim(1).squeeze_dim(1).neg();
    (log_probs, entropy)
}

/// Computes log-densities of `actions` `[n, k]` under normal distributions with `means` `[n, k]`
/// and standard deviations e^`log_std` `[k]`, and entropies.
pub(crate) fn gaussian(
    means: Tensor<2>,
    log_std: Tensor<1>,
    actions: &[f32],
    device: &Device,
) -> (Tensor<1>, Tensor<1>) {
    let [n, k] = means.dims();
    let scale = log_std.clone().neg().exp().reshape([1, k]);
    let standardized = (to_tensor(actions, device).reshape([n, k]) - means) * scale;
    #[expect(clippy::cast_precision_loss, reason = "a few dimensions")]
    let dim = k as f64;
    let constant = log_std.sum() + dim * LOG_ROOT_TAU;
    let squares = standardized.square().sum_dim(1).squeeze_dim::<1>(1) * -0.5;
    let entropy = (constant.clone() + 0.5 * dim).expand([n]);
    (squares - constant.expand([n]), entropy)
}

/// Computes the loss and its terms.
pub(crate) fn ppo(
    loss: &PpoLoss,
    outputs: NetOutputs,
    collected: RolloutColumns<'_, f32>,
    device: &Device,
) -> Result<(Tensor<1>, PpoTerms)> {
    let [n] = outputs.log_probs.dims();
    for (name, len) in [
        ("collected log_probs", collected.log_probs.len()),
        ("collected values", collected.values.len()),
        ("advantages", collected.advantages.len()),
        ("returns", collected.returns.len()),
    ] {
        check_len(name, len, n, "one for each observation")?;
    }
    let log_ratio = outputs.log_probs.clone() - to_tensor(collected.log_probs, device);
    let ratio = log_ratio.clone().exp();
    let advantages = to_tensor(collected.advantages, device);
    let clipped = ratio.clone().clamp(1.0 - loss.clip_eps, 1.0 + loss.clip_eps);
    let surrogate = (ratio.clone() * advantages.clone()).min_pair(clipped * advantages);
    let policy = surrogate.mean().neg();
    let (old_values, returns) = (to_tensor(collected.values, device), to_tensor(collected.returns, device));
    let value = value_loss(loss, outputs.values, old_values, returns);
    let entropy = outputs.entropy.mean();
    let weights = loss.coefficients;
    let total = policy.clone() + value.clone() * weights.vf_coef - entropy.clone() * weights.ent_coef;
    let ratio_change = ratio - 1.0;
    let is_clipped = ratio_change.clone().abs().greater_scalar(loss.clip_eps).float();
    let terms = PpoTerms {
        terms: Terms {
            policy: to_number(&policy)?,
            value: to_number(&value)?,
            entropy: to_number(&entropy)?,
            total: to_number(&total)?,
        },
        approx_kl: to_number(&(ratio_change - log_ratio).mean())?,
        clip_fraction: to_number(&is_clipped.mean())?,
    };
    Ok((total, terms))
}

/// Computes E\[(V - R)^2\]. With `clip_vloss`, the larger of two errors counts: that of V, and that
/// of V clipped to within `clip_eps` of its old value.
fn value_loss(loss: &PpoLoss, values: Tensor<1>, old_values: Tensor<1>, returns: Tensor<1>) -> Tensor<1> {
    let squared_error = (values.clone() - returns.clone()).square();
    if !loss.clip_vloss {
        return squared_error.mean();
    }
    let clipped_change = (values - old_values.clone()).clamp(-loss.clip_eps, loss.clip_eps);
    squared_error.max_pair((old_values + clipped_change - returns).square()).mean()
}
