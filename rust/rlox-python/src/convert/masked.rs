//! Refusal of masked arrays (`numpy.ma`): NumPy's conversion would read the numbers under the mask.

use numpy::PyUntypedArray;
use pyo3::prelude::*;

use crate::errors::{self, ErrorClass};

/// Refuses an array with masked elements: the numbers under a mask are not the caller's data.
#[inline]
pub(crate) fn refuse(array: &Bound<'_, PyUntypedArray>, name: &str) -> PyResult<()> {
    if array.is_exact_instance_of::<PyUntypedArray>() { Ok(()) } else { check_mask(array, name) }
}

#[cold]
fn check_mask(array: &Bound<'_, PyUntypedArray>, name: &str) -> PyResult<()> {
    let py = array.py();
    if !py.import("numpy.ma")?.call_method1("is_masked", (array,))?.is_truthy()? {
        return Ok(());
    }
    let message = format!(
        "{name}: some of it is masked, expected numbers; fill it, .filled(...), or leave it out, \
         .compressed()"
    );
    Err(errors::new(py, ErrorClass::Shape, message))
}
