//! Conversion of `rlox_core::Error` to the classes of `rlox.errors`. That module is imported only
//! when an error is raised.

use pyo3::exceptions::{
    PyArithmeticError, PyAttributeError, PyKeyboardInterrupt, PyLookupError, PyRuntimeError, PyTypeError,
    PyValueError,
};
use pyo3::prelude::*;
use pyo3::types::PyType;
use rlox_core::Error;

/// A class of `rlox.errors`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ErrorClass {
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

impl ErrorClass {
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

/// Conversion of a core result to a Python result.
pub(crate) trait OrRaise<T> {
    /// Returns the value, or the exception for the core's error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for rlox_core::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_exception(py, &error))
    }
}

/// Whether `raised` has a type that Python and NumPy raise for values that do not fit. Other
/// exceptions have other causes: a signal handler, for example, may raise while a value is read.
pub(crate) fn is_refusal(py: Python<'_>, raised: &PyErr) -> bool {
    raised.is_instance_of::<PyTypeError>(py)
        || raised.is_instance_of::<PyValueError>(py)
        || raised.is_instance_of::<PyArithmeticError>(py)
        || raised.is_instance_of::<PyLookupError>(py)
        || raised.is_instance_of::<PyAttributeError>(py)
        || raised.is_instance_of::<PyRuntimeError>(py)
}

/// Replacement of Python's exception by an error that names what is wrong with a value.
pub(crate) trait ReplaceRefusal<T> {
    /// Returns the value. An exception for which [`is_refusal`] holds is replaced by what `error`
    /// makes of it.
    fn replace_refusal(self, py: Python<'_>, error: impl FnOnce(&PyErr) -> PyErr) -> PyResult<T>;
}

impl<T> ReplaceRefusal<T> for PyResult<T> {
    fn replace_refusal(self, py: Python<'_>, error: impl FnOnce(&PyErr) -> PyErr) -> PyResult<T> {
        self.map_err(|raised| if is_refusal(py, &raised) { error(&raised) } else { raised })
    }
}

/// Returns the exception for a core error.
fn to_exception(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Config { .. } => ErrorClass::Config,
        Error::Shape { .. } => ErrorClass::Shape,
        Error::UnknownName { .. } => ErrorClass::UnknownName,
        Error::Action { .. } => ErrorClass::Env,
        Error::NonFinite { .. } => ErrorClass::NonFinite,
        Error::StaleIndex { .. } => ErrorClass::StaleIndex,
        Error::Snapshot { .. } | Error::Damaged { .. } | Error::Missing { .. } => ErrorClass::Checkpoint,
        Error::Storage { .. } => ErrorClass::Storage,
        Error::Internal { .. } => ErrorClass::Internal,
        Error::Interrupted => return PyKeyboardInterrupt::new_err(()),
    };
    new(py, class, error.to_string())
}

/// How to move a buffer to another place, for the message of [`not_copyable_error`].
pub(crate) const HOW_TO_MOVE: &str =
    "save writes its rows to a folder, load reads them into a buffer made with the same arguments";

/// Returns the exception for an attempt to pickle or copy `object`. `instead` says what to do instead.
pub(crate) fn not_copyable_error<T>(object: &Bound<'_, T>, instead: &str) -> PyErr {
    let class = object.as_any().get_type();
    let name = class.name().map_or_else(|_| "it".into(), |name| name.to_string());
    PyTypeError::new_err(format!("{name} cannot be pickled or copied: {instead}"))
}

/// Returns an exception of this class, or the import's exception if the class cannot be imported.
pub(crate) fn new(py: Python<'_>, class: ErrorClass, message: impl Into<String>) -> PyErr {
    let class_object = py
        .import("rlox.errors")
        .and_then(|module| module.getattr(class.name()))
        .and_then(|class| Ok(class.cast_into::<PyType>()?));
    match class_object {
        Ok(class) => PyErr::from_type(class, (message.into(),)),
        Err(error) => error,
    }
}
