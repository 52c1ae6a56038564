//! Conversions of a dataset's input arrays and of observations.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::{Dtype, Field};

use crate::convert::coerce;
use crate::errors::{self, Class};

/// Applies `work` in float64 to observations, `[..., *row]`, and returns the result in the
/// precision of the array.
pub(super) fn arithmetic<'py>(
    obs: &Bound<'py, PyAny>,
    row: &[usize],
    work: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = coerce::array(obs, "obs")?;
    let wrong = |message| Err(errors::new(obs.py(), Class::Shape, message));
    if !b"fiub".contains(&array.dtype().kind()) {
        return wrong(format!("obs has dtype {}, expected numbers", array.dtype()));
    }
    if !array.shape().ends_with(row) {
        return wrong(format!("obs has shape {:?}, expected [..., {row:?}]", array.shape()));
    }
    let single = array.dtype().kind() == b'f' && array.dtype().itemsize() == 4;
    let result = work(&array.as_any().call_method1("astype", ("float64",))?)?;
    if single { result.call_method1("astype", ("float32",)) } else { Ok(result) }
}

/// Reads an array of `n` rows, `[n, ...]`, `[n]` or flat, and returns its column.
pub(super) fn rows_of<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    n: usize,
) -> PyResult<(Bound<'py, PyUntypedArray>, Field)> {
    let array = coerce::array(value, name)?;
    let dtype = match (array.dtype().kind(), array.dtype().itemsize()) {
        (b'f', 8) => Dtype::F64,
        (b'u', 1) => Dtype::U8,
        (b'u', 2) => Dtype::U16,
        (b'i', 1) => Dtype::I8,
        (b'i', 2) => Dtype::I16,
        (b'i', 4) => Dtype::I32,
        (b'i' | b'u', _) => Dtype::I64,
        (b'b', _) => Dtype::Bool,
        _ => Dtype::F32,
    };
    let shape = array.shape();
    let row = match shape {
        [rows, row @ ..] if *rows == n && !row.is_empty() => row.to_vec(),
        [all] if n > 0 && *all > 0 && all.is_multiple_of(n) => vec![all / n],
        _ => {
            let message = format!(
                "{name} has shape {shape:?}, expected [{n}, ...] or {n} times the numbers of a row \
                 ({n} is the length of rewards)"
            );
            return Err(errors::new(value.py(), Class::Shape, message));
        }
    };
    Ok((array, Field::new(name, dtype, row)))
}
