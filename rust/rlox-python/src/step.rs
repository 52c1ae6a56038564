//! The parts of a step that both `step_all` and `step_into` take.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use rlox_core::env::{Finals, VecEnv, registry};

use crate::views::ViewMut;

/// Nanoseconds that one step of all environments takes, about.
pub(crate) fn cost(envs: &VecEnv) -> usize {
    envs.n_envs() * envs.spec().nanoseconds
}

/// The indices `[k]` and last observations `[k, obs_dim]` of ended episodes.
pub(crate) type FinalArrays<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<f32>>);

/// A fresh `[n, obs_dim]`.
pub(crate) fn fresh_obs<'py>(py: Python<'py>, envs: &VecEnv) -> PyResult<ViewMut<'py, f32>> {
    ViewMut::fresh(py, &[envs.n_envs(), envs.obs_dim()])
}

/// The ended episodes as arrays, None if there are none.
pub(crate) fn finals<'py>(py: Python<'py>, envs: &VecEnv) -> PyResult<Option<FinalArrays<'py>>> {
    let Finals { indices, obs } = envs.finals();
    if indices.is_empty() {
        return Ok(None);
    }
    let last = PyArray1::from_slice(py, obs).reshape([indices.len(), envs.obs_dim()])?;
    #[expect(clippy::cast_possible_wrap, reason = "MAX_ENVS is far below i64::MAX")]
    let indices = PyArray1::from_iter(py, indices.iter().map(|&index| index as i64));
    Ok(Some((indices, last)))
}

/// The dict that `step_all` returns, with its keys and nothing else: a copy of it never grows.
pub(crate) fn empty_step(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    static EMPTY: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let empty = EMPTY.get_or_try_init(py, || {
        let dict = PyDict::new(py);
        for key in ["obs", "rewards", "terminated", "truncated", "final_obs", "final_mask"] {
            dict.set_item(PyString::intern(py, key), py.None())?;
        }
        Ok::<_, PyErr>(dict.unbind())
    })?;
    empty.bind(py).copy()
}

/// Ids of the native environments, in alphabetical order; each equals Gymnasium's step by step.
#[pyfunction]
#[must_use]
pub fn native_env_ids() -> Vec<&'static str> {
    registry::ids()
}
