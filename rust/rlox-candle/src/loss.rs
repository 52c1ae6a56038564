//! PPO's loss as tensors.

use candle_core::{D, Device, Result as CandleResult, Tensor};
use rlox_core::Result;
use rlox_core::error::check_len;
use rlox_nn::cpu::losses::{PpoLoss, PpoTerms, RolloutColumns, Terms};

use crate::error::to_internal_error;

/// ln sqrt(2 pi).
const LOG_ROOT_TAU: f64 = 0.918_938_533_204_672_7;

/// The outputs of a policy and a value function for a minibatch, `[n]` each.
pub(crate) struct NetOutputs {
    pub(crate) log_probs: Tensor,
    pub(crate) entropy: Tensor,
    pub(crate) values: Tensor,
}

/// Computes log-probabilities of `actions` `[n]` under the softmax of `logits` `[n, k]`, and
/// entropies.
pub(crate) fn categorical(logits: &Tensor, actions: &[i64]) -> CandleResult<(Tensor, Tensor)> {
    // The maximum only keeps e^x in range, so no gradient goes through it.
    let max_logits = logits.max_keepdim(D::Minus1)?.detach();
    let logits = logits.broadcast_sub(&max_logits)?;
    let log_p = logits.broadcast_sub(&logits.exp()?.sum_keepdim(D::Minus1)?.log()?)?;
    let chosen = Tensor::from_slice(actions, (actions.len(), 1), &Device::Cpu)?;
    let log_probs = log_p.gather(&chosen, D::Minus1)?.squeeze(D::Minus1)?;
    let entropy = (log_p.exp()? * &log_p)?.sum(D::Minus1)?.neg()?;
    Ok((log_probs, entropy))
}

/// Computes log-densities of `actions` `[n, k]` under normal distributions with `means` `[n, k]`
/// and standard deviations e^`log_std` `[k]`, and entropies.
pub(crate) fn gaussian(means: &Tensor, log_std: &Tensor, actions: &[f32]) -> CandleResult<(Tensor, Tensor)> {
    let (n, k) = means.dims2()?;
    let actions = Tensor::from_slice(actions, (n, k), &Device::Cpu)?;
    let standardized = (actions - means)?.broadcast_mul(&log_std.neg()?.exp()?)?;
    #[expect(clippy::cast_precision_loss, reason = "a few dimensions")]
    let dim = k as f64;
    let constant = (log_std.sum_all()? + dim * LOG_ROOT_TAU)?;
    let squares = (standardized.sqr()?.sum(D::Minus1)? * -0.5)?;
    let entropy = (&constant + 0.5 * dim)?.broadcast_as(n)?;
    Ok((squares.broadcast_sub(&constant)?, entropy))
}

/// Computes the loss and its terms.
pub(crate) fn ppo(
    loss: &PpoLoss,
    outputs: &NetOutputs,
    collected: RolloutColumns<'_, f32>,
) -> Result<(Tensor, PpoTerms)> {
    let n = outputs.log_probs.elem_count();
    for (name, len) in [
        ("collected log_probs", collected.log_probs.len()),
        ("collected values", collected.values.len()),
        ("advantages", collected.advantages.len()),
        ("returns", collected.returns.len()),
    ] {
        check_len(name, len, n, "one for each observation")?;
    }
    compute_terms(loss, outputs, collected, n).map_err(to_internal_error)
}

fn compute_terms(
    loss: &PpoLoss,
    outputs: &NetOutputs,
    collected: RolloutColumns<'_, f32>,
    n: usize,
) -> CandleResult<(Tensor, PpoTerms)> {
    let to_tensor = |numbers: &[f32]| Tensor::from_slice(numbers, n, &Device::Cpu);
    let log_ratio = (&outputs.log_probs - to_tensor(collected.log_probs)?)?;
    let ratio = log_ratio.exp()?;
    let advantages = to_tensor(collected.advantages)?;
    let clipped = ratio.clamp(1.0 - loss.clip_eps, 1.0 + loss.clip_eps)?;
    let surrogate = (&ratio * &advantages)?.minimum(&(clipped * &advantages)?)?;
    let policy = surrogate.mean_all()?.neg()?;
    let value = value_loss(loss, outputs, to_tensor(collected.values)?, to_tensor(collected.returns)?)?;
    let entropy = outputs.entropy.mean_all()?;
    let weights = loss.coefficients;
    let total = ((&policy + (&value * weights.vf_coef)?)? - (&entropy * weights.ent_coef)?)?;
    let ratio_change = (&ratio - 1.0)?;
    let number = |tensor: &Tensor| CandleResult::Ok(f64::from(tensor.to_scalar::<f32>()?));
    let is_clipped = ratio_change.abs()?.gt(loss.clip_eps)?.to_dtype(candle_core::DType::F32)?;
    let terms = PpoTerms {
        terms: Terms {
            policy: number(&policy)?,
            value: number(&value)?,
            entropy: number(&entropy)?,
            total: number(&total)?,
        },
        approx_kl: number(&(ratio_change - log_ratio)?.mean_all()?)?,
        clip_fraction: number(&is_clipped.mean_all()?)?,
    };
    Ok((total, terms))
}

/// Computes E\[(V - R)^2\]. With `clip_vloss`, the larger of two errors counts: that of V, and that
/// of V clipped to within `clip_eps` of its old value.
fn value_loss(
    loss: &PpoLoss,
    outputs: &NetOutputs,
    old_values: Tensor,
    returns: Tensor,
) -> CandleResult<Tensor> {
    let squared_error = (&outputs.values - &returns)?.sqr()?;
    if !loss.clip_vloss {
        return squared_error.mean_all();
    }
    let clipped_change = (&outputs.values - &old_values)?.clamp(-loss.clip_eps, loss.clip_eps)?;
    let clipped = ((old_values + clipped_change)? - returns)?.sqr()?;
    squared_error.maximum(&clipped)?.mean_all()
}
