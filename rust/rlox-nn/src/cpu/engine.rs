//! What learns from rollouts: networks over parameters of the caller, and room for an update.

use rlox_core::{Error, Layout, Result};

use super::actor_critic::{ActorCritic, ActorCriticMemory};
use super::gemm::Number;
use super::rows::Minibatch;

/// Learns the parameters of an [`ActorCritic`], which are the caller's, from rollouts.
#[derive(Debug, Clone)]
pub struct OnPolicyEngine<F> {
    pub(super) net: ActorCritic,
    layout: Layout,
    pub(super) memory: ActorCriticMemory<F>,
    pub(super) gradient: Vec<F>,
    pub(super) batch: Minibatch<F>,
}

impl<F: Number> OnPolicyEngine<F> {
    /// An engine for `net`, whose parameters lie as `layout` says.
    #[must_use]
    pub fn new(net: ActorCritic, layout: Layout) -> Self {
        let (memory, gradient) = (ActorCriticMemory::default(), vec![F::ZERO; layout.len()]);
        Self { net, layout, memory, gradient, batch: Minibatch::default() }
    }

    /// The networks.
    #[must_use]
    pub const fn net(&self) -> &ActorCritic {
        &self.net
    }

    /// That of the last minibatch's loss, cut to `max_grad_norm`.
    #[must_use]
    pub fn gradient(&self) -> &[F] {
        &self.gradient
    }

    /// # Errors
    /// [`Error::NonFinite`] with the name of the first parameter that is no number.
    pub(super) fn check_finite(&self, parameters: &[F]) -> Result<()> {
        // One look at all of them is what a healthy run pays.
        if parameters.iter().fold(true, |all, value| all & value.to_f64().is_finite()) {
            return Ok(());
        }
        for (name, _, range) in self.layout.arrays() {
            let values = parameters.get(range).unwrap_or_default();
            let found = values.iter().enumerate().find(|(_, value)| !value.to_f64().is_finite());
            if let Some((index, &value)) = found {
                let name = format!("parameter {name}").into();
                return Err(Error::NonFinite { name, index, value: value.to_f64() });
            }
        }
        Ok(())
    }
}

/// # Errors
/// [`Error::NonFinite`] for a number of an update that is none.
pub(super) fn finite(name: &'static str, value: f64) -> Result<()> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Error::NonFinite { name: name.into(), index: 0, value })
}
