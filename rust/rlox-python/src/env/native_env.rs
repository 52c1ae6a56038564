//! Fixed properties of a native environment: the base of the classes that step it.

use numpy::PyArray1;
use pyo3::prelude::*;
use rlox_core::env::registry::{self, Entry};
use rlox_core::env::{Precision, Spec, VecEnv};
use rlox_core::space::ActionSpace;

use crate::errors::{self, ErrorClass, OrRaise};
use crate::interpreter;

type Array1<'py, T> = Bound<'py, PyArray1<T>>;

/// The fixed properties of a native environment; created as a `VecEnv` or a `SingleEnv`.
#[pyclass(name = "NativeEnv", module = "rlox._core", subclass, frozen)]
pub struct PyNativeEnv {
    spec: &'static Spec,
}

impl PyNativeEnv {
    /// Returns the base of an object that steps `envs`.
    pub(crate) fn from_envs(envs: &VecEnv) -> PyClassInitializer<Self> {
        PyClassInitializer::from(Self { spec: envs.spec() })
    }
}

/// Registers an environment for this module's classes. Modules that build on this crate call it.
///
/// # Errors
/// `rlox.errors.ConfigError` if its id is taken or its properties contradict each other.
pub fn register(py: Python<'_>, entry: Entry) -> PyResult<()> {
    interpreter::prepare(py)?;
    registry::register(entry).or_raise(py)
}

/// Returns the precision of this name.
pub(crate) fn precision(py: Python<'_>, name: &str) -> PyResult<Precision> {
    Precision::ALL.into_iter().find(|precision| precision.name() == name).ok_or_else(|| {
        let message = format!("precision is {name:?}, expected \"f64\" or \"f32\"");
        errors::new(py, ErrorClass::Config, message)
    })
}

#[pymethods]
impl PyNativeEnv {
    fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
        Ok(format!("{}(env_id='{}')", slf.get_type().name()?, slf.get().spec.id))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        let instead =
            "snapshot returns its state, restore puts that into an object made with the same arguments";
        Err(errors::not_copyable_error(slf, instead))
    }

    /// Gymnasium's id of the environment.
    #[getter]
    fn env_id(&self) -> &'static str {
        self.spec.id
    }

    /// Numbers per observation.
    #[getter]
    fn obs_dim(&self) -> usize {
        self.spec.observation.dim()
    }

    /// Numbers in the state of one environment.
    #[getter]
    fn state_dim(&self) -> usize {
        self.spec.state_dim
    }

    /// Steps after which an episode is truncated.
    #[getter]
    fn max_episode_steps(&self) -> u32 {
        self.spec.max_episode_steps
    }

    /// Number of actions of a Discrete space, None for Box.
    #[getter]
    fn n_actions(&self) -> Option<usize> {
        match self.spec.action {
            ActionSpace::Discrete { n } => Some(n),
            ActionSpace::Box(_) => None,
        }
    }

    /// Numbers per action: 1 for Discrete.
    #[getter]
    fn action_dim(&self) -> usize {
        self.spec.action.dim()
    }

    /// Lowest action, float32 `[action_dim]`, None for Discrete.
    #[getter]
    fn action_low<'py>(&self, py: Python<'py>) -> Option<Array1<'py, f32>> {
        self.spec.action.bounds().map(|space| PyArray1::from_slice(py, space.low))
    }

    /// Highest action, float32 `[action_dim]`, None for Discrete.
    #[getter]
    fn action_high<'py>(&self, py: Python<'py>) -> Option<Array1<'py, f32>> {
        self.spec.action.bounds().map(|space| PyArray1::from_slice(py, space.high))
    }

    /// Lowest observation, float32 `[obs_dim]`, minus infinity where unbounded.
    #[getter]
    fn observation_low<'py>(&self, py: Python<'py>) -> Array1<'py, f32> {
        PyArray1::from_slice(py, self.spec.observation.low)
    }

    /// Highest observation, float32 `[obs_dim]`, infinity where unbounded.
    #[getter]
    fn observation_high<'py>(&self, py: Python<'py>) -> Array1<'py, f32> {
        PyArray1::from_slice(py, self.spec.observation.high)
    }
}
