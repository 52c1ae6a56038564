//! A deterministic policy.

use candle_core::{Device, Tensor};
use rlox_core::error::check_len;
use rlox_core::{Layout, Result};
use rlox_nn::cpu::{Activation, Mlp};
use rlox_nn::traits::DeterministicPolicy;

use crate::error::internal;
use crate::net::{Leaves, Net, copy};

/// The tanh of a network with one flat vector of parameters, computed by Candle.
#[derive(Debug, Clone)]
pub struct CandleDeterministic {
    net: Net,
    len: usize,
}

impl CandleDeterministic {
    /// Makes the network of these `sizes`, which include inputs and outputs. `layout` has its
    /// parameters under `prefix`.
    ///
    /// # Errors
    /// Same as [`Mlp::new`].
    pub fn new(
        layout: &Layout,
        prefix: &str,
        sizes: &[usize],
        activation: Activation,
    ) -> Result<Self> {
        Mlp::new(layout, prefix, sizes, activation)?;
        Ok(Self { net: Net::new(layout, prefix, sizes, activation)?, len: layout.len() })
    }

    fn tensor(&self, parameters: &[f32], obs: &[f32], learn: bool) -> Result<(Leaves, Tensor)> {
        let places = self.net.places.iter().flatten();
        let leaves = Leaves::new((parameters, self.len), places, learn)?;
        let outputs = self.net.forward(&leaves, &self.net.rows(obs)?);
        let actions = outputs.and_then(|outputs| outputs.tanh()).map_err(internal)?;
        Ok((leaves, actions))
    }
}

impl DeterministicPolicy for CandleDeterministic {
    fn actions(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        copy("actions", &self.tensor(parameters, obs, false)?.1, out)
    }

    fn gradient(
        &self,
        parameters: &[f32],
        obs: &[f32],
        to_actions: &[f32],
        gradient: &mut [f32],
    ) -> Result<()> {
        let (leaves, actions) = self.tensor(parameters, obs, true)?;
        let (len, why) = (actions.elem_count(), "as the actions");
        check_len("gradient of the actions", to_actions.len(), len, why)?;
        let store = || {
            let slopes = Tensor::from_slice(to_actions, actions.dims(), &Device::Cpu)?;
            (&actions * slopes)?.sum_all()?.backward()
        };
        leaves.gradient(&store().map_err(internal)?, gradient)
    }
}
