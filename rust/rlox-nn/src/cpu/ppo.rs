//! PPO: learns from a rollout by the clipped surrogate.

use rlox_core::{Error, Result, interrupt};

use super::engine::{CommonSettings, OnPolicyEngine, require_finite, require_setting};
use super::gemm::Number;
use super::losses::{Evaluation, PpoLoss, PpoTerms, RolloutColumns, Slopes, Terms, standardize};
use super::optim::{Optimizer, clip};
use super::rows::RolloutRows;

/// Settings of one update. The caller applies schedules.
#[derive(Debug, Clone, PartialEq)]
pub struct PpoSettings {
    /// The loss.
    pub loss: PpoLoss,
    /// The optimizer's step size.
    pub learning_rate: f64,
    /// The number of epochs, passes over a rollout.
    pub n_epochs: usize,
    /// The rows of a minibatch; the last one of an epoch may have fewer.
    pub batch_size: usize,
    /// The global norm to which the gradient is clipped.
    pub max_grad_norm: Option<f64>,
    /// Whether each minibatch's advantages are standardized.
    pub normalize_advantages: bool,
    /// The update ends at a minibatch whose `approx_kl` is more than 1.5 times this.
    pub target_kl: Option<f64>,
}

/// The result of an update.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct PpoUpdate {
    /// Means over the minibatches.
    pub terms: PpoTerms,
    /// The mean of the gradient norms before clipping.
    pub grad_norm: f64,
    /// The number of complete epochs.
    pub epochs: usize,
    /// The number of optimizer steps.
    pub steps: usize,
    /// The number of rows in all steps.
    pub samples: usize,
}

impl<F: Number> OnPolicyEngine<F> {
    /// Learns from a rollout in `n_epochs` epochs. For each epoch `order` writes the order of the
    /// rows, from which minibatches are taken.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] for columns of different lengths; [`Error::Config`]
    /// for settings out of range, and for an order that is empty or has a row out of range. Earlier
    /// steps keep their effect.
    pub fn ppo(
        &mut self,
        parameters: &mut [F],
        optimizer: &mut Optimizer<'_, F>,
        rows: RolloutRows<'_, F>,
        settings: &PpoSettings,
        mut order: impl FnMut(usize, &mut Vec<usize>),
    ) -> Result<PpoUpdate> {
        settings.check()?;
        optimizer.check()?;
        rows.check()?;
        let (mut order_rows, mut sums) = (Vec::new(), PpoUpdate::default());
        'passes: for pass in 0..settings.n_epochs {
            order(pass, &mut order_rows);
            if order_rows.is_empty() {
                return Err(Error::config("rows of a pass", 0, "at least 1"));
            }
            for indices in order_rows.chunks(settings.batch_size) {
                interrupt::check()?;
                self.batch.gather(rows, indices)?;
                let step = self.step(parameters, optimizer, settings, sums.steps)?;
                let Some((terms, norm)) = step else { break 'passes };
                sums.add(terms, norm, indices.len());
            }
            sums.epochs += 1;
        }
        self.check_finite(parameters)?;
        Ok(sums.into_means())
    }

    /// Takes a step along the gradient of the minibatch. Returns None, without a step, if
    /// `approx_kl` exceeds its limit.
    fn step(
        &mut self,
        parameters: &mut [F],
        optimizer: &mut Optimizer<'_, F>,
        settings: &PpoSettings,
        minibatch: usize,
    ) -> Result<Option<(PpoTerms, f64)>> {
        let Self { net, memory, gradient, batch, .. } = self;
        if settings.normalize_advantages {
            standardize(&mut batch.advantages);
        }
        let max_kl = settings.target_kl.map_or(f64::INFINITY, |target| 1.5 * target);
        let rollout = RolloutColumns {
            log_probs: &batch.log_probs,
            values: &batch.values,
            advantages: &batch.advantages,
            returns: &batch.returns,
        };
        let loss = |evaluation: Evaluation<'_, F>, slopes: Slopes<'_, F>| {
            let (ppo_terms, to_entropy) = settings.loss.gradient(evaluation, rollout, slopes)?;
            let Terms { policy, value, entropy, total } = ppo_terms.terms;
            let parts = [("policy loss", policy), ("value loss", value), ("entropy", entropy)];
            require_finite(minibatch, parts)?;
            require_finite(minibatch, [("loss", total), ("approx_kl", ppo_terms.approx_kl)])?;
            Ok((ppo_terms, (ppo_terms.approx_kl <= max_kl).then_some(to_entropy)))
        };
        let obs_and_actions = (batch.obs.as_slice(), batch.actions());
        let terms = net.gradient(parameters, obs_and_actions, memory, loss, gradient)?;
        if terms.approx_kl > max_kl {
            return Ok(None);
        }
        let norm = clip(gradient, settings.max_grad_norm);
        require_finite(minibatch, [("gradient norm", norm)])?;
        optimizer.step(parameters, gradient, settings.learning_rate)?;
        Ok(Some((terms, norm)))
    }
}

impl PpoSettings {
    /// # Errors
    /// [`Error::Config`] for a setting out of its range.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { learning_rate, max_grad_norm, .. } = *self;
        CommonSettings { loss: self.loss.coefficients, learning_rate, max_grad_norm }.check()?;
        require_setting("clip_eps", self.loss.clip_eps, self.loss.clip_eps >= 0.0, "at least 0")?;
        let target = self.target_kl.unwrap_or(1.0);
        require_setting("target_kl", target, target > 0.0, "above 0")?;
        if self.batch_size == 0 {
            return Err(Error::config("batch_size", 0, "at least 1"));
        }
        Ok(())
    }
}

impl PpoUpdate {
    /// Adds the terms of one minibatch.
    fn add(&mut self, mut terms: PpoTerms, norm: f64, rows: usize) {
        for (sum, term) in numbers(&mut self.terms).into_iter().zip(numbers(&mut terms)) {
            *sum += *term;
        }
        self.grad_norm += norm;
        self.steps += 1;
        self.samples += rows;
    }

    /// Turns sums into means.
    fn into_means(mut self) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "minibatches of a rollout")]
        let n = self.steps.max(1) as f64;
        for sum in numbers(&mut self.terms) {
            *sum /= n;
        }
        self.grad_norm /= n;
        self
    }
}

/// Returns references to all numbers of a loss.
const fn numbers(ppo_terms: &mut PpoTerms) -> [&mut f64; 6] {
    let PpoTerms { terms, approx_kl, clip_fraction } = ppo_terms;
    let Terms { policy, value, entropy, total } = terms;
    [policy, value, entropy, total, approx_kl, clip_fraction]
}
