//! Native environments for Python.

use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::env::{
    DenseFinalObs, PARALLEL_FROM, Precision, SHARD_SIZE, Seeding, Spec, StepOut, Tiling, VecEnv,
};
use rlox_core::{Error, Shared};

use super::actions::ActionArray;
use super::native_env::{self, PyNativeEnv};
use super::snapshot;
use super::step::{self, FinalArrays};
use crate::convert::arg;
use crate::convert::coerce;
use crate::detach::{detached, with_read_lock, with_write_lock};
use crate::errors::OrRaise;
use crate::memory::views::ViewMut;

type Array<'py> = Bound<'py, PyUntypedArray>;

// The defaults in the signature are those of the core.
const _: () = assert!(SHARD_SIZE == 1024 && PARALLEL_FROM == 16384);

/// `n` native environments that step as one batch, with time limits and SAME_STEP autoreset.
///
/// An environment whose episode ends starts its next one within the same step. Results depend on
/// the seeds and the actions only, not on threads or on the number of environments. Several threads
/// may call one object: a call waits until the one before it has returned.
///
/// Args:
///     n: number of environments, 1 to 2**24.
///     seed: environment i draws its episode starts from `Stream(seed, "env", i)`.
///     env_id: one of `native_env_ids()`.
///     seeds: explicit integers, `[n]`, instead of `seed`: environment i draws from
///         `Stream(seeds[i], "env", 0)`, at any position in the batch.
///     shard: number of environments that step together on one thread; never changes a result.
///     parallel_from: smallest `n` for which threads share the environments; never changes a result.
///     precision: "f64" steps as Gymnasium does; "f32" stores and steps the state in float32, 1.3
///         to 2.5 times as fast at 2,048 environments. The deviation is stated and tested for each
///         environment.
///
/// Raises:
///     UnknownNameError: `env_id` is not native; the message has the nearest id.
///     ConfigError: `n`, a seed or `shard` is out of range, `seeds` is passed with a `seed` other
///         than 0, or `env_id` has no kernel of that precision.
///     ShapeError: the length of `seeds` is not `n`.
#[pyclass(name = "VecEnv", module = "rlox._core", extends = PyNativeEnv, frozen)]
pub struct PyVecEnv {
    /// The fixed properties, read without the lock.
    spec: &'static Spec,
    n: usize,
    precision: Precision,
    envs: Shared<VecEnv>,
}

impl PyVecEnv {
    fn obs_shape(&self) -> [usize; 2] {
        [self.n, self.spec.observation.dim()]
    }

    /// Returns the environments, their number, and the estimated nanoseconds for one step of all.
    pub(crate) fn parts(&self) -> (&Shared<VecEnv>, usize, usize) {
        (&self.envs, self.n, self.step_nanoseconds())
    }

    /// Estimated nanoseconds for one step of all environments.
    fn step_nanoseconds(&self) -> usize {
        self.n * self.spec.nanoseconds_per_step
    }
}

#[pymethods]
impl PyVecEnv {
    #[new]
    #[pyo3(
        signature = (n, seed=0, env_id="CartPole-v1", *, seeds=None,
            shard=1024, parallel_from=16384, precision="f64")
    )]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arg::size::n)] n: usize,
        #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
        #[pyo3(from_py_with = arg::text::env_id)] env_id: &str,
        seeds: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = arg::size::shard)] shard: usize,
        #[pyo3(from_py_with = arg::size::parallel_from)] parallel_from: usize,
        #[pyo3(from_py_with = arg::text::precision)] precision: &str,
    ) -> PyResult<PyClassInitializer<Self>> {
        if seeds.is_some() && seed != 0 {
            return Err(Error::config("seed", seed, "no seed together with seeds")).or_raise(py);
        }
        let seeding = match seeds {
            Some(seeds) => Seeding::PerEnv(
                seeds.try_iter()?.map(|seed| coerce::unsigned(&seed?, "seeds")).collect::<PyResult<_>>()?,
            ),
            None => Seeding::Run(seed),
        };
        let tiling = Tiling { shard_size: shard, parallel_from };
        let precision = native_env::precision(py, precision)?;
        let make = || VecEnv::with_tiling(env_id, n, seeding, precision, tiling);
        let inner = detached(py, n.saturating_mul(300), make)?;
        let base = PyNativeEnv::from_envs(&inner);
        let (spec, n, precision) = (inner.spec(), inner.n_envs(), inner.precision());
        Ok(base.add_subclass(Self { spec, n, precision, envs: Shared::new(inner) }))
    }

    /// Starts a new episode in every environment; returns the observations, float32 `[n, obs_dim]`.
    fn reset_all<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let mut obs = ViewMut::fresh(py, &self.obs_shape())?;
        let out = obs.slice_mut();
        with_write_lock(py, &self.envs, self.n * 100, |envs| {
            envs.reset_all()?;
            envs.observe_into(out)
        })?;
        Ok(obs.into_array())
    }

    /// Writes the current observations into `obs`, a C-contiguous float32 array `[n, obs_dim]`.
    ///
    /// Raises ShapeError if `obs` is anything else.
    fn observe_into(&self, py: Python<'_>, obs: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut obs = coerce::output::<f32>(obs, "obs", &self.obs_shape())?;
        let out = obs.slice_mut();
        with_read_lock(py, &self.envs, self.step_nanoseconds(), |envs| envs.observe_into(out))
    }

    /// Steps every environment once.
    ///
    /// Args:
    ///     actions: integers `[n]` for Discrete, numbers `[n, action_dim]` for Box (or `[n]` if
    ///         action_dim is 1); the environment clips them to the bounds.
    ///
    /// Returns:
    ///     A dict of new arrays: `obs` float32 `[n, obs_dim]`, the first observation of the next
    ///     episode where one ended; `rewards` float64 `[n]`; `terminated` and `truncated` bool
    ///     `[n]`; `final_obs` float32 `[n, obs_dim]`, the observation that each step reached: the
    ///     last one of the episode where one ended, elsewhere `obs`; `final_mask` bool `[n]`, True
    ///     where an episode ended.
    ///
    /// Raises:
    ///     ShapeError: the number or dtype of actions is wrong.
    ///     EnvError: an action is out of range.
    ///     NonFiniteError: an action is NaN or infinite.
    fn step_all<'py>(&self, py: Python<'py>, actions: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let (n, shape) = (self.n, self.obs_shape());
        let actions = ActionArray::read(actions, &self.spec.action, n)?;
        let (mut obs, mut final_obs) = (ViewMut::fresh(py, &shape)?, ViewMut::fresh(py, &shape)?);
        let mut rewards = ViewMut::fresh(py, &[n])?;
        let [mut terminated, mut truncated, mut final_mask] =
            [ViewMut::fresh(py, &[n])?, ViewMut::fresh(py, &[n])?, ViewMut::fresh(py, &[n])?];
        let (final_obs_out, mask) = (final_obs.slice_mut(), final_mask.slice_mut());
        let out = StepOut {
            obs: obs.slice_mut(),
            rewards: rewards.slice_mut(),
            terminated: terminated.slice_mut(),
            truncated: truncated.slice_mut(),
        };
        let actions = actions.view();
        with_write_lock(py, &self.envs, self.step_nanoseconds(), |envs| {
            envs.step_dense(actions, out, DenseFinalObs { obs: final_obs_out, mask })
        })?;
        let result = step::new_step_dict(py)?;
        result.set_item(intern!(py, "obs"), obs.into_array())?;
        result.set_item(intern!(py, "rewards"), rewards.into_array())?;
        result.set_item(intern!(py, "terminated"), terminated.into_array())?;
        result.set_item(intern!(py, "truncated"), truncated.into_array())?;
        result.set_item(intern!(py, "final_obs"), final_obs.into_array())?;
        result.set_item(intern!(py, "final_mask"), final_mask.into_array())?;
        Ok(result)
    }

    /// Steps every environment once and writes the results into the caller's arrays.
    ///
    /// Args:
    ///     actions: the same as for `step_all`; int64 or float32 C-contiguous arrays are not
    ///         copied.
    ///     obs: float32 `[n, obs_dim]`.
    ///     rewards: float64 `[n]`.
    ///     terminated: bool `[n]`.
    ///     truncated: bool `[n]`.
    ///
    /// Returns:
    ///     None if no episode ended, else `(indices, final_obs)`: the indices of the environments,
    ///     int64 `[k]`, ascending, and the last observations of their ended episodes, float32
    ///     `[k, obs_dim]`.
    ///
    /// Raises:
    ///     ShapeError: an output is not C-contiguous, writeable and of that dtype and shape, or
    ///         shares memory with another argument; or the number or dtype of actions is wrong.
    ///     EnvError: an action is out of range.
    ///     NonFiniteError: an action is NaN or infinite.
    fn step_into<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        terminated: &Bound<'py, PyAny>,
        truncated: &Bound<'py, PyAny>,
    ) -> PyResult<Option<FinalArrays<'py>>> {
        let n = self.n;
        let actions = ActionArray::read(actions, &self.spec.action, n)?;
        let mut obs = coerce::output(obs, "obs", &self.obs_shape())?;
        let mut rewards = coerce::output(rewards, "rewards", &[n])?;
        let mut terminated = coerce::output(terminated, "terminated", &[n])?;
        let mut truncated = coerce::output(truncated, "truncated", &[n])?;
        let out = StepOut {
            obs: obs.slice_mut(),
            rewards: rewards.slice_mut(),
            terminated: terminated.slice_mut(),
            truncated: truncated.slice_mut(),
        };
        let actions = actions.view();
        let ended_episodes = with_write_lock(py, &self.envs, self.step_nanoseconds(), |envs| {
            envs.step_into(actions, out)?;
            Ok(step::ended_episodes(envs))
        })?;
        ended_episodes.map(|ended| ended.into_arrays(py)).transpose()
    }

    /// The state of every environment, float64 `[n, state_dim]`.
    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let mut state = ViewMut::<f64>::fresh(py, &[self.n, self.spec.state_dim])?;
        let out = state.slice_mut();
        with_read_lock(py, &self.envs, self.step_nanoseconds(), |envs| envs.get_state(out))?;
        Ok(state.into_array())
    }

    /// Replaces the state of every environment. It is rounded to float32 where the environment
    /// stores it in float32 (precision "f32", and MountainCarContinuous-v0 as in Gymnasium).
    /// Streams and step counts do not change.
    ///
    /// Args:
    ///     state: finite numbers `[n, state_dim]`.
    ///     elapsed: steps already taken in each running episode, integers `[n]`, each below
    ///         `max_episode_steps`; None keeps the present counts.
    ///
    /// Raises:
    ///     ShapeError, NonFiniteError, ConfigError: an argument does not fit; nothing changes.
    #[pyo3(signature = (state, elapsed=None))]
    fn set_state<'py>(
        &self,
        py: Python<'py>,
        state: &Bound<'py, PyAny>,
        elapsed: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let state = coerce::array(state, "state")?;
        let shape = [self.n, self.spec.state_dim];
        coerce::check_shape(&state, "state", &shape, "n_envs, state_dim")?;
        let state = coerce::numbers::<f64>(&state, "state")?;
        let elapsed =
            elapsed.map(|steps| snapshot::read_step_counts(steps, "elapsed", self.n)).transpose()?;
        let state = state.slice();
        with_write_lock(py, &self.envs, self.step_nanoseconds(), |envs| {
            envs.set_state(state, elapsed.as_deref())
        })
    }

    /// The complete state, as a dict of arrays, integers and strings: `format`, `env_id`,
    /// `precision`, `n_envs`, `state`, `elapsed`, and each stream's `seeds`, `indices` and
    /// `positions`.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let env_snapshot = with_read_lock(py, &self.envs, self.n * 20, VecEnv::snapshot)?;
        snapshot::to_dict(py, env_snapshot, self.spec)
    }

    /// Continues from a `snapshot()` of the same environment, precision and size, which may have
    /// had any seed.
    ///
    /// Raises:
    ///     CheckpointError: a field is missing, or is of another environment, precision, size or
    ///         format.
    ///     ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
    fn restore(&self, py: Python<'_>, snapshot: &Bound<'_, PyDict>) -> PyResult<()> {
        let env_snapshot = snapshot::from_dict(snapshot, self.spec, self.n)?;
        with_write_lock(py, &self.envs, self.n * 100, |envs| envs.restore(&env_snapshot))
    }

    /// Number of environments.
    #[getter]
    fn n_envs(&self) -> usize {
        self.n
    }

    fn __repr__(&self) -> String {
        let precision = self.precision.name();
        format!("VecEnv({}, env_id='{}', precision='{precision}')", self.n, self.spec.id)
    }

    /// Precision in which the environments step: "f64" or "f32".
    #[getter]
    fn precision(&self) -> &'static str {
        self.precision.name()
    }
}
