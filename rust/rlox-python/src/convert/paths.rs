//! Path arguments from Python.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::coerce::short_repr;
use crate::errors::{self, ErrorClass};

/// A path argument before its conversion. `read` takes its name for messages.
pub(crate) struct PathArg<'py>(Bound<'py, PyAny>);

impl<'py> FromPyObject<'_, 'py> for PathArg<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(value.to_owned()))
    }
}

impl PathArg<'_> {
    /// Returns the path of a `str`, `bytes` or `os.PathLike`. Anything else is a `TypeError`.
    pub(crate) fn read(&self, name: &str) -> PyResult<PathBuf> {
        let py = self.0.py();
        let encoded = py.import("os")?.call_method1(intern!(py, "fsencode"), (&self.0,));
        let encoded = match encoded {
            Ok(encoded) => Some(encoded.cast_into::<PyBytes>()?),
            Err(cause) if cause.is_instance_of::<PyValueError>(py) => None,
            Err(cause) => return Err(cause),
        };
        let bytes = encoded.as_ref().map_or([].as_slice(), PyBytesMethods::as_bytes);
        if bytes.is_empty() || bytes.contains(&0) {
            let message = format!("{name} is {}, expected a path", short_repr(&self.0));
            return Err(errors::new(py, ErrorClass::Config, message));
        }
        Ok(PathBuf::from(OsStr::from_bytes(bytes)))
    }
}
