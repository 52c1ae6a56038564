//! What V-trace and the returns have in common: arrays of `[T]` or `[T, N]` in one precision.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::coerce;
use crate::errors::{self, Class};
use crate::views::is_of;

/// The first array of a call, which gives the others their shape.
pub(crate) struct Rollout<'py> {
    pub(crate) rewards: Bound<'py, PyUntypedArray>,
    /// N; 1 for `[T]`.
    pub(crate) n_envs: usize,
}

impl<'py> Rollout<'py> {
    pub(crate) fn read(rewards: &Bound<'py, PyAny>) -> PyResult<Self> {
        let rewards = coerce::array(rewards, "rewards")?;
        let n_envs = match *rewards.shape() {
            [_] => 1,
            [_, n_envs] => n_envs,
            ref shape => {
                let message = format!("rewards has shape {shape:?}, expected (T) or (T, N)");
                return Err(errors::new(rewards.py(), Class::Shape, message));
            }
        };
        Ok(Self { rewards, n_envs })
    }

    /// `value` as an array of the shape of rewards.
    pub(crate) fn like(
        &self,
        value: &Bound<'py, PyAny>,
        name: &str,
    ) -> PyResult<Bound<'py, PyUntypedArray>> {
        let array = coerce::array(value, name)?;
        coerce::check_shape(&array, name, self.rewards.shape(), "the shape of rewards")?;
        Ok(array)
    }

    /// Whether results are float32: only if rewards and these arrays are.
    pub(crate) fn is_single(&self, others: &[&Bound<'py, PyUntypedArray>]) -> bool {
        is_of::<f32>(&self.rewards) && others.iter().all(|array| is_of::<f32>(array))
    }
}
