//! Traits of networks, for any engine: the engine `cpu` of this crate, or a tensor library.
//!
//! Parameters are one flat float32 vector of the caller, in which a [`rlox_core::Layout`] finds
//! each array by name and shape. Batches and gradients are slices too. So clipping and optimizers
//! ([`crate::cpu::optim`]) are the same for every engine, and a run may change its engine at any
//! time.

mod cpu;

use rlox_core::policy::{ActionsMut, Noise, Policy, PolicyInput, PolicyOutput};
use rlox_core::{Error, Result};

use crate::cpu::losses::{PpoLoss, PpoTerms, RolloutColumns, TdLoss, standardize};
use crate::cpu::optim::{Optimizer, clip};
use crate::cpu::{ActionsTaken, PpoSettings};

/// Rows of a PPO minibatch.
#[derive(Debug, Clone, Copy)]
pub struct Minibatch<'a> {
    /// `[n, obs_dim]`.
    pub obs: &'a [f32],
    /// The actions taken.
    pub actions: ActionsTaken<'a, f32>,
    /// Log-probabilities and values at collection, and the estimated advantages and returns.
    pub rollout: RolloutColumns<'a, f32>,
}

/// Rows from which Q-values of choices are learned; all columns but the first are `[n]`.
#[derive(Debug, Clone, Copy)]
pub struct TdBatch<'a> {
    /// `[n, obs_dim]`.
    pub obs: &'a [f32],
    /// The choices taken.
    pub actions: &'a [i64],
    /// The targets of Q(o, a).
    pub td_targets: &'a [f32],
}

/// A stochastic policy pi(. | o).
pub trait StochasticPolicy: Sync {
    /// Returns the kind and length of the noise of an action.
    fn noise(&self) -> Noise;

    /// Draws actions from the observations and the noise of `input`, and writes log pi(a | o) of each,
    /// `[n]`.
    ///
    /// # Errors
    /// For slices that do not fit, and actions of another kind.
    fn act(
        &self,
        parameters: &[f32],
        input: PolicyInput<'_>,
        actions: ActionsMut<'_>,
        log_probs: &mut [f32],
    ) -> Result<()>;
}

/// A policy and a value function V(o), which PPO trains.
pub trait ActorCritic: StochasticPolicy {
    /// Computes V(o) `[n]` of `obs` `[n, obs_dim]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    fn values(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()>;

    /// Returns the loss of a minibatch, and writes its gradient to `gradient`, which is as long as
    /// `parameters`. The gradient is 0 between arrays. Advantages are used as they are.
    ///
    /// # Errors
    /// For slices that do not fit, and actions that do not exist.
    fn ppo_gradient(
        &self,
        parameters: &[f32],
        batch: Minibatch<'_>,
        loss: &PpoLoss,
        gradient: &mut [f32],
    ) -> Result<PpoTerms>;

    /// Takes one PPO step. Returns the loss and the norm of the gradient before clipping. Returns
    /// None, without a step, if `approx_kl` exceeds 1.5 times `target_kl`.
    ///
    /// # Errors
    /// As [`ActorCritic::ppo_gradient`]; [`Error::Config`] for a setting out of its range,
    /// [`Error::NonFinite`] for a loss or a gradient that is not finite. The parameters do not
    /// change then.
    fn ppo_step(
        &self,
        parameters: &mut [f32],
        optimizer: &mut Optimizer<'_, f32>,
        batch: Minibatch<'_>,
        settings: &PpoSettings,
    ) -> Result<Option<(PpoTerms, f64)>> {
        settings.check()?;
        let mut advantages = batch.rollout.advantages.to_vec();
        if settings.normalize_advantages {
            standardize(&mut advantages);
        }
        let rollout = RolloutColumns { advantages: &advantages, ..batch.rollout };
        let batch = Minibatch { rollout, ..batch };
        let mut gradient = vec![0.0; parameters.len()];
        let ppo_terms = self.ppo_gradient(parameters, batch, &settings.loss, &mut gradient)?;
        require_finite("loss", ppo_terms.terms.total)?;
        require_finite("approx_kl", ppo_terms.approx_kl)?;
        if settings.target_kl.is_some_and(|target| ppo_terms.approx_kl > 1.5 * target) {
            return Ok(None);
        }
        let norm = clip(&mut gradient, settings.max_grad_norm);
        require_finite("gradient norm", norm)?;
        optimizer.step(parameters, &gradient, settings.learning_rate)?;
        Ok(Some((ppo_terms, norm)))
    }
}

/// A function that computes Q(o, a) of every choice.
pub trait QFunction: Sync {
    /// Returns the number of choices.
    fn choices(&self) -> usize;

    /// Computes the Q-values `[n, choices]` of `obs` `[n, obs_dim]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    fn q(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()>;

    /// Returns the mean loss of the choices taken, and writes its gradient to `gradient`, which is
    /// as long as `parameters`.
    ///
    /// # Errors
    /// For slices that do not fit, and choices that do not exist.
    fn td_gradient(
        &self,
        parameters: &[f32],
        batch: TdBatch<'_>,
        loss: TdLoss,
        gradient: &mut [f32],
    ) -> Result<f64>;
}

/// A deterministic policy mu(o), with actions in [-1, 1].
pub trait DeterministicPolicy: Sync {
    /// Computes the actions `[n, action_dim]` at `obs` `[n, obs_dim]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    fn actions(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()>;

    /// Computes the gradient with respect to the parameters from that with respect to the actions,
    /// `[n, action_dim]`. If the latter is the gradient of -Q / n, the result is the deterministic
    /// policy gradient (Silver et al. 2014, theorem 1).
    ///
    /// # Errors
    /// For slices that do not fit.
    fn gradient(
        &self,
        parameters: &[f32],
        obs: &[f32],
        to_actions: &[f32],
        gradient: &mut [f32],
    ) -> Result<()>;
}

/// An [`ActorCritic`] with parameters, as the policy that collects rollouts.
#[derive(Debug, Clone, Copy)]
pub struct BoundPolicy<'a, N> {
    /// The network.
    pub net: &'a N,
    /// Its parameters.
    pub parameters: &'a [f32],
}

impl<N: ActorCritic> Policy for BoundPolicy<'_, N> {
    fn noise(&self) -> Noise {
        self.net.noise()
    }

    fn act(&self, input: PolicyInput<'_>, output: PolicyOutput<'_>) -> Result<()> {
        let PolicyOutput { actions, log_probs, values } = output;
        self.net.act(self.parameters, input, actions, log_probs)?;
        self.net.values(self.parameters, input.obs, values)
    }

    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        self.net.values(self.parameters, obs, out)
    }
}

fn require_finite(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::NonFinite { name: name.into(), index: 0, value })
}
