//! What networks do, whatever computes them: the engine `cpu` of this crate, or a tensor library behind the
//! same traits.
//!
//! Parameters are one flat float32 vector of the caller's, in which a [`rlox_core::Layout`] has each array by
//! name and shape, and batches are slices. So are gradients, which is why clipping and optimizers
//! ([`crate::cpu::optim`]) are the same for every engine, and a run may change engines where it likes.

mod cpu;

use rlox_core::policy::{Acted, ActionsMut, Noise, Policy, Seen};
use rlox_core::{Error, Result};

use crate::cpu::losses::{Collected, Ppo, PpoTerms, TdLoss, standardize};
use crate::cpu::optim::{Optimizer, clip};
use crate::cpu::{Done, PpoSettings};

/// Rows that PPO learns from.
#[derive(Debug, Clone, Copy)]
pub struct Minibatch<'a> {
    /// `[n, obs_dim]`.
    pub obs: &'a [f32],
    /// What was done there.
    pub done: Done<'a, f32>,
    /// What was said of it then, and what was estimated since.
    pub collected: Collected<'a, f32>,
}

/// Rows that values of choices learn from, `[n]` but for the first.
#[derive(Debug, Clone, Copy)]
pub struct Valued<'a> {
    /// `[n, obs_dim]`.
    pub obs: &'a [f32],
    /// What was chosen there.
    pub actions: &'a [i64],
    /// What Q(o, a) is to become.
    pub goals: &'a [f32],
}

/// pi(. | o).
pub trait StochasticPolicy: Sync {
    /// What it needs to act at random.
    fn noise(&self) -> Noise;

    /// Actions for `seen`, and log pi(a | o) of each, `[n]`.
    ///
    /// # Errors
    /// For slices that do not fit, and actions of another kind.
    fn act(
        &self,
        parameters: &[f32],
        seen: Seen<'_>,
        actions: ActionsMut<'_>,
        log_probs: &mut [f32],
    ) -> Result<()>;
}

/// A policy and V(o), which PPO teaches.
pub trait ActorCritic: StochasticPolicy {
    /// V of `obs` `[n, obs_dim]`, `[n]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    fn values(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()>;

    /// The loss of a minibatch, and its gradient in `gradient`, which is as long as `parameters`; what lies
    /// between arrays is 0 there. Advantages are taken as they are.
    ///
    /// # Errors
    /// For slices that do not fit, and actions that are none.
    fn ppo_gradient(
        &self,
        parameters: &[f32],
        batch: Minibatch<'_>,
        loss: &Ppo,
        gradient: &mut [f32],
    ) -> Result<PpoTerms>;

    /// One step of PPO: what the loss was, and the norm of its gradient before that was cut. None, and no step,
    /// where the policy has gone further than `target_kl` allows.
    ///
    /// # Errors
    /// As [`ActorCritic::ppo_gradient`]; [`Error::Config`] for a setting out of its range,
    /// [`Error::NonFinite`] for a loss or a gradient that is no number. Nothing was learned then.
    fn ppo_step(
        &self,
        parameters: &mut [f32],
        optimizer: &mut Optimizer<'_, f32>,
        batch: Minibatch<'_>,
        settings: &PpoSettings,
    ) -> Result<Option<(PpoTerms, f64)>> {
        settings.check()?;
        let mut advantages = batch.collected.advantages.to_vec();
        if settings.normalize_advantages {
            standardize(&mut advantages);
        }
        let collected = Collected { advantages: &advantages, ..batch.collected };
        let batch = Minibatch { collected, ..batch };
        let mut gradient = vec![0.0; parameters.len()];
        let told = self.ppo_gradient(parameters, batch, &settings.loss, &mut gradient)?;
        finite("loss", told.terms.total)?;
        finite("approx_kl", told.approx_kl)?;
        if settings.target_kl.is_some_and(|target| told.approx_kl > 1.5 * target) {
            return Ok(None);
        }
        let norm = clip(&mut gradient, settings.max_grad_norm);
        finite("gradient norm", norm)?;
        optimizer.step(parameters, &gradient, settings.learning_rate)?;
        Ok(Some((told, norm)))
    }
}

/// Q(o, a) of every choice.
pub trait QFunction: Sync {
    /// How many choices.
    fn choices(&self) -> usize;

    /// Q of `obs` `[n, obs_dim]`, `[n, choices]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    fn q(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()>;

    /// The mean loss of what was chosen, and its gradient in `gradient`, which is as long as `parameters`.
    ///
    /// # Errors
    /// For slices that do not fit, and choices that there are not.
    fn td_gradient(
        &self,
        parameters: &[f32],
        batch: Valued<'_>,
        loss: TdLoss,
        gradient: &mut [f32],
    ) -> Result<f64>;
}

/// mu(o), in [-1, 1].
pub trait DeterministicPolicy: Sync {
    /// Actions at `obs` `[n, obs_dim]`, `[n, action_dim]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    fn actions(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()>;

    /// From the gradient of a loss with respect to the actions, `[n, action_dim]`, that with respect to
    /// the parameters, in `gradient`: the deterministic policy gradient where the former is that of -Q / n
    /// (Silver et al. 2014, theorem 1).
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

/// An [`ActorCritic`] with parameters, which rollouts are collected with.
#[derive(Debug, Clone, Copy)]
pub struct Bound<'a, N> {
    /// The network.
    pub net: &'a N,
    /// Its parameters.
    pub parameters: &'a [f32],
}

impl<N: ActorCritic> Policy for Bound<'_, N> {
    fn noise(&self) -> Noise {
        self.net.noise()
    }

    fn act(&self, seen: Seen<'_>, acted: Acted<'_>) -> Result<()> {
        let Acted { actions, log_probs, values } = acted;
        self.net.act(self.parameters, seen, actions, log_probs)?;
        self.net.values(self.parameters, seen.obs, values)
    }

    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        self.net.values(self.parameters, obs, out)
    }
}

fn finite(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::NonFinite { name: name.into(), index: 0, value })
}
