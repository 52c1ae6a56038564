//! Integers and token ids from Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::convert::coerce;
use crate::errors::{self, ErrorClass};
use crate::memory::views::{View, has_dtype};

/// Reads any integers as int64. An empty array may have any dtype.
pub(crate) fn read_integers<'py>(array: &Bound<'py, PyUntypedArray>, name: &str) -> PyResult<View<'py, i64>> {
    if array.is_empty() {
        return coerce::elements(array, name, "fiub");
    }
    let view = coerce::elements::<i64>(array, name, "iu")?;
    if has_dtype::<u64>(array) {
        let wide = coerce::elements::<u64>(array, name, "u")?;
        let out_of_range = wide.slice().iter().enumerate().find(|&(_, &v)| i64::try_from(v).is_err());
        if let Some((index, value)) = out_of_range {
            let message = format!("{name} is {value} at index {index}, expected less than 2**63");
            return Err(errors::new(array.py(), ErrorClass::Config, message));
        }
    }
    Ok(view)
}

/// Reads each item of an iterable as int64 token ids.
pub(crate) fn read_sequences<'py>(sequences: &Bound<'py, PyAny>) -> PyResult<Vec<View<'py, i64>>> {
    let read = |(index, item): (usize, PyResult<Bound<'py, PyAny>>)| {
        let name = format!("sequences[{index}]");
        read_tokens(&item?, &name)
    };
    sequences.try_iter()?.enumerate().map(read).collect()
}

/// Reads token ids in 0..2**32.
pub(crate) fn read_token_ids(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u32>> {
    let tokens = read_tokens(value, name)?;
    let mut ids = Vec::with_capacity(tokens.slice().len());
    for (index, &token) in tokens.slice().iter().enumerate() {
        ids.push(u32::try_from(token).map_err(|_| {
            let message = format!("{name} is {token} at index {index}, expected a token id in 0..2**32");
            errors::new(value.py(), ErrorClass::Config, message)
        })?);
    }
    Ok(ids)
}

fn read_tokens<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<View<'py, i64>> {
    let array = coerce::array(value, name)?;
    coerce::check_ndim(&array, name, &["T"])?;
    read_integers(&array, name)
}
