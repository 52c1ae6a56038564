//! Losses and their gradients, from the networks' outputs for a minibatch.

mod ppo;
mod td;
mod value;

pub use ppo::{PpoLoss, PpoTerms};
pub use td::{TdLoss, TdTargets};

use rlox_core::Result;
use rlox_core::error::check_len;

use super::gemm::Number;

/// Log-probabilities, entropies and values of a minibatch under the present networks, `[n]` each.
#[derive(Debug, Clone, Copy)]
pub struct Evaluation<'a, F> {
    /// log pi(a | o).
    pub log_probs: &'a [F],
    /// The entropy of pi(. | o).
    pub entropy: &'a [F],
    /// V(o).
    pub values: &'a [F],
}

/// Log-probabilities and values from the time of collection, with the estimated advantages and
/// returns, `[n]` each.
#[derive(Debug, Clone, Copy)]
pub struct RolloutColumns<'a, F> {
    /// log pi(a | o) of the policy that acted.
    pub log_probs: &'a [F],
    /// V(o) when it acted.
    pub values: &'a [F],
    /// The estimated advantages.
    pub advantages: &'a [F],
    /// The targets of V.
    pub returns: &'a [F],
}

/// The gradient of a loss with respect to log-probabilities and values.
#[derive(Debug)]
pub struct Slopes<'a, F> {
    /// `[n]`.
    pub log_probs: &'a mut [F],
    /// `[n]`.
    pub values: &'a mut [F],
}

/// The loss of an advantage actor-critic (Mnih et al. 2016, sec. 4).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActorCriticLoss {
    /// The weight of the value loss.
    pub vf_coef: f64,
    /// The weight of the entropy bonus.
    pub ent_coef: f64,
}

/// The parts of a loss, as means over the minibatch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Terms {
    /// -E\[log pi(a | o) A\], or the clipped surrogate.
    pub policy: f64,
    /// E\[(V - R)^2\].
    pub value: f64,
    /// E\[H\].
    pub entropy: f64,
    /// The total loss.
    pub total: f64,
}

impl ActorCriticLoss {
    /// Computes -E\[log pi(a | o) A\] + `vf_coef` E\[(V - R)^2\] - `ent_coef` E\[H\] and its
    /// gradient. Returns the loss with its parts, and the derivative with respect to each row's
    /// entropy.
    ///
    /// # Errors
    /// [`rlox_core::Error::Shape`] for slices of different lengths.
    pub fn gradient<F: Number>(
        &self,
        evaluation: Evaluation<'_, F>,
        batch: RolloutColumns<'_, F>,
        slopes: Slopes<'_, F>,
    ) -> Result<(Terms, F)> {
        let n = evaluation.check(&batch, &slopes)?;
        let share = F::from_f64(-1.0 / n);
        let rows = evaluation.log_probs.iter().zip(batch.advantages).zip(slopes.log_probs);
        let mut policy = 0.0;
        for ((&log_prob, &advantage), slope) in rows {
            policy -= (log_prob * advantage).to_f64();
            *slope = share * advantage;
        }
        let value = value::squared_error(evaluation.values, batch.returns, self.vf_coef / n, slopes.values);
        let parts = (policy / n, value / n, mean(evaluation.entropy));
        Ok((self.terms(parts), F::from_f64(-self.ent_coef / n)))
    }

    /// Returns the parts of a loss and their weighted sum.
    fn terms(&self, (policy, value, entropy): (f64, f64, f64)) -> Terms {
        let total = policy + self.vf_coef * value - self.ent_coef * entropy;
        Terms { policy, value, entropy, total }
    }
}

impl<F: Number> Evaluation<'_, F> {
    /// Returns the number of rows.
    ///
    /// # Errors
    /// [`rlox_core::Error::Shape`] for slices of different lengths.
    fn check(&self, batch: &RolloutColumns<'_, F>, slopes: &Slopes<'_, F>) -> Result<f64> {
        let n = self.log_probs.len();
        for (name, len) in [
            ("entropy", self.entropy.len()),
            ("values", self.values.len()),
            ("collected log_probs", batch.log_probs.len()),
            ("collected values", batch.values.len()),
            ("advantages", batch.advantages.len()),
            ("returns", batch.returns.len()),
            ("gradient of log_probs", slopes.log_probs.len()),
            ("gradient of values", slopes.values.len()),
        ] {
            check_len(name, len, n, "as log_probs")?;
        }
        #[expect(clippy::cast_precision_loss, reason = "rows of a minibatch")]
        let n = n as f64;
        Ok(n)
    }
}

/// Returns the mean, computed in float64.
fn mean<F: Number>(values: &[F]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "rows of a minibatch")]
    let n = values.len() as f64;
    values.iter().map(|value| value.to_f64()).sum::<f64>() / n
}

/// Replaces advantages by (A - mean) / (std + 1e-8) as torch does. A single advantage stays as it
/// is.
pub fn standardize<F: Number>(advantages: &mut [F]) {
    if advantages.len() < 2 {
        return;
    }
    let center = mean(advantages);
    let squares = advantages.iter().map(|a| (a.to_f64() - center) * (a.to_f64() - center));
    #[expect(clippy::cast_precision_loss, reason = "rows of a minibatch")]
    let deviation = (squares.sum::<f64>() / (advantages.len() - 1) as f64).sqrt();
    let (center, scale) = (F::from_f64(center), F::from_f64(1.0 / (deviation + 1e-8)));
    for advantage in advantages {
        *advantage = (*advantage - center) * scale;
    }
}
