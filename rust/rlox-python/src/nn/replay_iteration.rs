//! Fused updates of off-policy learning.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use rlox_core::buffer::NStep;
use rlox_core::rollout::{ActionBounds, RolloutEnds};
use rlox_nn::cpu::BoundExplorer;

use super::acting_out::{Episodes, episode_arrays};
use super::explorer::{PyExplorer, noise_slice};
use super::steps_out::StepsOut;
use crate::buffer::ReplayBufferRef;
use crate::convert::arg;
use crate::detach::{ALWAYS_RELEASE, with_write_lock};
use crate::env::PyVecEnv;
use crate::errors::OrRaise;

/// Collects steps, stores them and learns from batches of the buffer in one call. The results equal
/// those of `Explorer.collect`, `push_batch`, `sample` and the engine's `learn` in sequence, bit
/// for bit.
///
/// Args:
///     explorer: the explorer that acts; its engine learns.
///     envs: a `VecEnv` with the spaces of the network.
///     buffer: a `ReplayBuffer` or `PrioritizedReplayBuffer` of float32 observations and rewards.
///     batch: the dict of an earlier `sample` with `n_batches`; its arrays are outputs.
///     parameters: this and the next ten arguments are those of `Explorer.collect`.
///     obs: float32 `[T + 1, n, obs_dim]`.
///     next_obs: float32 `[T, n, obs_dim]`.
///     actions: int64 `[T, n]`, or float32 `[T, n, size]`.
///     rewards: float64 `[T, n]`.
///     terminated: bool `[T, n]`.
///     truncated: bool `[T, n]`.
///     totals: float64 `[n]`.
///     lengths: int64 `[n]`.
///     noise: `[T - given, n, size]`; None for choices.
///     bounds: two arrays `[size]`; None: actions are not scaled.
///     given: number of steps, from the first on, whose actions are already in `actions`.
///     n_step: number of steps of the returns in the batches.
///     gamma: discount, in [0, 1].
///
/// Raises:
///     ConfigError: `n_step` or `gamma` is out of range.
#[pyclass(name = "ReplayIteration", module = "rlox._core", frozen)]
pub(crate) struct PyReplayIteration {
    explorer: Py<PyExplorer>,
    envs: Py<PyVecEnv>,
    buffer: Py<PyAny>,
    batch: Py<PyDict>,
    parameters: Py<PyAny>,
    /// The arrays into which collected steps are written.
    column_arrays: [Py<PyAny>; 8],
    noise: Option<Py<PyAny>>,
    bounds: Option<Py<PyAny>>,
    given: usize,
    n_step: NStep,
    status: Mutex<CallStatus>,
}

/// The progress of the last call.
#[derive(Default)]
struct CallStatus {
    /// The ended episodes of steps that are stored.
    ended: Option<RolloutEnds>,
    /// Duration of learning in seconds.
    learning_seconds: f64,
}

#[pymethods]
impl PyReplayIteration {
    #[new]
    #[pyo3(
        signature = (
            explorer, envs, buffer, batch, parameters, obs, next_obs, actions, rewards, terminated, truncated,
            totals, lengths, noise=None, bounds=None, *, given, n_step, gamma
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn new(
        py: Python<'_>,
        explorer: Py<PyExplorer>,
        envs: Py<PyVecEnv>,
        buffer: Py<PyAny>,
        batch: Py<PyDict>,
        parameters: Py<PyAny>,
        obs: Py<PyAny>,
        next_obs: Py<PyAny>,
        actions: Py<PyAny>,
        rewards: Py<PyAny>,
        terminated: Py<PyAny>,
        truncated: Py<PyAny>,
        totals: Py<PyAny>,
        lengths: Py<PyAny>,
        noise: Option<Py<PyAny>>,
        bounds: Option<Py<PyAny>>,
        #[pyo3(from_py_with = arg::size::given)] given: usize,
        #[pyo3(from_py_with = arg::size::n_step)] n_step: usize,
        #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    ) -> PyResult<Self> {
        let n_step = NStep::new(n_step, gamma).or_raise(py)?;
        let column_arrays = [obs, next_obs, actions, rewards, terminated, truncated, totals, lengths];
        let status = Mutex::default();
        Ok(Self {
            explorer,
            envs,
            buffer,
            batch,
            parameters,
            column_arrays,
            noise,
            bounds,
            given,
            n_step,
            status,
        })
    }

    /// Collects steps, stores them and draws batches, then calls the engine's `learn` with these
    /// arguments.
    ///
    /// Returns:
    ///     The result of `learn`.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape or dtype, or shares memory with another argument.
    ///     ConfigError: the buffer has another type, or the environments have another kind of
    ///         actions.
    ///     NonFiniteError: a collected column, a loss, gradient or parameter is NaN or infinite.
    #[pyo3(signature = (*args, **kwargs))]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        *self.lock_status() = CallStatus::default();
        let buffer = self.buffer.bind(py);
        let replay = ReplayBufferRef::from_python(buffer)?;
        let ended = self.collect(py, &replay)?;
        self.lock_status().ended = Some(ended);
        replay.sample(self.batch.bind(py), self.n_step)?;
        let engine = self.explorer.get().engine.bind(py);
        let start = Instant::now();
        let result = engine.call_method(intern!(py, "learn"), args, kwargs);
        self.lock_status().learning_seconds = start.elapsed().as_secs_f64();
        result
    }

    /// Whether the last call stored its steps. If it did, an error of that call came from sampling or
    /// learning.
    #[getter]
    fn collected(&self) -> bool {
        self.lock_status().ended.is_some()
    }

    /// Duration of learning in the last call, in seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.lock_status().learning_seconds
    }

    /// The ended episodes of the last call's steps, in the form that `Explorer.collect` returns.
    fn episodes<'py>(&self, py: Python<'py>) -> PyResult<Option<Episodes<'py>>> {
        let ended = self.lock_status().ended.clone().unwrap_or_default();
        episode_arrays(py, ended)
    }
}

impl PyReplayIteration {
    fn lock_status(&self) -> MutexGuard<'_, CallStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Steps the environments and stores the steps. Nobody else uses the environments or the explorer
    /// meanwhile.
    fn collect(&self, py: Python<'_>, replay: &ReplayBufferRef<'_>) -> PyResult<RolloutEnds> {
        let (py_explorer, given) = (self.explorer.get(), self.given);
        let sizes = py_explorer.sizes;
        let parameters = sizes.read_parameters(self.parameters.bind(py))?;
        let (shared_envs, n, _) = self.envs.get().parts();
        let mut out = StepsOut::from_arrays(self.column_arrays.each_ref().map(|a| a.bind(py)), sizes, n)?;
        let n_acted = out.steps().saturating_sub(given);
        let noise = self.noise.as_ref().map(|noise| noise.bind(py));
        let noise = sizes.read_noise(py, noise, &[n_acted, n])?;
        let bounds = self.bounds.as_ref().map(|bounds| sizes.read_bounds(bounds.bind(py)));
        let bounds = bounds.transpose()?;
        let bounds = bounds.as_ref().map(|[low, high]| ActionBounds { low: low.slice(), high: high.slice() });
        let (mut columns, mut running) = out.parts();
        let (parameters, noise) = (parameters.slice(), noise_slice(noise.as_ref()));
        let ended = with_write_lock(py, shared_envs, ALWAYS_RELEASE, |envs| {
            py_explorer.explorer.write(|explorer| {
                let mut exploring = BoundExplorer { explorer, parameters, noise, n_preset_steps: given };
                let ended = columns.collect(envs, &mut exploring, bounds, &mut running)?;
                columns.check_finite()?;
                replay.store(n, &columns)?;
                Ok(ended)
            })?
        });
        out.write_lengths();
        ended
    }
}
