//! Action selection for a replay buffer, with exploration.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use rlox_core::rollout::ActionBounds;
use rlox_core::{Error, Shared};
use rlox_nn::cpu::{BoundExplorer, Exploration, Explorer};

use super::acting_out::{Episodes, episode_arrays};
use super::dqn_engine::PyDqnEngine;
use super::iql_engine::PyIqlEngine;
use super::precision::ByPrecision;
use super::sac_engine::PySacEngine;
use super::steps_out::{Actions, Sizes, StepsOut};
use super::td3_engine::PyTd3Engine;
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_read_lock, with_write_lock, with_write_locks};
use crate::env::PyVecEnv;
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::View;

/// Chooses exploring actions without torch, with the network of a `DQNEngine` or the actor of a
/// `SACEngine`, `TD3Engine` or `IQLEngine`.
///
/// Args:
///     engine: the engine with the networks, of precision `f32`.
///     deviation: standard deviation of the noise on the actions of a `TD3Engine`'s actor; 0 for
///         other engines.
///
/// Raises:
///     ConfigError: the engine is of another kind or precision, or the deviation is negative or not
///         finite.
#[pyclass(name = "Explorer", module = "rlox._core", frozen)]
pub(crate) struct PyExplorer {
    pub(super) explorer: Shared<Explorer>,
    pub(super) sizes: Sizes,
    /// The engine with the networks.
    pub(super) engine: Py<PyAny>,
}

#[pymethods]
impl PyExplorer {
    #[new]
    #[pyo3(signature = (engine, deviation=0.0))]
    fn new(
        engine: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::number::deviation)] deviation: f64,
    ) -> PyResult<Self> {
        #[expect(clippy::cast_possible_truncation, reason = "noise is float32")]
        let deviation_f32 = deviation as f32;
        let is_noise_allowed = engine.is_instance_of::<PyTd3Engine>() || deviation_f32 == 0.0;
        if !(deviation_f32.is_finite() && deviation_f32 >= 0.0 && is_noise_allowed) {
            let expected = "a finite number >= 0, and 0 unless engine is a TD3Engine";
            return Err(Error::config("deviation", deviation, expected)).or_raise(engine.py());
        }
        let (exploration, obs_dim, len) = find_exploration(engine, deviation_f32)?;
        let explorer = Explorer::new(exploration);
        let sizes = Sizes { obs_dim, size: explorer.action_dim(), len };
        Ok(Self { explorer: Shared::new(explorer), sizes, engine: engine.clone().unbind() })
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

/// Returns how an engine explores, the size of an observation, and the length of the parameter
/// vector of the network that acts.
fn find_exploration(engine: &Bound<'_, PyAny>, deviation: f32) -> PyResult<(Exploration, usize, usize)> {
    let py = engine.py();
    if let Ok(dqn) = engine.cast::<PyDqnEngine>() {
        let dqn = dqn.get();
        if let ByPrecision::Single(dqn_engine) = &dqn.engine {
            let net =
                with_read_lock(py, dqn_engine, ALWAYS_RELEASE, |dqn_learner| Ok(dqn_learner.net().clone()))?;
            return Ok((Exploration::Greedy(net), dqn.obs_dim, dqn.len));
        }
    } else if let Ok(sac) = engine.cast::<PySacEngine>() {
        let sac = sac.get();
        if let ByPrecision::Single(sac_engine) = &sac.engine {
            let net = with_read_lock(py, sac_engine, ALWAYS_RELEASE, |sac_learner| {
                Ok(sac_learner.actor().clone())
            })?;
            return Ok((Exploration::Squashed(net), sac.sizes.obs_dim, sac.sizes.lens[0]));
        }
    } else if let Ok(td3) = engine.cast::<PyTd3Engine>() {
        let td3 = td3.get();
        if let ByPrecision::Single(td3_engine) = &td3.engine {
            let net = with_read_lock(py, td3_engine, ALWAYS_RELEASE, |td3_learner| {
                Ok(td3_learner.actor().clone())
            })?;
            let exploration = Exploration::ActionNoise(net, deviation);
            return Ok((exploration, td3.sizes.obs_dim, td3.sizes.lens[0]));
        }
    } else if let Ok(iql) = engine.cast::<PyIqlEngine>() {
        let iql = iql.get();
        if let ByPrecision::Single(iql_engine) = &iql.engine {
            let net = with_read_lock(py, iql_engine, ALWAYS_RELEASE, |iql_learner| {
                Ok(iql_learner.actor().clone())
            })?;
            return Ok((Exploration::ActionNoise(net, 0.0), iql.sizes.obs_dim, iql.sizes.lens[0]));
        }
    }
    let expected = "expected a DQNEngine, SACEngine, TD3Engine or IQLEngine of precision f32";
    let message = format!("engine is {}, {expected}", coerce::short_repr(engine));
    Err(errors::new(py, ErrorClass::Config, message))
}
