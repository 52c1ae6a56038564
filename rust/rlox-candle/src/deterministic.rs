//! A deterministic policy.

use candle_core::{Device, Tensor};
use rlox_core::error::check_len;
use rlox_core::{Layout, Result};
use rlox_nn::cpu::{Activation, Mlp};
use rlox_nn::traits::DeterministicPolicy;

use crate::error::to_internal_error;
use crate::net::{Leaves, Net, copy_numbers};

/// A policy whose action is the tanh of a network's output, computed by Candle. The network's
/// parameters are one flat vector.
#[derive(Debug, Clone)]
pub struct CandleDeterministic {
    net: Net,
    n_parameters: usize,
}

impl CandleDeterministic {
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
    ) -> Result<(Leaves, Tensor)> {
        let arrays = self.net.layers.iter().flatten();
        let leaves = Leaves::new((parameters, self.n_parameters), arrays, needs_gradient)?;
        let outputs = self.net.forward(&leaves, &self.net.obs_tensor(obs)?);
        let actions = outputs.and_then(|outputs| outputs.tanh()).map_err(to_internal_error)?;
        Ok((leaves, actions))
    }
}

impl DeterministicPolicy for CandleDeterministic {
    fn actions(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        copy_numbers("actions", &self.compute_actions(parameters, obs, false)?.1, out)
    }

    fn gradient(
        &self,
        parameters: &[f32],
        obs: &[f32],
        action_gradient: &[f32],
        gradient: &mut [f32],
    ) -> Result<()> {
        let (leaves, actions) = self.compute_actions(parameters, obs, true)?;
        let (len, expected) = (actions.elem_count(), "as the actions");
        check_len("gradient of the actions", action_gradient.len(), len, expected)?;
        let compute_gradients = || {
            let gradient_tensor = Tensor::from_slice(action_gradient, actions.dims(), &Device::Cpu)?;
            (&actions * gradient_tensor)?.sum_all()?.backward()
        };
        leaves.write_gradient(&compute_gradients().map_err(to_internal_error)?, gradient)
    }
}
