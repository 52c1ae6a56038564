//! Shared parts of `step_all` and `step_into`.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use rlox_core::env::{EpisodeEnds, VecEnv, registry};

/// The indices `[k]` and last observations `[k, obs_dim]` of ended episodes.
pub(crate) type FinalArrays<'py> = (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<f32>>);

/// Ended episodes as vectors of Rust: arrays can be made only once the GIL is held again.
pub(crate) struct EndedEpisodes {
    indices: Vec<i64>,
    final_obs: Vec<f32>,
}

impl EndedEpisodes {
    pub(crate) fn into_arrays(self, py: Python<'_>) -> PyResult<FinalArrays<'_>> {
        let Self { indices, final_obs: final_rows } = self;
        let shape = [indices.len(), final_rows.len() / indices.len().max(1)];
        let final_array = PyArray1::from_vec(py, final_rows).reshape(shape)?;
        Ok((PyArray1::from_vec(py, indices), final_array))
    }
}

/// Returns the episodes that the last step ended, None if there are none.
pub(crate) fn ended_episodes(envs: &VecEnv) -> Option<EndedEpisodes> {
    let EpisodeEnds { indices, obs } = envs.episode_ends();
    if indices.is_empty() {
        return None;
    }
    #[expect(clippy::cast_possible_wrap, reason = "MAX_ENVS is far below i64::MAX")]
    let indices = indices.iter().map(|&index| index as i64).collect();
    Some(EndedEpisodes { indices, final_obs: obs.to_vec() })
}

/// Returns the dict of `step_all` with its keys already set, so that it never grows.
pub(crate) fn new_step_dict(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
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

/// Ids of the native environments, in alphabetical order.
///
/// Each environment equals Gymnasium's environment of that id, step by step.
#[pyfunction]
#[must_use]
pub fn native_env_ids() -> Vec<&'static str> {
    registry::ids()
}
