//! Fused updates of off-policy learning.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Error;
use rlox_core::buffer::NStep;
use rlox_core::rollout::{ActionBounds, RolloutEnds};
use rlox_nn::cpu::BoundExplorer;

use super::acting_out::{Episodes, episode_arrays};
use super::explorer::{PyExplorer, noise_slice};
use super::steps_out::StepsOut;
use crate::buffer::ReplayBufferRef;
use crate::convert::arg;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_write_lock};
use crate::env::PyVecEnv;
use crate::errors::OrRaise;

/// Collects steps, stores them and learns from batches of the buffer, for one training or several, in
/// one call. The results equal those of `Explorer.collect`, `push_batch`, `sample` and the engine's
/// `learn` in sequence for each training, bit for bit.
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
///     trainings: number of trainings; each one makes T / trainings steps first.
///
/// Raises:
///     ConfigError: `n_step`, `gamma` or `trainings` is out of range.
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
    trainings: usize,
    status: Mutex<CallStatus>,
}

/// The progress of the last call.
#[derive(Default)]
struct CallStatus {
    /// The ended episodes of steps that are stored.
    ended: RolloutEnds,
    /// Number of trainings whose steps are stored.
    stored: usize,
    /// Number of trainings that are complete.
    learned: usize,
    /// Duration of learning in seconds.
    learning_seconds: f64,
    /// The error that ended the call after complete trainings.
    error: Option<PyErr>,
}

#[pymethods]
impl PyReplayIteration {
    #[new]
    #[pyo3(
        signature = (
            explorer, envs, buffer, batch, parameters, obs, next_obs, actions, rewards, terminated, truncated,
            totals, lengths, noise=None, bounds=None, *, given, n_step, gamma, trainings=1
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
        #[pyo3(from_py_with = arg::size::trainings)] trainings: usize,
    ) -> PyResult<Self> {
        let n_step = NStep::new(n_step, gamma).or_raise(py)?;
        if trainings == 0 {
            return Err(Error::config("trainings", 0, "at least 1")).or_raise(py);
        }
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
            trainings,
            status,
        })
    }

    /// For each training collects its steps, stores them and draws batches, then learns as
    /// `OffPolicyEngine.learn` does with these arguments. With several trainings `noise` has a leading axis
    /// `[trainings]`, and `first` is the number of the first batch of the first training.
    ///
    /// If the steps of a training fail after complete ones, the call ends without an exception: `error`
    /// has it.
    ///
    /// Returns:
    ///     The result of `learn` for each complete training.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape or dtype, or shares memory with another argument.
    ///     ConfigError: the buffer has another type, the environments have another kind of actions, or
    ///         the steps do not divide among the trainings.
    ///     NonFiniteError: a collected column, a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            learned, targets, obs, actions, rewards, next_obs, discounts, errors, noise=None, weights=None, *,
            first=0, adam_eps=1e-8, **settings
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        learned: &Bound<'py, PyDict>,
        targets: &Bound<'py, PyDict>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        discounts: &Bound<'py, PyAny>,
        errors: &Bound<'py, PyAny>,
        noise: OptionalArg<'_, 'py>,
        weights: OptionalArg<'_, 'py>,
        #[pyo3(from_py_with = arg::integer::first)] first: u64,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        *self.lock_status() = CallStatus::default();
        let replay = ReplayBufferRef::from_python(self.buffer.bind(py))?;
        let engine = self.explorer.get().engine.get();
        let mut results = Vec::with_capacity(self.trainings);
        for training in 0..self.trainings {
            match self.collect(py, &replay, training) {
                Err(error) if training > 0 => {
                    self.lock_status().error = Some(error);
                    break;
                }
                collected => collected?,
            }
            replay.sample(self.batch.bind(py), self.n_step)?;
            let noise = noise.map(|noise| self.noise_of(training, noise)).transpose()?;
            let n_earlier = if training == 0 { 0 } else { training * obs.len()? };
            let start = Instant::now();
            let result = engine.learn(
                py,
                learned,
                targets,
                obs,
                actions,
                rewards,
                next_obs,
                discounts,
                errors,
                noise.as_ref(),
                weights,
                first.saturating_add(n_earlier as u64),
                adam_eps,
                settings,
            );
            let mut status = self.lock_status();
            status.learning_seconds += start.elapsed().as_secs_f64();
            results.push(result?);
            status.learned += 1;
        }
        Ok(results)
    }

    /// Number of trainings of a call.
    #[getter]
    const fn trainings(&self) -> usize {
        self.trainings
    }

    /// Number of trainings of the last call whose steps are stored.
    #[getter]
    fn stored(&self) -> usize {
        self.lock_status().stored
    }

    /// The exception that ended the last call after complete trainings, or None.
    #[getter]
    fn error(&self, py: Python<'_>) -> Option<Py<PyBaseException>> {
        self.lock_status().error.as_ref().map(|error| error.value(py).clone().unbind())
    }

    /// Number of complete trainings of the last call. If it is smaller than `stored`, an error of that
    /// call came from sampling or learning.
    #[getter]
    fn learned(&self) -> usize {
        self.lock_status().learned
    }

    /// Duration of learning in the last call, in seconds.
    #[getter]
    fn seconds(&self) -> f64 {
        self.lock_status().learning_seconds
    }

    /// The ended episodes of the last call's steps, in the form that `Explorer.collect` returns.
    fn episodes<'py>(&self, py: Python<'py>) -> PyResult<Option<Episodes<'py>>> {
        let ended = self.lock_status().ended.clone();
        episode_arrays(py, ended)
    }
}

impl PyReplayIteration {
    fn lock_status(&self) -> MutexGuard<'_, CallStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the noise of this training.
    fn noise_of<'py>(&self, training: usize, noise: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.trainings == 1 { Ok(noise.clone()) } else { noise.get_item(training) }
    }

    /// Steps the environments for this training and stores the steps. Nobody else uses the environments
    /// or the explorer meanwhile.
    fn collect(&self, py: Python<'_>, replay: &ReplayBufferRef<'_>, training: usize) -> PyResult<()> {
        let py_explorer = self.explorer.get();
        let sizes = py_explorer.sizes;
        let parameters = sizes.read_parameters(self.parameters.bind(py))?;
        let (shared_envs, n, _) = self.envs.get().parts();
        let mut out = StepsOut::from_arrays(self.column_arrays.each_ref().map(|a| a.bind(py)), sizes, n)?;
        let n_acted = out.steps().saturating_sub(self.given);
        let noise = self.noise.as_ref().map(|noise| noise.bind(py));
        let noise = sizes.read_noise(py, noise, &[n_acted, n])?;
        let bounds = self.bounds.as_ref().map(|bounds| sizes.read_bounds(bounds.bind(py)));
        let bounds = bounds.transpose()?;
        let bounds = bounds.as_ref().map(|[low, high]| ActionBounds { low: low.slice(), high: high.slice() });
        let steps = out.steps() / self.trainings;
        let first_step = training * steps;
        let n_preset_steps = self.given.saturating_sub(first_step).min(steps);
        let (parameters, noise) = (parameters.slice(), noise_slice(noise.as_ref()));
        let step_noise = noise.len() / n_acted.max(1);
        let first_noise = first_step.saturating_sub(self.given) * step_noise;
        let noise = noise.get(first_noise..first_noise + (steps - n_preset_steps) * step_noise);
        let noise = noise.ok_or_else(|| Error::internal("the noise of a training")).or_raise(py)?;
        let (mut columns, mut running) = out.parts();
        let mut columns = columns.part((training, self.trainings), n).or_raise(py)?;
        let ended = with_write_lock(py, shared_envs, ALWAYS_RELEASE, |envs| {
            py_explorer.explorer.write(|explorer| {
                let mut exploring = BoundExplorer { explorer, parameters, noise, n_preset_steps };
                let ended = columns.collect(envs, &mut exploring, bounds, &mut running)?;
                columns.check_finite()?;
                replay.store(n, &columns)?;
                Ok(ended)
            })?
        });
        out.write_lengths();
        let mut status = self.lock_status();
        status.ended.append(first_step, ended?);
        status.stored += 1;
        Ok(())
    }
}
