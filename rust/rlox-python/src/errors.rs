//! `rlox_core::Error` -> the classes of `rlox.errors`, looked up when something is raised.

use pyo3::exceptions::{
    PyArithmeticError, PyAttributeError, PyKeyboardInterrupt, PyLookupError, PyRuntimeError,
    PyTypeError, PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyType;
use rlox_core::Error;

/// A class of `rlox.errors`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Class {
    Config,
    Shape,
    UnknownName,
    UnsupportedSpace,
    Env,
    NonFinite,
    StaleIndex,
    Checkpoint,
    Storage,
    Internal,
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::Config => "ConfigError",
            Self::Shape => "ShapeError",
            Self::UnknownName => "UnknownNameError",
            Self::UnsupportedSpace => "UnsupportedSpaceError",
            Self::Env => "EnvError",
            Self::NonFinite => "NonFiniteError",
            Self::StaleIndex => "StaleIndexError",
            Self::Checkpoint => "CheckpointError",
            Self::Storage => "StorageError",
            Self::Internal => "InternalError",
        }
    }
}

/// A result of the core as Python's.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception for the core's error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for rlox_core::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| raise(py, &error))
    }
}

/// Whether `raised` is what Python and NumPy raise for values that do not fit. Anything else came from
/// elsewhere: a signal handler may raise in the middle of reading any value.
pub(crate) fn is_refusal(py: Python<'_>, raised: &PyErr) -> bool {
    raised.is_instance_of::<PyTypeError>(py)
        || raised.is_instance_of::<PyValueError>(py)
        || raised.is_instance_of::<PyArithmeticError>(py)
        || raised.is_instance_of::<PyLookupError>(py)
        || raised.is_instance_of::<PyAttributeError>(py)
        || raised.is_instance_of::<PyRuntimeError>(py)
}

/// A result of Python's that says what is wrong with a value.
pub(crate) trait OrInstead<T> {
    /// The value, or `error` in the place of what was raised if that [`is_refusal`].
    fn or_instead(self, py: Python<'_>, error: impl FnOnce(&PyErr) -> PyErr) -> PyResult<T>;
}

impl<T> OrInstead<T> for PyResult<T> {
    fn or_instead(self, py: Python<'_>, error: impl FnOnce(&PyErr) -> PyErr) -> PyResult<T> {
        self.map_err(|raised| if is_refusal(py, &raised) { error(&raised) } else { raised })
    }
}

/// The exception for a core error.
fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Config { .. } => Class::Config,
        Error::Shape { .. } => Class::Shape,
        Error::UnknownName { .. } => Class::UnknownName,
        Error::Action { .. } => Class::Env,
        Error::NonFinite { .. } => Class::NonFinite,
        Error::StaleIndex { .. } => Class::StaleIndex,
        Error::Snapshot { .. } | Error::Damaged { .. } | Error::Missing { .. } => Class::Checkpoint,
        Error::Storage { .. } => Class::Storage,
        Error::Internal { .. } => Class::Internal,
        Error::Interrupted => return PyKeyboardInterrupt::new_err(()),
    };
    new(py, class, error.to_string())
}

/// What to do with a buffer that is to go elsewhere.
pub(crate) const SAVED: &str =
    "save writes its rows to a folder, load reads them into a buffer that is made alike";

/// The exception for `pickle` and `copy` of an object, with what to do instead.
pub(crate) fn not_copied<T>(object: &Bound<'_, T>, instead: &str) -> PyErr {
    let class = object.as_any().get_type();
    let name = class.name().map_or_else(|_| "it".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{name} cannot be pickled or copied: {instead}"))
}

/// An exception of the given class; if that cannot be imported, the import's own exception.
pub(crate) fn new(py: Python<'_>, class: Class, message: impl Into<String>) -> PyErr {
    let found = py
        .import("rlox.errors")
        .and_then(|module| module.getattr(class.name()))
        .and_then(|class| Ok(class.cast_into::<PyType>()?));
    match found {
        Ok(class) => PyErr::from_type(class, (message.into(),)),
        Err(error) => error,
    }
}
