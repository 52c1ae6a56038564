//! The replay buffers of fused updates, which collect, store and sample in one call.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Result;
use rlox_core::buffer::{BatchKind, NStep, SampleRequest};
use rlox_core::rollout::TransitionChunk;

use super::prioritized::PyPrioritizedReplayBuffer;
use super::replay::PyReplayBuffer;
use super::shared::{self, SampleArgs};
use crate::convert::coerce;
use crate::errors::{self, ErrorClass};

/// A buffer that Python passed.
pub(crate) enum ReplayBufferRef<'a> {
    Uniform(&'a PyReplayBuffer),
    Prioritized(&'a PyPrioritizedReplayBuffer),
}

impl<'a> ReplayBufferRef<'a> {
    /// Reads a replay buffer. Anything else is a `ConfigError`.
    pub(crate) fn from_python(object: &'a Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(buffer) = object.cast::<PyReplayBuffer>() {
            return Ok(Self::Uniform(buffer.get()));
        }
        if let Ok(buffer) = object.cast::<PyPrioritizedReplayBuffer>() {
            return Ok(Self::Prioritized(buffer.get()));
        }
        let expected = "expected a ReplayBuffer or a PrioritizedReplayBuffer";
        let message = format!("buffer is {}, {expected}", coerce::short_repr(object));
        Err(errors::new(object.py(), ErrorClass::Config, message))
    }

    /// Waits for other users of the buffer and stores the transitions of `n` environments.
    pub(crate) fn store(&self, n: usize, steps: &TransitionChunk<'_>) -> Result<()> {
        match self {
            Self::Uniform(uniform) => uniform.buffer.write(|buffer| steps.store(n, buffer))?,
            Self::Prioritized(prioritized) => prioritized.buffer.write(|buffer| steps.store(n, buffer))?,
        }
    }

    /// Draws batches into `out`, the arrays `[k, rows, ...]` of an earlier call.
    pub(crate) fn sample(&self, out: &Bound<'_, PyDict>, n_step: NStep) -> PyResult<()> {
        let py = out.py();
        let rewards = out.get_item("rewards")?.unwrap_or_else(|| py.None().into_bound(py));
        let rewards = coerce::array(&rewards, "rewards")?;
        let &[n_batches, batch_size] = rewards.shape() else {
            let message = format!("rewards of batch has shape {:?}, expected [k, rows]", rewards.shape());
            return Err(errors::new(py, ErrorClass::Shape, message));
        };
        let request = SampleRequest { batch_size, n_batches, len: 1, seed: None };
        let args = SampleArgs { request, lead: vec![n_batches, batch_size] };
        let (step, out) = (Some(n_step), Some(out));
        match self {
            Self::Uniform(uniform) => {
                let uniform_parts = (&uniform.columns, &uniform.buffer);
                shared::sample(py, uniform_parts, &args, (BatchKind::NStep, step), out)?;
            }
            Self::Prioritized(prioritized) => {
                let prioritized_parts = (&prioritized.columns, &prioritized.buffer);
                shared::sample(py, prioritized_parts, &args, (BatchKind::WeightedNStep, step), out)?;
            }
        }
        Ok(())
    }
}
