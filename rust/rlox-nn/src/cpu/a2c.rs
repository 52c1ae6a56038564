//! A2C: one step along the gradient of a whole rollout (Mnih et al. 2016).

use rlox_core::Result;

use super::engine::{CommonSettings, OnPolicyEngine, require_finite};
use super::gemm::Number;
use super::losses::{ActorCriticLoss, Evaluation, RolloutColumns, Slopes, Terms, standardize};
use super::optim::{Optimizer, clip};
use super::rows::RolloutRows;

/// Settings of one update. The caller applies schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct A2cSettings {
    /// The loss.
    pub loss: ActorCriticLoss,
    /// The optimizer's step size.
    pub learning_rate: f64,
    /// The global norm to which the gradient is clipped.
    pub max_grad_norm: Option<f64>,
    /// Whether the advantages of the rollout are standardized.
    pub normalize_advantages: bool,
}

/// The result of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct A2cUpdate {
    /// The loss and its terms.
    pub terms: Terms,
    /// The norm of the gradient before clipping.
    pub grad_norm: f64,
}

impl<F: Number> OnPolicyEngine<F> {
    /// Takes one A2C step on the rows of a rollout. The old log-probabilities and values do not
    /// enter the loss.
    ///
    /// # Errors
    /// [`rlox_core::Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`rlox_core::Error::Shape`] for columns of different lengths; [`rlox_core::Error::Config`]
    /// for settings out of range, no rows, and actions that the policy cannot score.
    pub fn a2c(
        &mut self,
        parameters: &mut [F],
        optimizer: &mut Optimizer<'_, F>,
        rows: RolloutRows<'_, F>,
        settings: &A2cSettings,
    ) -> Result<A2cUpdate> {
        let A2cSettings { loss, learning_rate, max_grad_norm, .. } = *settings;
        CommonSettings { loss, learning_rate, max_grad_norm }.check()?;
        optimizer.check()?;
        let n = rows.check()?;
        let Self { net, memory, gradient, batch, .. } = self;
        batch.advantages.clear();
        batch.advantages.extend_from_slice(rows.advantages);
        if settings.normalize_advantages {
            standardize(&mut batch.advantages);
        }
        let RolloutRows { log_probs, values, returns, .. } = rows;
        let rollout = RolloutColumns { log_probs, values, advantages: &batch.advantages, returns };
        let loss = |evaluation: Evaluation<'_, F>, slopes: Slopes<'_, F>| {
            let (loss_terms, to_entropy) = loss.gradient(evaluation, rollout, slopes)?;
            let Terms { policy, value, entropy, total } = loss_terms;
            let parts = [("policy loss", policy), ("value loss", value), ("entropy", entropy)];
            require_finite(0, parts)?;
            require_finite(0, [("loss", total)])?;
            Ok((loss_terms, Some(to_entropy)))
        };
        let obs_and_actions = (rows.obs.get(..n * rows.obs_dim).unwrap_or_default(), rows.actions);
        let terms = net.gradient(parameters, obs_and_actions, memory, loss, gradient)?;
        let grad_norm = clip(gradient, max_grad_norm);
        require_finite(0, [("gradient norm", grad_norm)])?;
        optimizer.step(parameters, gradient, learning_rate)?;
        self.check_finite(parameters)?;
        Ok(A2cUpdate { terms, grad_norm })
    }
}
