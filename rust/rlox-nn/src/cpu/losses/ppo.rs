//! PPO's clipped surrogate loss (Schulman et al. 2017).

use rlox_core::Result;
use rlox_core::math::in_place;

use super::{ActorCriticLoss, Evaluation, RolloutColumns, Slopes, Terms, mean, value};
use crate::cpu::gemm::Number;

/// PPO's loss: E\[-min(r A, clip(r, 1 - e, 1 + e) A)\] + `vf_coef` E\[(V - R)^2\] - `ent_coef`
/// E\[H\] (equation 9), with r = pi(a | o) / `pi_old`(a | o).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PpoLoss {
    /// The weights of the value loss and of the entropy bonus.
    pub coefficients: ActorCriticLoss,
    /// e: ratios are clipped to within this distance of 1.
    pub clip_eps: f64,
    /// Whether a value is learned only within `clip_eps` of its value at collection.
    pub clip_vloss: bool,
}

/// The parts of the loss and measures of the policy's change, as means over the minibatch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PpoTerms {
    /// The parts of the loss.
    pub terms: Terms,
    /// E\[r - 1 - ln r\], the k3 estimate of KL(old || new).
    pub approx_kl: f64,
    /// The fraction of rows with |r - 1| > e.
    pub clip_fraction: f64,
}

impl PpoLoss {
    /// Computes the loss and its gradient. Returns the loss with its parts, and the derivative with
    /// respect to each row's entropy.
    ///
    /// d loss / d log pi = -A r / n where the surrogate is not clipped, else 0.
    ///
    /// # Errors
    /// [`rlox_core::Error::Shape`] for slices of different lengths.
    pub fn gradient<F: Number>(
        &self,
        evaluation: Evaluation<'_, F>,
        batch: RolloutColumns<'_, F>,
        slopes: Slopes<'_, F>,
    ) -> Result<(PpoTerms, F)> {
        let n = evaluation.check(&batch, &slopes)?;
        let Slopes { log_probs: ratios, values: to_values } = slopes;
        let (mut policy, mut kl, mut n_outside) = (0.0, 0.0, 0.0);
        let log_ratios = evaluation.log_probs.iter().zip(batch.log_probs).map(|(&new, &old)| new - old);
        for (ratio, log_ratio) in ratios.iter_mut().zip(log_ratios.clone()) {
            *ratio = log_ratio;
        }
        in_place::exp(ratios);
        let (clip_eps, share) = (F::from_f64(self.clip_eps), F::from_f64(-1.0 / n));
        for ((ratio, log_ratio), &advantage) in ratios.iter_mut().zip(log_ratios).zip(batch.advantages) {
            let clipped = ratio.clip(F::ONE - clip_eps, F::ONE + clip_eps);
            let (surrogate, bound) = (*ratio * advantage, clipped * advantage);
            policy -= if surrogate <= bound { surrogate } else { bound }.to_f64();
            let ratio_change = *ratio - F::ONE;
            kl += (ratio_change - log_ratio).to_f64();
            n_outside += f64::from(ratio_change.abs() > clip_eps);
            *ratio = if surrogate <= bound { share * surrogate } else { F::ZERO };
        }
        let weight = self.coefficients.vf_coef / n;
        let value = if self.clip_vloss {
            let old_values_and_returns = (batch.values, batch.returns);
            value::clipped_squared_error(
                evaluation.values,
                old_values_and_returns,
                clip_eps,
                weight,
                to_values,
            )
        } else {
            value::squared_error(evaluation.values, batch.returns, weight, to_values)
        };
        let terms = self.coefficients.terms((policy / n, value / n, mean(evaluation.entropy)));
        let terms = PpoTerms { terms, approx_kl: kl / n, clip_fraction: n_outside / n };
        Ok((terms, F::from_f64(-self.coefficients.ent_coef / n)))
    }
}
