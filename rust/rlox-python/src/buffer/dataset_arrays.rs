//! Conversions of a dataset's input arrays and of observations.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::{Dtype, Field};

use crate::convert::coerce;
use crate::errors::{self, ErrorClass};

/// Applies `work` in float64 to observations, `[..., *row]`. The result is float32 if the
/// observations are, else float64.
pub(super) fn apply_in_float64<'py>(
    obs: &Bound<'py, PyAny>,
    row: &[usize],
    work: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = coerce::array(obs, "obs")?;
    let shape_error = |message| Err(errors::new(obs.py(), ErrorClass::Shape, message));
    if !b"fiub".contains(&array.dtype().kind()) {
        return shape_error(format!("obs has dtype {}, expected numbers", array.dtype()));
    }
    if !array.shape().ends_with(row) {
        return shape_error(format!("obs has shape {:?}, expected [..., {row:?}]", array.shape()));
    }
    let is_single = array.dtype().kind() == b'f' && array.dtype().itemsize() == 4;
    let result = work(&array.as_any().call_method1("astype", ("float64",))?)?;
    if is_single { result.call_method1("astype", ("float32",)) } else { Ok(result) }
}

/// Reads an array of `n` rows, `[n, ...]`, `[n]` or flat, and returns it with the field of its rows.
pub(super) fn read_rows<'py>(
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
        [total] if n > 0 && *total > 0 && total.is_multiple_of(n) => vec![total / n],
        _ => {
            let message = format!(
                "{name} has shape {shape:?}, expected [{n}, ...] or {n} rows in a flat array \
                 ({n} is the length of rewards)"
            );
            return Err(errors::new(value.py(), ErrorClass::Shape, message));
        }
    };
    Ok((array, Field::new(name, dtype, row)))
}
