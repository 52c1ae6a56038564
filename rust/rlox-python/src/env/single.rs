//! One native environment, without autoreset: the classes `CartPole`, `Pendulum` and so on.

use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt};
use rlox_core::Result;
use rlox_core::Shared;
use rlox_core::env::{Actions, Precision, Seeding, Spec, StepOut, Tiling, VecEnv};
use rlox_core::space::ActionSpace;

use super::native_env::PyNativeEnv;
use super::snapshot;
use crate::convert::arg;
use crate::convert::coerce;
use crate::detach::{detached, with_read_lock, with_write_lock};
use crate::errors::{self, ErrorClass, ReplaceRefusal};
use crate::memory::views::ViewMut;

type Array<'py> = Bound<'py, PyUntypedArray>;

/// One native environment: `reset` starts an episode, `step` advances it until it ends.
///
/// Its episodes are those of row 0 of `VecEnv(1, seed, env_id)`. After the end of an episode `step`
/// is an error until `reset` is called.
///
/// Args:
///     env_id: one of `native_env_ids()`.
///     seed: episode starts are drawn from `Stream(seed, "env", 0)`.
///
/// Raises:
///     UnknownNameError: `env_id` is not native; the message has the nearest id.
///     ConfigError: the seed is out of range.
#[pyclass(name = "SingleEnv", module = "rlox._core", extends = PyNativeEnv, subclass, frozen)]
pub struct PySingleEnv {
    spec: &'static Spec,
    env: Shared<EnvWithEpisode>,
}

/// The environment, as a batch of one, and the status of its episode.
struct EnvWithEpisode {
    envs: VecEnv,
    episode: EpisodeStatus,
}

/// The status of the episode of a single environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EpisodeStatus {
    /// `reset` has not been called yet.
    NotStarted,
    Running,
    /// The episode is over. The batch of one has already drawn the next start.
    Over,
}

/// The result of a step without the observation.
struct StepResult {
    reward: f64,
    terminated: bool,
    truncated: bool,
}

/// Estimated nanoseconds of a call for one environment: too few for a release of the GIL.
const STEP_NANOSECONDS: usize = 100;

fn make_env(env_id: &str, seed: u64) -> Result<VecEnv> {
    VecEnv::with_tiling(env_id, 1, Seeding::Run(seed), Precision::F64, Tiling::default())
}

impl EnvWithEpisode {
    /// Starts an episode; with a seed, in a new environment with that seed.
    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        if let Some(seed) = seed {
            self.envs = make_env(self.envs.spec().id, seed)?;
            self.episode = EpisodeStatus::NotStarted;
        }
        if self.episode != EpisodeStatus::Over {
            self.envs.reset_all()?;
        }
        self.episode = EpisodeStatus::Running;
        self.envs.observe_into(obs)
    }

    /// Takes a step. Writes the observation that the step reached, even if it is the last one of the
    /// episode.
    fn step(&mut self, actions: Actions<'_>, obs: &mut [f32]) -> Result<StepResult> {
        let (mut reward, mut terminated, mut truncated) = ([0.0], [false], [false]);
        let out = StepOut {
            obs: &mut *obs,
            rewards: &mut reward,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        self.envs.step_into(actions, out)?;
        let last = self.envs.episode_ends().obs;
        if !last.is_empty() {
            self.episode = EpisodeStatus::Over;
            obs.copy_from_slice(last);
        }
        let ([reward], [terminated], [truncated]) = (reward, terminated, truncated);
        Ok(StepResult { reward, terminated, truncated })
    }
}

impl PySingleEnv {
    /// Returns an environment before its first episode.
    pub(crate) fn init(py: Python<'_>, env_id: &str, seed: u64) -> PyResult<PyClassInitializer<Self>> {
        let envs = detached(py, STEP_NANOSECONDS, || make_env(env_id, seed))?;
        let (base, spec) = (PyNativeEnv::from_envs(&envs), envs.spec());
        let env = Shared::new(EnvWithEpisode { envs, episode: EpisodeStatus::NotStarted });
        Ok(base.add_subclass(Self { spec, env }))
    }

    /// Reads one action as (integers, floats). The vector of the kind that the space does not take
    /// is empty.
    fn read_action(&self, value: &Bound<'_, PyAny>) -> PyResult<(Vec<i64>, Vec<f32>)> {
        let space = self.spec.action;
        if let ActionSpace::Discrete { n } = space {
            let action = value.extract::<i64>().replace_refusal(value.py(), |_| {
                let message = format!(
                    "action is {}, expected an integer from 0 to {}",
                    coerce::short_repr(value),
                    n - 1
                );
                errors::new(value.py(), ErrorClass::Shape, message)
            })?;
            return Ok((vec![action], vec![]));
        }
        if value.cast::<PyFloat>().is_ok() || value.cast::<PyInt>().is_ok() {
            #[expect(clippy::cast_possible_truncation, reason = "actions are float32")]
            let number = coerce::real(value, "action")? as f32;
            return Ok((vec![], vec![number]));
        }
        let array = coerce::array(value, "action")?;
        Ok((vec![], coerce::numbers::<f32>(&array, "action")?.slice().to_vec()))
    }
}

#[pymethods]
impl PySingleEnv {
    #[new]
    #[pyo3(signature = (env_id, seed=0))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arg::text::env_id)] env_id: &str,
        #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
    ) -> PyResult<PyClassInitializer<Self>> {
        Self::init(py, env_id, seed)
    }

    /// Starts an episode; returns its first observation, float32 `[obs_dim]`.
    ///
    /// Args:
    ///     seed: start over as a new environment with this seed; None: draw the next episode start.
    ///
    /// Raises ConfigError for a seed out of range.
    #[pyo3(signature = (seed=None))]
    fn reset<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::optional_integer::seed)] seed: Option<u64>,
    ) -> PyResult<Array<'py>> {
        let mut obs = ViewMut::fresh(py, &[self.spec.observation.dim()])?;
        let out = obs.slice_mut();
        with_write_lock(py, &self.env, STEP_NANOSECONDS, |env| env.reset(seed, out))?;
        Ok(obs.into_array())
    }

    /// Advances the episode by one action.
    ///
    /// Args:
    ///     action: an integer for Discrete; for Box a number, or numbers `[action_dim]`, which the
    ///         environment clips to its bounds.
    ///
    /// Returns:
    ///     A dict: `obs` float32 `[obs_dim]`, the observation that the step reached; `reward`
    ///     float; `terminated` and `truncated` bool. If one of these is True, call `reset()` next.
    ///
    /// Raises:
    ///     EnvError: no episode is running, or an action is out of range.
    ///     ShapeError: an action has the wrong kind or size.
    ///     NonFiniteError: an action is NaN or infinite.
    fn step<'py>(&self, py: Python<'py>, action: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let (integers, numbers) = self.read_action(action)?;
        let actions = match self.spec.action {
            ActionSpace::Discrete { .. } => Actions::Discrete(&integers),
            ActionSpace::Box(_) => Actions::Box(&numbers),
        };
        let mut obs = ViewMut::<f32>::fresh(py, &[self.spec.observation.dim()])?;
        let out = obs.slice_mut();
        let step_result = with_write_lock(py, &self.env, STEP_NANOSECONDS, |env| match env.episode {
            EpisodeStatus::Running => env.step(actions, out).map(Ok),
            EpisodeStatus::NotStarted => Ok(Err("no episode has begun")),
            EpisodeStatus::Over => Ok(Err("the episode is over")),
        })?;
        let finished_step = step_result
            .map_err(|why| errors::new(py, ErrorClass::Env, format!("{why}; call reset() before step()")))?;
        let result = PyDict::new(py);
        result.set_item(intern!(py, "obs"), obs.into_array())?;
        result.set_item(intern!(py, "reward"), finished_step.reward)?;
        result.set_item(intern!(py, "terminated"), finished_step.terminated)?;
        result.set_item(intern!(py, "truncated"), finished_step.truncated)?;
        Ok(result)
    }

    /// The state, float64 `[state_dim]`; between episodes the start of the next one.
    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let mut state = ViewMut::<f64>::fresh(py, &[self.spec.state_dim])?;
        let out = state.slice_mut();
        with_read_lock(py, &self.env, STEP_NANOSECONDS, |env| env.envs.get_state(out))?;
        Ok(state.into_array())
    }

    /// Replaces the state by finite numbers `[state_dim]` and, unless `elapsed` is None, the number
    /// of steps taken in the episode (below `max_episode_steps`). Starts an episode if none
    /// is running.
    ///
    /// Raises ShapeError, NonFiniteError or ConfigError for arguments that do not fit; nothing
    /// changes.
    #[pyo3(signature = (state, elapsed=None))]
    fn set_state(
        &self,
        py: Python<'_>,
        state: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::optional_integer::elapsed)] elapsed: Option<u64>,
    ) -> PyResult<()> {
        let state = coerce::array(state, "state")?;
        coerce::check_shape(&state, "state", &[self.spec.state_dim], "state_dim")?;
        let state = coerce::numbers::<f64>(&state, "state")?;
        let elapsed = elapsed.map(|steps| [u32::try_from(steps).unwrap_or(u32::MAX)]);
        let (state, steps) = (state.slice(), elapsed.as_ref().map(<[u32; 1]>::as_slice));
        with_write_lock(py, &self.env, STEP_NANOSECONDS, |env| {
            env.envs.set_state(state, steps)?;
            env.episode = EpisodeStatus::Running;
            Ok(())
        })
    }

    /// The complete state: the dict of `VecEnv.snapshot()` for one environment, and `episode`,
    /// which is 0 before the first episode, 1 while one is running and 2 after its end.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (env_snapshot, episode) =
            with_read_lock(py, &self.env, STEP_NANOSECONDS, |env| Ok((env.envs.snapshot()?, env.episode)))?;
        let dict = snapshot::to_dict(py, env_snapshot, self.spec)?;
        dict.set_item("episode", episode as u8)?;
        Ok(dict)
    }

    /// Continues from a `snapshot()` of the same environment, which may have had any seed.
    ///
    /// Raises:
    ///     CheckpointError: a field is missing, or is of another environment or format.
    ///     ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
    fn restore(&self, py: Python<'_>, snapshot: &Bound<'_, PyDict>) -> PyResult<()> {
        let number: u8 = snapshot::as_state_dict(snapshot).read_field("episode")?;
        let statuses = [EpisodeStatus::NotStarted, EpisodeStatus::Running, EpisodeStatus::Over];
        let Some(episode) = statuses.into_iter().find(|&episode| episode as u8 == number) else {
            let message = format!("snapshot field episode is {number}, expected 0, 1 or 2");
            return Err(errors::new(py, ErrorClass::Checkpoint, message));
        };
        let env_snapshot = snapshot::from_dict(snapshot, self.spec, 1)?;
        with_write_lock(py, &self.env, STEP_NANOSECONDS, |env| {
            env.envs.restore(&env_snapshot)?;
            env.episode = episode;
            Ok(())
        })
    }
}

/// Defines a class for one environment id.
macro_rules! single_env_class {
    ($class:ident, $name:literal, $id:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Args:
        ///     seed: episode starts are drawn from `Stream(seed, "env", 0)`.
        #[pyclass(name = $name, module = "rlox._core", extends = PySingleEnv, frozen)]
        pub(crate) struct $class;

        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (seed=0))]
            fn new(
                py: Python<'_>,
                #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
            ) -> PyResult<PyClassInitializer<Self>> {
                Ok(PySingleEnv::init(py, $id, seed)?.add_subclass(Self))
            }
        }
    };
}

single_env_class!(PyAcrobot, "Acrobot", "Acrobot-v1", "One `Acrobot-v1`; see `SingleEnv`.");
single_env_class!(PyCartPole, "CartPole", "CartPole-v1", "One `CartPole-v1`; see `SingleEnv`.");
single_env_class!(PyMountainCar, "MountainCar", "MountainCar-v0", "One `MountainCar-v0`; see `SingleEnv`.");
single_env_class!(
    PyMountainCarContinuous,
    "MountainCarContinuous",
    "MountainCarContinuous-v0",
    "One `MountainCarContinuous-v0`; see `SingleEnv`."
);
single_env_class!(PyPendulum, "Pendulum", "Pendulum-v1", "One `Pendulum-v1`; see `SingleEnv`.");
