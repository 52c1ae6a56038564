//! Snapshots of environments as plain dicts of arrays, integers and strings.

use numpy::{PyArray1, PyArrayDescrMethods, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::env::{Precision, Snapshot, Spec};

use crate::convert::coerce;
use crate::convert::saved::StateDict;
use crate::errors::{self, ErrorClass};

/// Version of the dict's fields and their meaning.
const FORMAT: u32 = 2;

/// Returns the dict of the snapshot of a batch.
pub(crate) fn to_dict<'py>(py: Python<'py>, snapshot: Snapshot, spec: &Spec) -> PyResult<Bound<'py, PyDict>> {
    let n = snapshot.seeds.len();
    let shape = [n, spec.state_dim];
    let elapsed: Vec<i64> = snapshot.elapsed.iter().map(|&steps| i64::from(steps)).collect();
    let dict = PyDict::new(py);
    dict.set_item("format", FORMAT)?;
    dict.set_item("env_id", snapshot.env_id)?;
    dict.set_item("precision", snapshot.precision.name())?;
    dict.set_item("n_envs", n)?;
    dict.set_item("state", PyArray1::from_vec(py, snapshot.state).reshape(shape)?)?;
    dict.set_item("elapsed", PyArray1::from_vec(py, elapsed))?;
    dict.set_item("seeds", PyArray1::from_vec(py, snapshot.seeds))?;
    dict.set_item("indices", PyArray1::from_vec(py, snapshot.indices))?;
    dict.set_item("positions", PyArray1::from_vec(py, snapshot.positions))?;
    Ok(dict)
}

/// Reads a dict that [`to_dict`] wrote for `n` environments.
pub(crate) fn from_dict(dict: &Bound<'_, PyDict>, spec: &Spec, n: usize) -> PyResult<Snapshot> {
    let state_dict = as_state_dict(dict);
    state_dict.check_format(FORMAT)?;
    let n_envs: usize = state_dict.read_field("n_envs")?;
    if n_envs != n {
        return Err(state_dict.mismatch_error("n_envs", n_envs, n));
    }
    let counts = |name| read_unsigned(&state_dict.field(name)?, name, n);
    let state = coerce::array(&state_dict.field("state")?, "state")?;
    coerce::check_shape(&state, "state", &[n, spec.state_dim], "n_envs, state_dim")?;
    let state = coerce::numbers::<f64>(&state, "state")?;
    Ok(Snapshot {
        env_id: state_dict.read_field("env_id")?,
        precision: precision(state_dict)?,
        seeds: counts("seeds")?,
        indices: counts("indices")?,
        positions: counts("positions")?,
        elapsed: read_step_counts(&state_dict.field("elapsed")?, "elapsed", n)?,
        state: state.slice().to_vec(),
    })
}

/// Wraps a dict that should be the result of `snapshot()`.
pub(crate) const fn as_state_dict<'a, 'py>(dict: &'a Bound<'py, PyDict>) -> StateDict<'a, 'py> {
    StateDict { dict, method: "snapshot" }
}

fn precision(state_dict: StateDict<'_, '_>) -> PyResult<Precision> {
    let name: String = state_dict.read_field("precision")?;
    Precision::ALL
        .into_iter()
        .find(|precision| precision.name() == name)
        .ok_or_else(|| state_dict.mismatch_error("precision", name, "f64 or f32"))
}

/// Reads step counts `[n]`. A count beyond u32 is refused later, with the limit in the message.
pub(crate) fn read_step_counts(value: &Bound<'_, PyAny>, name: &str, n: usize) -> PyResult<Vec<u32>> {
    let counts = read_unsigned(value, name, n)?;
    Ok(counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect())
}

/// Reads integers in 0..2**64, `[n]`.
fn read_unsigned(value: &Bound<'_, PyAny>, name: &str, n: usize) -> PyResult<Vec<u64>> {
    let array = coerce::array(value, name)?;
    coerce::check_shape(&array, name, &[n], "n_envs")?;
    if array.dtype().kind() != b'i' {
        return Ok(coerce::elements::<u64>(&array, name, "iu")?.slice().to_vec());
    }
    let signed = coerce::elements::<i64>(&array, name, "iu")?;
    let counts = signed.slice().iter().enumerate().map(|(index, &count)| {
        u64::try_from(count).map_err(|_| {
            let message = format!("{name} is {count} at index {index}, expected at least 0");
            errors::new(value.py(), ErrorClass::Config, message)
        })
    });
    counts.collect()
}
