//! Shared parts of advantages and returns: arrays of one shape in one precision.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::convert::coerce;
use crate::errors::{self, ErrorClass};
use crate::memory::views::has_dtype;

/// The first array of a call. It sets the shape of the others.
pub(crate) struct Rollout<'py> {
    pub(crate) rewards: Bound<'py, PyUntypedArray>,
    /// N of `[T, N]`.
    pub(crate) n_envs: usize,
}

impl<'py> Rollout<'py> {
    /// Reads rewards `[T]`, with N = 1, or `[T, N]`.
    pub(crate) fn read(rewards: &Bound<'py, PyAny>) -> PyResult<Self> {
        let rewards = coerce::array(rewards, "rewards")?;
        let n_envs = match *rewards.shape() {
            [_] => 1,
            [_, n_envs] => n_envs,
            ref shape => {
                let message = format!("rewards has shape {shape:?}, expected (T) or (T, N)");
                return Err(errors::new(rewards.py(), ErrorClass::Shape, message));
            }
        };
        Ok(Self { rewards, n_envs })
    }

    /// Reads rewards of these dimensions; the last one is N.
    pub(crate) fn read_with_dims(rewards: &Bound<'py, PyAny>, dims: &[&str]) -> PyResult<Self> {
        let rewards = coerce::array(rewards, "rewards")?;
        coerce::check_ndim(&rewards, "rewards", dims)?;
        let n_envs = rewards.shape().last().copied().unwrap_or(0);
        Ok(Self { rewards, n_envs })
    }

    /// Reads `value` as an array of the shape of rewards.
    pub(crate) fn read_like_rewards(
        &self,
        value: &Bound<'py, PyAny>,
        name: &str,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        read_shaped(value, name, self.rewards.shape())
    }

    /// Returns whether results are float32, which they are if rewards and all `others` are float32.
    pub(crate) fn is_single(&self, others: &[&Bound<'py, PyUntypedArray>]) -> bool {
        has_dtype::<f32>(&self.rewards) && others.iter().all(|array| has_dtype::<f32>(array))
    }
}

/// Reads `value` as an array of `shape`, the shape of rewards.
pub(crate) fn read_shaped<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = coerce::array(value, name)?;
    coerce::check_shape(&array, name, shape, "the shape of rewards")?;
    Ok(array)
}
