//! Action selection for a replay buffer, with exploration.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use rlox_core::rollout::ActionBounds;
use rlox_core::{Error, Shared};
use rlox_nn::cpu::{BoundExplorer, Explorer};

use super::acting_out::{Episodes, episode_arrays};
use super::off_policy_engine::PyOffPolicyEngine;
use super::precision::ByPrecision;
use super::steps_out::{Actions, Sizes, StepsOut};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_read_lock, with_write_lock, with_write_locks};
use crate::env::PyVecEnv;
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::View;

/// Chooses exploring actions without torch, with the network of an `OffPolicyEngine` that acts.
///
/// Args:
///     engine: the engine with the networks, of precision `f32`.
///     deviation: standard deviation of the noise on the actions of the algorithm `td3`; 0 for
///         other algorithms.
///
/// Raises:
///     ConfigError: the engine is of another kind or precision, or the deviation is out of range.
#[pyclass(name = "Explorer", module = "rlox._core", frozen)]
pub(crate) struct PyExplorer {
    pub(super) explorer: Shared<Explorer>,
    pub(super) sizes: Sizes,
    /// The engine with the networks.
    pub(super) engine: Py<PyOffPolicyEngine>,
}

#[pymethods]
impl PyExplorer {
    #[new]
    #[pyo3(signature = (engine, deviation=0.0))]
    fn new(
        engine: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::number::deviation)] deviation: f64,
    ) -> PyResult<Self> {
        let py = engine.py();
        #[expect(clippy::cast_possible_truncation, reason = "noise is float32")]
        let deviation_f32 = deviation as f32;
        if !(deviation_f32.is_finite() && deviation_f32 >= 0.0) {
            return Err(Error::config("deviation", deviation, "a finite number >= 0")).or_raise(py);
        }
        let typed = engine.cast::<PyOffPolicyEngine>().ok();
        let Some((typed, ByPrecision::Single(shared))) = typed.map(|typed| (typed, &typed.get().engine))
        else {
            let expected = "expected an OffPolicyEngine of precision f32";
            let message = format!("engine is {}, {expected}", coerce::short_repr(engine));
            return Err(errors::new(py, ErrorClass::Config, message));
        };
        let (network, exploration) =
            with_read_lock(py, shared, ALWAYS_RELEASE, |engine| engine.exploration(deviation_f32))?;
        let (obs_dim, len) = (typed.get().obs_dim, typed.get().vector_len(network).unwrap_or(0));
        let explorer = Explorer::new(exploration);
        let sizes = Sizes { obs_dim, size: explorer.action_dim(), len };
        Ok(Self { explorer: Shared::new(explorer), sizes, engine: typed.clone().unbind() })
    }

    /// Chooses actions.
    ///
    /// Args:
    ///     parameters: the parameter vector of the network.
    ///     obs: `[n, obs_dim]`.
    ///     actions: output: float32 `[n, size]`, or int64 `[n]`. An int64 entry of at least 0 is
    ///         already chosen and stays.
    ///     noise: standard normal, `[n, size]`; None for choices.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape or dtype, or an output shares memory with another
    ///         argument.
    #[pyo3(signature = (parameters, obs, actions, noise=None))]
    fn act<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        noise: OptionalArg<'_, 'py>,
    ) -> PyResult<()> {
        let parameters = self.sizes.read_parameters(parameters)?;
        let obs = coerce::array(obs, "obs")?;
        coerce::check_ndim(&obs, "obs", &["n", "obs_dim"])?;
        let n = obs.shape().first().copied().unwrap_or(0);
        coerce::check_shape(&obs, "obs", &[n, self.sizes.obs_dim], "as the network takes them")?;
        let obs: View<'_, f32> = coerce::numbers(&obs, "obs")?;
        let noise = self.sizes.read_noise(py, noise, &[n])?;
        let mut actions = Actions::view(actions, self.sizes.size, &[n])?;
        let (parameters, obs, noise) = (parameters.slice(), obs.slice(), noise_slice(noise.as_ref()));
        let actions = actions.slice_mut();
        with_write_lock(py, &self.explorer, self.sizes.acting_nanoseconds(n), |explorer| {
            explorer.act(parameters, obs, noise, actions)
        })
    }

    /// Steps every environment T times: acts, steps, and writes the columns for a replay buffer.
    ///
    /// The columns `[T, n, ...]` are outputs. The entries of each step are those that `act` and
    /// `VecEnv.step_into` write. Row 0 of `obs` has the current observations of the environments.
    ///
    /// Args:
    ///     parameters: the parameter vector of the network.
    ///     envs: a `VecEnv` with the spaces of the network.
    ///     obs: o_t, float32 `[T + 1, n, obs_dim]`.
    ///     next_obs: the observation that step t reached, float32 `[T, n, obs_dim]`: the last one
    ///         of the episode where step t ended it.
    ///     actions: int64 `[T, n]`, or float32 `[T, n, size]`, as `act` writes them.
    ///     rewards: float64 `[T, n]`.
    ///     terminated: bool `[T, n]`.
    ///     truncated: bool `[T, n]`.
    ///     totals: sum of the rewards of each running episode so far, float64 `[n]`, updated in
    ///         place.
    ///     lengths: number of steps of each running episode so far, int64 `[n]`, updated in place.
    ///     noise: standard normal, `[T - given, n, size]`; None for choices.
    ///     bounds: two arrays `[size]`, the environments' actions to which -1 and 1 are scaled;
    ///         None: no scaling.
    ///     given: number of steps, from the first on, whose actions are already in `actions`.
    ///
    /// Returns:
    ///     None if no episode ended, else five arrays with a row for each of the k ended episodes, in
    ///     the order of steps, then of environments: step, environment, last observation
    ///     `[k, obs_dim]`, sum of rewards, length.
    ///
    /// Raises:
    ///     ShapeError: an array is not C-contiguous, writeable and of that dtype and shape, or
    ///         shares memory with another argument.
    ///     ConfigError: the environments have another kind of actions, or bounds are not finite or
    ///         not in order.
    ///     NonFiniteError: an action is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, envs, obs, next_obs, actions, rewards, terminated, truncated, totals, lengths,
            noise=None, bounds=None, *, given=0
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn collect<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        envs: &Bound<'py, PyVecEnv>,
        obs: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        terminated: &Bound<'py, PyAny>,
        truncated: &Bound<'py, PyAny>,
        totals: &Bound<'py, PyAny>,
        lengths: &Bound<'py, PyAny>,
        noise: OptionalArg<'_, 'py>,
        bounds: OptionalArg<'_, 'py>,
        #[pyo3(from_py_with = arg::size::given)] given: usize,
    ) -> PyResult<Option<Episodes<'py>>> {
        let parameters = self.sizes.read_parameters(parameters)?;
        let (shared_envs, n, nanoseconds) = envs.get().parts();
        let columns = [obs, next_obs, actions, rewards, terminated, truncated, totals, lengths];
        let mut out = StepsOut::from_arrays(columns, self.sizes, n)?;
        let n_acted = out.steps().saturating_sub(given);
        let noise = self.sizes.read_noise(py, noise, &[n_acted, n])?;
        let bounds = bounds.map(|bounds| self.sizes.read_bounds(bounds)).transpose()?;
        let bounds = bounds.as_ref().map(|[low, high]| ActionBounds { low: low.slice(), high: high.slice() });
        let cost = out.steps().saturating_mul(nanoseconds + self.sizes.acting_nanoseconds(n));
        let (mut columns, mut running) = out.parts();
        let (parameters, noise) = (parameters.slice(), noise_slice(noise.as_ref()));
        let ended = with_write_locks(py, shared_envs, &self.explorer, cost, |envs, explorer| {
            let mut exploring = BoundExplorer { explorer, parameters, noise, n_preset_steps: given };
            columns.collect(envs, &mut exploring, bounds, &mut running)
        });
        out.write_lengths();
        episode_arrays(py, ended?)
    }
}

pub(super) fn noise_slice<'a>(noise: Option<&'a View<'_, f32>>) -> &'a [f32] {
    noise.map_or(&[], View::slice)
}
