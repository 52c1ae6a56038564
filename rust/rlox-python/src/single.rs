//! One native environment, without autoreset: the classes `CartPole`, `Pendulum` and so on.

use numpy::PyUntypedArray;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt};
use rlox_core::env::{Actions, Finals, Precision, Seeding, StepOut, Tiling, VecEnv};
use rlox_core::space::ActionSpace;

use crate::coerce::{self, Number, Text};
use crate::detach::detached;
use crate::errors::{self, Class};
use crate::native_env::PyNativeEnv;
use crate::snapshot;
use crate::views::ViewMut;

type Array<'py> = Bound<'py, PyUntypedArray>;

/// One native environment: `reset` starts an episode, `step` advances it until it ends.
///
/// Its episodes are those of row 0 of `VecEnv(1, seed, env_id)`; after the end of an episode
/// `step` is an error until `reset` is called.
///
/// Args:
///     env_id: one of `native_env_ids()`.
///     seed: episode starts are drawn from `Stream(seed, "env", 0)`.
///
/// Raises:
///     UnknownNameError: `env_id` is not native; names the nearest.
///     ConfigError: the seed is out of range.
#[pyclass(name = "SingleEnv", module = "rlox._core", extends = PyNativeEnv, subclass)]
pub struct PySingleEnv {
    inner: VecEnv,
    episode: Episode,
}

/// Where the episode of a single environment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Episode {
    /// `reset` has not been called yet.
    None,
    Running,
    /// Over; the batch of one has drawn the next start already.
    Over,
}

fn make(py: Python<'_>, env_id: &str, seed: u64) -> PyResult<VecEnv> {
    let make = || VecEnv::tiled(env_id, 1, Seeding::Run(seed), Precision::F64, Tiling::default());
    detached(py, 0, make)
}

impl PySingleEnv {
    /// An environment before its first episode.
    pub(crate) fn init(
        py: Python<'_>,
        env_id: &str,
        seed: &Number<'_>,
    ) -> PyResult<PyClassInitializer<Self>> {
        let inner = make(py, env_id, seed.read("seed", 0)?)?;
        let facts = PyNativeEnv::of(&inner);
        Ok(facts.add_subclass(Self { inner, episode: Episode::None }))
    }

    /// One action as numbers of its kind; both kinds, one of them empty.
    fn action(&self, value: &Bound<'_, PyAny>) -> PyResult<(Vec<i64>, Vec<f32>)> {
        let space = self.inner.spec().action;
        if let ActionSpace::Discrete { n } = space {
            let action = value.extract::<i64>().map_err(|_| {
                let message =
                    format!("action is {}, expected an integer in 0..{n}", coerce::shown(value));
                errors::new(value.py(), Class::Shape, message)
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

    fn observation<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let mut obs = ViewMut::fresh(py, &[self.inner.obs_dim()])?;
        let out = obs.slice_mut();
        detached(py, 0, || self.inner.observe_into(out))?;
        Ok(obs.into_array())
    }
}

#[pymethods]
impl PySingleEnv {
    #[new]
    #[pyo3(signature = (env_id, seed=Number::OMITTED), text_signature = "(env_id, seed=0)")]
    fn new(
        py: Python<'_>,
        env_id: Text<'_>,
        seed: Number<'_>,
    ) -> PyResult<PyClassInitializer<Self>> {
        Self::init(py, &env_id.read("env_id")?, &seed)
    }

    /// Starts an episode; returns its first observation, float32 `[obs_dim]`.
    ///
    /// Args:
    ///     seed: start over as a new environment with this seed; None draws on.
    ///
    /// Raises ConfigError for a seed out of range.
    #[pyo3(signature = (seed=None))]
    fn reset<'py>(&mut self, py: Python<'py>, seed: Option<Number<'_>>) -> PyResult<Array<'py>> {
        if let Some(seed) = seed {
            self.inner = make(py, self.inner.spec().id, seed.read("seed", 0)?)?;
            self.episode = Episode::None;
        }
        if self.episode != Episode::Over {
            let envs = &mut self.inner;
            detached(py, 0, || envs.reset_all())?;
        }
        self.episode = Episode::Running;
        self.observation(py)
    }

    /// Advances the episode by one action.
    ///
    /// Args:
    ///     action: an integer for Discrete; for Box a number, or numbers `[action_dim]`, clipped
    ///         to the bounds by the environment.
    ///
    /// Returns:
    ///     A dict: `obs` float32 `[obs_dim]`, the observation the step reached; `reward` float;
    ///     `terminated` and `truncated` bool. After one of them, call `reset()`.
    ///
    /// Raises:
    ///     EnvError: no episode is running, or an action out of range.
    ///     ShapeError: an action of the wrong kind or size.
    ///     NonFiniteError: an action is NaN or infinite.
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        action: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        if self.episode != Episode::Running {
            let why = if self.episode == Episode::Over {
                "the episode is over"
            } else {
                "no episode has begun"
            };
            let message = format!("{why}; call reset() before step()");
            return Err(errors::new(py, Class::Env, message));
        }
        let (integers, numbers) = self.action(action)?;
        let actions = match self.inner.spec().action {
            ActionSpace::Discrete { .. } => Actions::Discrete(&integers),
            ActionSpace::Box(_) => Actions::Box(&numbers),
        };
        let mut obs = ViewMut::<f32>::fresh(py, &[self.inner.obs_dim()])?;
        let (mut reward, mut terminated, mut truncated) = ([0.0], [false], [false]);
        let out = StepOut {
            obs: obs.slice_mut(),
            rewards: &mut reward,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        let envs = &mut self.inner;
        detached(py, 0, || envs.step_into(actions, out))?;
        let Finals { obs: last, .. } = envs.finals();
        if !last.is_empty() {
            self.episode = Episode::Over;
            obs.slice_mut().copy_from_slice(last);
        }
        let ([reward], [terminated], [truncated]) = (reward, terminated, truncated);
        let result = PyDict::new(py);
        result.set_item(intern!(py, "obs"), obs.into_array())?;
        result.set_item(intern!(py, "reward"), reward)?;
        result.set_item(intern!(py, "terminated"), terminated)?;
        result.set_item(intern!(py, "truncated"), truncated)?;
        Ok(result)
    }

    /// The state, float64 `[state_dim]`; between episodes that of the next one's start.
    fn get_state<'py>(&self, py: Python<'py>) -> PyResult<Array<'py>> {
        let mut state = ViewMut::<f64>::fresh(py, &[self.inner.spec().state_dim])?;
        let out = state.slice_mut();
        detached(py, 0, || self.inner.get_state(out))?;
        Ok(state.into_array())
    }

    /// Replaces the state by finite numbers `[state_dim]`, and, unless None, the number of steps
    /// taken in the episode, which is below `max_episode_steps`. Starts an episode if none is running.
    ///
    /// Raises ShapeError, NonFiniteError or ConfigError for what does not fit; nothing changes.
    #[pyo3(signature = (state, elapsed=None))]
    fn set_state(
        &mut self,
        py: Python<'_>,
        state: &Bound<'_, PyAny>,
        elapsed: Option<Number<'_>>,
    ) -> PyResult<()> {
        let state = coerce::array(state, "state")?;
        coerce::check_shape(&state, "state", &[self.inner.spec().state_dim], "state_dim")?;
        let state = coerce::numbers::<f64>(&state, "state")?;
        let elapsed = match elapsed {
            Some(steps) => Some([u32::try_from(steps.read("elapsed", 0)?).unwrap_or(u32::MAX)]),
            None => None,
        };
        let (envs, state) = (&mut self.inner, state.slice());
        let steps = elapsed.as_ref().map(<[u32; 1]>::as_slice);
        detached(py, 0, || envs.set_state(state, steps))?;
        self.episode = Episode::Running;
        Ok(())
    }

    /// Everything needed to continue exactly here: the dict of `VecEnv.snapshot()` for one
    /// environment, and `episode`, 0 before the first, 1 while one is running, 2 after its end.
    fn snapshot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = snapshot::to_dict(py, &self.inner)?;
        dict.set_item("episode", self.episode as u8)?;
        Ok(dict)
    }

    /// Continues from a `snapshot()` of the same environment, made under any seed.
    ///
    /// Raises:
    ///     CheckpointError: a field is missing, or of another environment or format.
    ///     ShapeError, NonFiniteError, ConfigError: an array does not fit; nothing changes.
    fn restore(&mut self, py: Python<'_>, snapshot: &Bound<'_, PyDict>) -> PyResult<()> {
        let number: u8 = snapshot::scalar(snapshot, "episode")?;
        let all = [Episode::None, Episode::Running, Episode::Over];
        let Some(episode) = all.into_iter().find(|&episode| episode as u8 == number) else {
            let message = format!("snapshot field episode is {number}, expected 0, 1 or 2");
            return Err(errors::new(py, Class::Checkpoint, message));
        };
        let saved = snapshot::from_dict(snapshot, &self.inner)?;
        detached(py, 0, || self.inner.restore(&saved))?;
        self.episode = episode;
        Ok(())
    }
}

/// A class for one environment id.
macro_rules! single {
    ($class:ident, $name:literal, $id:literal, $doc:literal) => {
        #[doc = $doc]
        ///
        /// Args:
        ///     seed: episode starts are drawn from `Stream(seed, "env", 0)`.
        #[pyclass(name = $name, module = "rlox._core", extends = PySingleEnv)]
        pub(crate) struct $class;

        #[pymethods]
        impl $class {
            #[new]
            #[pyo3(signature = (seed=Number::OMITTED), text_signature = "(seed=0)")]
            fn new(py: Python<'_>, seed: Number<'_>) -> PyResult<PyClassInitializer<Self>> {
                Ok(PySingleEnv::init(py, $id, &seed)?.add_subclass(Self))
            }
        }
    };
}

single!(PyAcrobot, "Acrobot", "Acrobot-v1", "One `Acrobot-v1`; see `SingleEnv`.");
single!(PyCartPole, "CartPole", "CartPole-v1", "One `CartPole-v1`; see `SingleEnv`.");
single!(PyMountainCar, "MountainCar", "MountainCar-v0", "One `MountainCar-v0`; see `SingleEnv`.");
single!(
    PyMountainCarContinuous,
    "MountainCarContinuous",
    "MountainCarContinuous-v0",
    "One `MountainCarContinuous-v0`; see `SingleEnv`."
);
single!(PyPendulum, "Pendulum", "Pendulum-v1", "One `Pendulum-v1`; see `SingleEnv`.");
