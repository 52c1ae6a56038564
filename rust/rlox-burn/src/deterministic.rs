//! A deterministic policy.

use burn_tensor::Tensor;
use rlox_core::error::check_len;
use rlox_core::{Layout, Result};
use rlox_nn::cpu::{Activation, Mlp};
use rlox_nn::traits::DeterministicPolicy;

use crate::net::{Leaves, Net, copy_numbers, to_tensor};

/// A policy whose action is the tanh of a network's output, computed by Burn. The network's
/// parameters are one flat vector.
#[derive(Debug, Clone)]
pub struct BurnDeterministic {
    net: Net,
    n_parameters: usize,
}

impl BurnDeterministic {
    /// Makes the network. `sizes` are the widths of its layers, from the input to the output.
    /// `layout` has its parameters under `prefix`.
    ///
    /// # Errors
    /// Same as [`Mlp::new`].
    pub fn new(layout: &Layout, prefix: &str, sizes: &[usize], activation: Activation) -> Result<Self> {
        Mlp::new(layout, prefix, sizes, activation)?; // checks the arguments
        Ok(Self { net: Net::new(layout, prefix, sizes, activation)?, n_parameters: layout.len() })
    }

    fn compute_actions(
        &self,
        parameters: &[f32],
        obs: &[f32],
        needs_gradient: bool,
    ) -> Result<(Leaves, Tensor<2>)> {
        let arrays = self.net.layers.iter().flatten();
        let leaves = Leaves::new((parameters, self.n_parameters), arrays, needs_gradient)?;
        self.net.n_rows(obs)?; // checks the length
        let actions = self.net.forward(&leaves, obs)?.tanh();
        Ok((leaves, actions))
    }
}

impl DeterministicPolicy for BurnDeterministic {
    fn actions(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        copy_numbers("actions", self.compute_actions(parameters, obs, false)?.1, out)
    }

    fn gradient(
        &self,
        parameters: &[f32],
        obs: &[f32],
        action_gradient: &[f32],
        gradient: &mut [f32],
    ) -> Result<()> {
        let (leaves, actions) = self.compute_actions(parameters, obs, true)?;
        let [n, k] = actions.dims();
        check_len("gradient of the actions", action_gradient.len(), n * k, "as the actions")?;
        let gradient_tensor = to_tensor(action_gradient, &leaves.device).reshape([n, k]);
        leaves.write_gradient((actions * gradient_tensor).sum().backward(), gradient)
    }
}
