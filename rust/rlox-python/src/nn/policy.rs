//! The policy that acts in rollouts.

use std::num::NonZeroUsize;

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::policy::{Policy, PolicyInput, PolicyOutput};
use rlox_core::rollout::{self, RolloutEnds, RolloutKey, Scratch};
use rlox_nn::cpu::{ActorCritic, ActorCriticPolicy, Architecture};

use super::acting_out::{ActionsOut, Episodes, episode_arrays};
use super::on_policy_engine::PyOnPolicyEngine;
use super::rollout_args;
use super::rollout_out::RolloutOut;
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{detached, with_write_lock};
use crate::env::PyVecEnv;
use crate::errors::{self, ErrorClass};
use crate::memory::views::{View, ViewMut};

type Array<'py> = Bound<'py, PyUntypedArray>;

/// The policy of an `OnPolicyEngine`, which acts without torch. An environment's action depends
/// only on its observation, the parameters and the stream ("action", `rollout`) of the run.
///
/// Args:
///     engine: the engine with the networks, of precision `f32`.
///     noise_kept: number of steps for which gSDE reuses the same noise; None: the whole rollout.
///
/// Raises:
///     ConfigError: `noise_kept` is 0.
#[pyclass(name = "RolloutPolicy", module = "rlox._core", frozen)]
pub(crate) struct PyRolloutPolicy {
    architecture: Architecture,
    net: ActorCritic,
    pub(super) noise_kept: NonZeroUsize,
    /// Length of the parameter vector.
    len: usize,
    /// The engine with the networks.
    pub(super) engine: Py<PyOnPolicyEngine>,
}

#[pymethods]
impl PyRolloutPolicy {
    #[new]
    #[pyo3(signature = (engine, noise_kept=Some(1)))]
    fn new(
        py: Python<'_>,
        engine: &Bound<'_, PyOnPolicyEngine>,
        #[pyo3(from_py_with = arg::optional_integer::noise_kept)] noise_kept: Option<u64>,
    ) -> PyResult<Self> {
        let engine_ref = engine.clone().unbind();
        let engine = engine.get();
        let steps = noise_kept.map_or(usize::MAX, |steps| usize::try_from(steps).unwrap_or(usize::MAX));
        let Some(noise_kept) = NonZeroUsize::new(steps) else {
            let message = "noise_kept is 0, expected at least 1, or None";
            return Err(errors::new(py, ErrorClass::Config, message));
        };
        let (architecture, net, len) = (engine.architecture.clone(), engine.net.clone(), engine.len);
        Ok(Self { architecture, net, noise_kept, len, engine: engine_ref })
    }

    /// Samples actions for step `step` of a rollout.
    ///
    /// Args:
    ///     parameters: the parameter vector of the engine.
    ///     obs: `[n, obs_dim]`.
    ///     actions: output, int64 `[n]`, or float32 `[n, size]`.
    ///     log_probs: output, log pi(a | o), float32 `[n]`.
    ///     values: output, V(o), float32 `[n]`.
    ///     seed: seed of the run.
    ///     rollout: number of the rollout in the run.
    ///     step: number of the step in the rollout.
    ///     mask: which choices are allowed, `[n, size]`.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape or dtype, or an output shares memory with another
    ///         argument.
    ///     ConfigError: a mask allows no choice, or is passed for actions that are numbers.
    #[pyo3(
        signature = (parameters, obs, actions, log_probs, values, *, seed, rollout, step, mask=None)
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn act<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        log_probs: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
        #[pyo3(from_py_with = arg::integer::rollout)] rollout: u64,
        #[pyo3(from_py_with = arg::size::step)] step: usize,
        mask: OptionalArg<'_, 'py>,
    ) -> PyResult<()> {
        let parameters = self.read_parameters(parameters)?;
        let (obs, n) = self.read_obs(obs)?;
        let mask = mask.map(|mask| rollout_args::read_mask(mask, &self.architecture, n)).transpose()?;
        let mut actions = ActionsOut::view(actions, self.architecture.kind, &[n])?;
        let mut log_probs = coerce::output(log_probs, "log_probs", &[n])?;
        let mut values = coerce::output(values, "values", &[n])?;
        let acting = self.acting_policy(&parameters);
        let outputs = PolicyOutput {
            actions: actions.slice_mut(),
            log_probs: log_probs.slice_mut(),
            values: values.slice_mut(),
        };
        let obs = obs.slice();
        detached(py, self.acting_nanoseconds(n), || {
            let mut noise = vec![0.0; n * acting.noise().dim()];
            rollout::noise(&acting, RolloutKey { seed, rollout }, step, &mut noise);
            acting.act_masked(PolicyInput { obs, noise: &noise }, mask.as_deref(), outputs)
        })
    }

    /// V(o) of observations, float32 `[n]`.
    ///
    /// Args:
    ///     parameters: the parameter vector of the engine.
    ///     obs: `[n, obs_dim]`.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape.
    fn values<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
    ) -> PyResult<Array<'py>> {
        let parameters = self.read_parameters(parameters)?;
        let (obs, n) = self.read_obs(obs)?;
        let mut values = ViewMut::<f32>::fresh(py, &[n])?;
        let (obs, out, acting) = (obs.slice(), values.slice_mut(), self.acting_policy(&parameters));
        detached(py, self.acting_nanoseconds(n), || acting.values(obs, out))?;
        Ok(values.into_array())
    }

    /// The outputs of the actor's network, float32 `[n, size]`: logits of choices, or means.
    ///
    /// Args:
    ///     parameters: the parameter vector of the engine.
    ///     obs: `[n, obs_dim]`.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape.
    fn outputs<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
    ) -> PyResult<Array<'py>> {
        let parameters = self.read_parameters(parameters)?;
        let (obs, n) = self.read_obs(obs)?;
        let mut outputs = ViewMut::<f32>::fresh(py, &[n, self.architecture.kind.outputs()])?;
        let (obs, out, acting) = (obs.slice(), outputs.slice_mut(), self.acting_policy(&parameters));
        detached(py, self.acting_nanoseconds(n), || acting.outputs(obs, out))?;
        Ok(outputs.into_array())
    }

    /// Steps every environment T times: acts, steps, writes the columns, and computes the values.
    ///
    /// The columns `[T, n, ...]` are outputs. The entries of each step are those that `act` and
    /// `VecEnv.step_into` write. Row 0 of `obs` has the current observations of the environments.
    /// After an interrupted call, row T has the observations at the interrupt, and `totals` and
    /// `lengths` have their values at the interrupt.
    ///
    /// Args:
    ///     parameters: the parameter vector of the engine.
    ///     envs: a `VecEnv` with the spaces of the engine.
    ///     obs: o_t, float32 `[T + 1, n, obs_dim]`.
    ///     actions: int64 `[T, n]`, or float32 `[T, n, size]`.
    ///     rewards: float32 `[T, n]`.
    ///     terminated: bool `[T, n]`.
    ///     truncated: bool `[T, n]`.
    ///     log_probs: log pi(a_t | o_t), float32 `[T, n]`.
    ///     values: V(o_t), float32 `[T + 1, n]`.
    ///     next_values: V of the state that step t reached, float32 `[T, n]`: 0 where the episode
    ///         was terminated, the value of the final observation where it was truncated.
    ///     totals: sum of the rewards of each running episode so far, float64 `[n]`, updated in
    ///         place.
    ///     lengths: number of steps of each running episode so far, int64 `[n]`, updated in place.
    ///     seed: seed of the run.
    ///     rollout: number of the rollout in the run.
    ///
    /// Returns:
    ///     None if no episode ended, else five arrays with a row for each of the k ended episodes, in
    ///     the order of steps, then of environments: step, environment, last observation
    ///     `[k, obs_dim]`, sum of rewards, length.
    ///
    /// Raises:
    ///     ShapeError: an array is not C-contiguous, writeable and of that dtype and shape, or
    ///         shares memory with another argument.
    ///     NonFiniteError: an action is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, envs, obs, actions, rewards, terminated, truncated, log_probs, values, next_values,
            totals, lengths, *, seed, rollout
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn collect<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        envs: &Bound<'py, PyVecEnv>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        terminated: &Bound<'py, PyAny>,
        truncated: &Bound<'py, PyAny>,
        log_probs: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        next_values: &Bound<'py, PyAny>,
        totals: &Bound<'py, PyAny>,
        lengths: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
        #[pyo3(from_py_with = arg::integer::rollout)] rollout: u64,
    ) -> PyResult<Option<Episodes<'py>>> {
        let parameters = self.read_parameters(parameters)?;
        let (shared_envs, n, nanoseconds) = envs.get().parts();
        let arrays =
            [obs, actions, rewards, terminated, truncated, log_probs, values, next_values, totals, lengths];
        let mut out = RolloutOut::from_arrays(arrays, &self.architecture, n)?;
        let (acting, key) = (self.acting_policy(&parameters), RolloutKey { seed, rollout });
        let cost = out.steps().saturating_mul(nanoseconds + self.acting_nanoseconds(n));
        let (mut columns, mut running) = out.parts();
        let ended = with_write_lock(py, shared_envs, cost, |envs| {
            let (mut ended, mut scratch) = (RolloutEnds::default(), Scratch::default());
            let buffers = (&mut ended, &mut scratch);
            columns.collect(envs, &acting, key, &mut running, buffers)?;
            Ok(ended)
        });
        out.write_lengths();
        episode_arrays(py, ended?)
    }
}

impl PyRolloutPolicy {
    fn read_parameters<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<View<'py, f32>> {
        let array = coerce::array(value, "parameters")?;
        coerce::check_shape(&array, "parameters", &[self.len], "the engine's vector")?;
        coerce::numbers(&array, "parameters")
    }

    /// Reads observations and returns them with their number.
    fn read_obs<'py>(&self, obs: &Bound<'py, PyAny>) -> PyResult<(View<'py, f32>, usize)> {
        let obs = coerce::array(obs, "obs")?;
        coerce::check_ndim(&obs, "obs", &["n", "obs_dim"])?;
        let n = obs.shape().first().copied().unwrap_or(0);
        coerce::check_shape(&obs, "obs", &[n, self.architecture.obs_dim], "as the networks take them")?;
        Ok((coerce::numbers(&obs, "obs")?, n))
    }

    fn acting_policy<'a>(&'a self, parameters: &'a View<'_, f32>) -> ActorCriticPolicy<'a> {
        ActorCriticPolicy::new(&self.net, parameters.slice(), self.noise_kept)
    }

    /// Estimated nanoseconds of acting for n observations, at 20 multiplications and additions per
    /// nanosecond.
    const fn acting_nanoseconds(&self, n: usize) -> usize {
        n.saturating_mul(self.len) / 20
    }
}
