//! A Q-network over choices.

use candle_core::{Device, Result as CandleResult, Tensor};
use rlox_core::error::{Error, check_len};
use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::TdLoss;
use rlox_nn::cpu::{QArchitecture, QNetwork};
use rlox_nn::traits::{QFunction, TdBatch};

use crate::actor_critic::check_choices;
use crate::error::to_internal_error;
use crate::net::{Leaves, Net, copy_numbers};

/// Q(o, a) of a network with one flat vector of parameters, computed by Candle.
#[derive(Debug, Clone)]
pub struct CandleQNetwork {
    net: Net,
    n_parameters: usize,
}

impl CandleQNetwork {
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

impl QFunction for CandleQNetwork {
    fn choices(&self) -> usize {
        self.net.outputs()
    }

    fn q(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        let leaves = self.leaves(parameters, false)?;
        let q = self.net.forward(&leaves, &self.net.obs_tensor(obs)?).map_err(to_internal_error)?;
        copy_numbers("q", &q, out)
    }

    fn td_gradient(
        &self,
        parameters: &[f32],
        batch: TdBatch<'_>,
        loss: TdLoss,
        gradient: &mut [f32],
    ) -> Result<f64> {
        let leaves = self.leaves(parameters, true)?;
        let obs = self.net.obs_tensor(batch.obs)?;
        let n = obs.dims().first().copied().unwrap_or(0);
        check_len("actions", batch.actions.len(), n, "one for each observation")?;
        check_len("TD targets", batch.td_targets.len(), n, "one for each observation")?;
        check_choices(batch.actions, self.choices())?;
        let compute_loss = || {
            let action_indices = Tensor::from_slice(batch.actions, (n, 1), &Device::Cpu)?;
            let q = self.net.forward(&leaves, &obs)?.gather(&action_indices, 1)?.squeeze(1)?;
            let errors = (q - Tensor::from_slice(batch.td_targets, n, &Device::Cpu)?)?;
            elementwise_loss(loss, &errors)?.mean_all()
        };
        let total = compute_loss().map_err(to_internal_error)?;
        leaves.write_gradient(&total.backward().map_err(to_internal_error)?, gradient)?;
        Ok(f64::from(total.to_scalar::<f32>().map_err(to_internal_error)?))
    }
}

/// Computes the loss of each error. Huber's loss is e^2 / 2 up to 1 and |e| - 1/2 beyond, which is
/// s |e| - s^2 / 2 with s = min(|e|, 1).
fn elementwise_loss(loss: TdLoss, errors: &Tensor) -> CandleResult<Tensor> {
    match loss {
        TdLoss::Squared => errors.sqr(),
        TdLoss::Huber => {
            let abs_errors = errors.abs()?;
            let clipped_errors = abs_errors.clamp(0.0, 1.0)?;
            (&clipped_errors * &abs_errors)? - (clipped_errors.sqr()? * 0.5)?
        }
    }
}
