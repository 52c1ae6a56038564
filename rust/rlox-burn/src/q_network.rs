//! A Q-network over choices.

use burn_tensor::Tensor;
use rlox_core::error::{Error, check_len};
use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::TdLoss;
use rlox_nn::cpu::{QArchitecture, QNetwork};
use rlox_nn::traits::{QFunction, TdBatch};

use crate::actor_critic::check_choices;
use crate::net::{Leaves, Net, choice_tensor, copy_numbers, to_number, to_tensor};

/// Q(o, a) of a network with one flat vector of parameters, computed by Burn.
#[derive(Debug, Clone)]
pub struct BurnQNetwork {
    net: Net,
    n_parameters: usize,
}

impl BurnQNetwork {
    /// Makes the network of this architecture, with parameters as in `layout`.
    ///
    /// # Errors
    /// Same as [`QNetwork::new`]; [`Error::Config`] for dueling streams.
    pub fn new(layout: &Layout, architecture: &QArchitecture) -> Result<Self> {
        QNetwork::new(layout, architecture)?; // checks the arguments
        if architecture.dueling {
            let expected = "false; only the engine cpu has dueling streams";
            return Err(Error::config("dueling", true, expected));
        }
        let sizes =
            [&[architecture.obs_dim], architecture.hidden.as_slice(), &[architecture.choices]].concat();
        Ok(Self { net: Net::new(layout, "q", &sizes, architecture.activation)?, n_parameters: layout.len() })
    }

    fn leaves(&self, parameters: &[f32], needs_gradient: bool) -> Result<Leaves> {
        Leaves::new((parameters, self.n_parameters), self.net.layers.iter().flatten(), needs_gradient)
    }
}

impl QFunction for BurnQNetwork {
    fn choices(&self) -> usize {
        self.net.outputs()
    }

    fn q(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        let leaves = self.leaves(parameters, false)?;
        self.net.n_rows(obs)?; // checks the length
        copy_numbers("q", self.net.forward(&leaves, obs)?, out)
    }

    fn td_gradient(
        &self,
        parameters: &[f32],
        batch: TdBatch<'_>,
        loss: TdLoss,
        gradient: &mut [f32],
    ) -> Result<f64> {
        let leaves = self.leaves(parameters, true)?;
        let n = self.net.n_rows(batch.obs)?;
        check_len("actions", batch.actions.len(), n, "one for each observation")?;
        check_len("TD targets", batch.td_targets.len(), n, "one for each observation")?;
        check_choices(batch.actions, self.choices())?;
        let action_indices = choice_tensor(batch.actions, &leaves.device);
        let q = self.net.forward(&leaves, batch.obs)?.gather(1, action_indices).squeeze_dim::<1>(1);
        let total = elementwise_loss(loss, q - to_tensor(batch.td_targets, &leaves.device)).mean();
        leaves.write_gradient(total.backward(), gradient)?;
        to_number(&total)
    }
}

/// Computes the loss of each error. Huber's loss is e^2 / 2 up to 1 and |e| - 1/2 beyond, which is
/// s |e| - s^2 / 2 with s = min(|e|, 1).
fn elementwise_loss(loss: TdLoss, errors: Tensor<1>) -> Tensor<1> {
    match loss {
        TdLoss::Squared => errors.square(),
        TdLoss::Huber => {
            let abs_errors = errors.abs();
            let clipped_errors = abs_errors.clone().clamp_max(1.0);
            clipped_errors.clone() * abs_errors - clipped_errors.square() * 0.5
        }
    }
}
