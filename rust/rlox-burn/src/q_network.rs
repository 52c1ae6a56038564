//! A Q-network over choices.

use burn_tensor::Tensor;
use rlox_core::error::{Error, check_len};
use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::TdLoss;
use rlox_nn::cpu::{QArchitecture, QNetwork};
use rlox_nn::traits::{QFunction, Valued};

use crate::actor_critic::check_choices;
use crate::net::{Leaves, Net, chosen, column, copy, number};

/// Q(o, a) of a network with one flat vector of parameters, computed by Burn.
#[derive(Debug, Clone)]
pub struct BurnQNetwork {
    net: Net,
    len: usize,
}

impl BurnQNetwork {
    /// Makes the network of this architecture, with parameters as in `layout`.
    ///
    /// # Errors
    /// Same as [`QNetwork::new`]; [`Error::Config`] for dueling streams.
    pub fn new(layout: &Layout, of: &QArchitecture) -> Result<Self> {
        QNetwork::new(layout, of)?;
        if of.dueling {
            let expected = "false; dueling streams are the engine cpu's";
            return Err(Error::config("dueling", true, expected));
        }
        let sizes = [&[of.obs_dim], of.hidden.as_slice(), &[of.choices]].concat();
        Ok(Self { net: Net::new(layout, "q", &sizes, of.activation)?, len: layout.len() })
    }

    fn leaves(&self, parameters: &[f32], learn: bool) -> Result<Leaves> {
        Leaves::new((parameters, self.len), self.net.places.iter().flatten(), learn)
    }
}

impl QFunction for BurnQNetwork {
    fn choices(&self) -> usize {
        self.net.outputs()
    }

    fn q(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        let leaves = self.leaves(parameters, false)?;
        self.net.rows(obs)?;
        copy("q", self.net.forward(&leaves, obs)?, out)
    }

    fn td_gradient(
        &self,
        parameters: &[f32],
        batch: Valued<'_>,
        loss: TdLoss,
        gradient: &mut [f32],
    ) -> Result<f64> {
        let leaves = self.leaves(parameters, true)?;
        let n = self.net.rows(batch.obs)?;
        check_len("actions", batch.actions.len(), n, "one for each observation")?;
        check_len("goals", batch.goals.len(), n, "one for each observation")?;
        check_choices(batch.actions, self.choices())?;
        let chosen = chosen(batch.actions, &leaves.device);
        let q = self.net.forward(&leaves, batch.obs)?.gather(1, chosen).squeeze_dim::<1>(1);
        let total = cost(loss, q - column(batch.goals, &leaves.device)).mean();
        leaves.gradient(total.backward(), gradient)?;
        number(&total)
    }
}

/// Computes the loss of each error. Huber's loss is e^2 / 2 up to 1 and |e| - 1/2 beyond, which is
/// s |e| - s^2 / 2 with s = min(|e|, 1).
fn cost(loss: TdLoss, errors: Tensor<1>) -> Tensor<1> {
    match loss {
        TdLoss::Squared => errors.square(),
        TdLoss::Huber => {
            let size = errors.abs();
            let small = size.clone().clamp_max(1.0);
            small.clone() * size - small.square() * 0.5
        }
    }
}
