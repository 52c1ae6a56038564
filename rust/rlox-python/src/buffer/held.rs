//! The replay buffers of fused updates, which collect, store and sample in one call.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Result;
use rlox_core::buffer::{Kind, NStep, Request};
use rlox_core::rollout::Stretch;

use super::prioritized::PyPrioritizedReplayBuffer;
use super::replay::PyReplayBuffer;
use super::shared::{self, Asked};
use crate::convert::coerce;
use crate::errors::{self, Class};

/// A buffer that Python passed.
pub(crate) enum Held<'a> {
    Uniform(&'a PyReplayBuffer),
    Prioritized(&'a PyPrioritizedReplayBuffer),
}

impl<'a> Held<'a> {
    /// Reads a replay buffer. Anything else is a `ConfigError`.
    pub(crate) fn of(given: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(buffer) = given.cast::<PyReplayBuffer>() {
            return Ok(Self::Uniform(buffer.get()));
        }
        if let Ok(buffer) = given.cast::<PyPrioritizedReplayBuffer>() {
            return Ok(Self::Prioritized(buffer.get()));
        }
        let expected = "expected a ReplayBuffer or a PrioritizedReplayBuffer";
        let message = format!("buffer is {}, {expected}", coerce::shown(given));
        Err(errors::new(given.py(), Class::Config, message))
    }

    /// Waits for other users of the buffer and stores the transitions of `n` environments.
    pub(crate) fn store(&self, n: usize, stretch: &Stretch<'_>) -> Result<()> {
        match self {
            Self::Uniform(held) => held.buffer.write(|buffer| stretch.store(n, buffer))?,
            Self::Prioritized(held) => held.buffer.write(|buffer| stretch.store(n, buffer))?,
        }
    }

    /// Draws batches into `out`, the arrays `[k, rows, ...]` of an earlier call.
    pub(crate) fn sample(&self, out: &Bound<'_, PyDict>, n_step: NStep) -> PyResult<()> {
        let py = out.py();
        let rewards = out.get_item("rewards")?.unwrap_or_else(|| py.None().into_bound(py));
        let rewards = coerce::array(&rewards, "rewards")?;
        let &[n_batches, batch_size] = rewards.shape() else {
            let message =
                format!("rewards of batch has shape {:?}, expected [k, rows]", rewards.shape());
            return Err(errors::new(py, Class::Shape, message));
        };
        let request = Request { batch_size, n_batches, len: 1, seed: None };
        let asked = Asked { request, lead: vec![n_batches, batch_size] };
        let (step, out) = (Some(n_step), Some(out));
        match self {
            Self::Uniform(held) => {
                let of = (&held.columns, &held.buffer);
                shared::sample(py, of, &asked, (Kind::NStep, step), out)?;
            }
            Self::Prioritized(held) => {
                let of = (&held.columns, &held.buffer);
                shared::sample(py, of, &asked, (Kind::WeightedNStep, step), out)?;
            }
        }
        Ok(())
    }
}
