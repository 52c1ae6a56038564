//! The engine that learns from rollouts: networks over the caller's parameters, and buffers of an
//! update.

use multiversion::multiversion;
use rlox_core::{Error, Layout, Result};

use super::actor_critic::{ActorCritic, ActorCriticMemory};
use super::gemm::Number;
use super::losses::ActorCriticLoss;
use super::mlp::zeros;
use super::rows::Minibatch;

/// Learns the parameters of an [`ActorCritic`] from rollouts. The caller owns the parameters.
#[derive(Debug, Clone)]
pub struct OnPolicyEngine<F> {
    pub(super) net: ActorCritic,
    layout: Layout,
    pub(super) memory: ActorCriticMemory<F>,
    pub(super) gradient: Vec<F>,
    pub(super) batch: Minibatch<F>,
}

impl<F: Number> OnPolicyEngine<F> {
    /// Returns an engine for `net`, whose parameters are at the ranges of `layout`.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no memory for a gradient.
    pub fn new(net: ActorCritic, layout: Layout) -> Result<Self> {
        let (memory, gradient) = (ActorCriticMemory::default(), zeros(layout.len())?);
        Ok(Self { net, layout, memory, gradient, batch: Minibatch::default() })
    }

    /// Returns the networks.
    #[must_use]
    pub const fn net(&self) -> &ActorCritic {
        &self.net
    }

    /// Returns the gradient of the last minibatch's loss, clipped to `max_grad_norm`.
    #[must_use]
    pub fn gradient(&self) -> &[F] {
        &self.gradient
    }

    /// # Errors
    /// [`Error::NonFinite`] with the name of the first parameter that is not finite.
    pub(super) fn check_finite(&self, parameters: &[F]) -> Result<()> {
        check_parameters(&self.layout, parameters)
    }
}

/// # Errors
/// [`Error::NonFinite`] with the name of the first parameter that is not finite.
pub(super) fn check_parameters<F: Number>(layout: &Layout, parameters: &[F]) -> Result<()> {
    // In a healthy run this one pass over the parameters is the only cost.
    if are_finite(parameters) {
        return Ok(());
    }
    for (name, _, range) in layout.arrays() {
        let values = parameters.get(range).unwrap_or_default();
        let non_finite = values.iter().enumerate().find(|(_, value)| !value.to_f64().is_finite());
        if let Some((index, &value)) = non_finite {
            let name = format!("parameter {name}").into();
            return Err(Error::NonFinite { name, index, value: value.to_f64() });
        }
    }
    Ok(())
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn are_finite<F: Number>(values: &[F]) -> bool {
    values.iter().fold(true, |all, value| all & value.to_f64().is_finite())
}

/// # Errors
/// [`Error::NonFinite`] for the first of these numbers that is not finite. The index in the error is
/// the number of the minibatch.
pub(super) fn require_finite<const N: usize>(
    minibatch: usize,
    numbers: [(&'static str, f64); N],
) -> Result<()> {
    let non_finite = numbers.into_iter().find(|(_, value)| !value.is_finite());
    non_finite.map_or(Ok(()), |(name, value)| {
        let name = format!("{name} by minibatch").into();
        Err(Error::NonFinite { name, index: minibatch, value })
    })
}

/// The settings that PPO and A2C share.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommonSettings {
    pub(super) loss: ActorCriticLoss,
    pub(super) learning_rate: f64,
    pub(super) max_grad_norm: Option<f64>,
}

impl CommonSettings {
    /// # Errors
    /// [`Error::Config`] for a setting out of its range.
    pub(super) fn check(&self) -> Result<()> {
        require_step_settings(self.learning_rate, self.max_grad_norm)?;
        require_setting("vf_coef", self.loss.vf_coef, true, "a number")?;
        require_setting("ent_coef", self.loss.ent_coef, true, "a number")
    }
}

/// Checks the learning rate and the limit of the gradient's norm.
///
/// # Errors
/// [`Error::Config`] for a learning rate below 0, and for a limit of the gradient's norm that is not
/// above 0.
pub(super) fn require_step_settings(learning_rate: f64, max_grad_norm: Option<f64>) -> Result<()> {
    require_setting("learning_rate", learning_rate, learning_rate >= 0.0, "at least 0")?;
    let max_norm = max_grad_norm.unwrap_or(1.0);
    require_setting("max_grad_norm", max_norm, max_norm > 0.0, "above 0")
}

/// # Errors
/// [`Error::Config`] unless the setting is finite and its condition holds.
pub(super) fn require_setting(
    name: &'static str,
    value: f64,
    is_in_range: bool,
    expected: &'static str,
) -> Result<()> {
    if value.is_finite() && is_in_range { Ok(()) } else { Err(Error::config(name, value, expected)) }
}
