//! Saved dicts: the results of `snapshot()` and `state()`.

use std::fmt::Display;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::coerce;
use crate::errors::{self, ErrorClass, ReplaceRefusal};

/// A dict that should be the result of `snapshot()` or `state()`.
#[derive(Clone, Copy)]
pub(crate) struct StateDict<'a, 'py> {
    pub(crate) dict: &'a Bound<'py, PyDict>,
    /// The method that returns such a dict; messages call the dict by this name.
    pub(crate) method: &'static str,
}

impl<'py> StateDict<'_, 'py> {
    pub(crate) fn field(self, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.dict.get_item(name)?.ok_or_else(|| {
            let method = self.method;
            let message = format!("{method} has no field {name}; pass what {method}() returned");
            errors::new(self.dict.py(), ErrorClass::Checkpoint, message)
        })
    }

    pub(crate) fn read_field<T>(self, name: &str) -> PyResult<T>
    where
        T: for<'b> FromPyObject<'b, 'py>,
    {
        let value = self.field(name)?;
        value.extract().map_err(Into::into).replace_refusal(self.dict.py(), |_| {
            let shown = coerce::short_repr(&value);
            let message = format!("{} field {name} is {shown}, which has the wrong type", self.method);
            errors::new(self.dict.py(), ErrorClass::Checkpoint, message)
        })
    }

    /// Checks the version of the fields and their meaning.
    pub(crate) fn check_format(self, expected: u32) -> PyResult<()> {
        let format: u32 = self.read_field("format")?;
        if format == expected { Ok(()) } else { Err(self.mismatch_error("format", format, expected)) }
    }

    pub(crate) fn mismatch_error(self, name: &str, got: impl Display, expected: impl Display) -> PyErr {
        let message = format!("{} field {name} is {got}, expected {expected}", self.method);
        errors::new(self.dict.py(), ErrorClass::Checkpoint, message)
    }
}
