//! Snapshots of environments as plain dicts of arrays, integers and strings.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::env::{Snapshot, VecEnv};

use crate::coerce;
use crate::detach::detached;
use crate::errors::{self, Class};
use crate::views::Plain;

/// Version of the dict's fields and their meaning.
const FORMAT: u32 = 1;

/// The dict of a batch.
pub(crate) fn to_dict<'py>(py: Python<'py>, envs: &VecEnv) -> PyResult<Bound<'py, PyDict>> {
    let saved = detached(py, envs.n_envs() * 20, || Ok(envs.snapshot()))?;
    let shape = [envs.n_envs(), envs.spec().state_dim];
    let elapsed: Vec<i64> = saved.elapsed.iter().map(|&steps| i64::from(steps)).collect();
    let dict = PyDict::new(py);
    dict.set_item("format", FORMAT)?;
    dict.set_item("env_id", saved.env_id)?;
    dict.set_item("n_envs", envs.n_envs())?;
    dict.set_item("state", PyArray1::from_vec(py, saved.state).reshape(shape)?)?;
    dict.set_item("elapsed", PyArray1::from_vec(py, elapsed))?;
    dict.set_item("seeds", PyArray1::from_vec(py, saved.seeds))?;
    dict.set_item("indices", PyArray1::from_vec(py, saved.indices))?;
    dict.set_item("positions", PyArray1::from_vec(py, saved.positions))?;
    Ok(dict)
}

/// Reads a dict written by [`to_dict`] for `n` environments.
pub(crate) fn from_dict(dict: &Bound<'_, PyDict>, n: usize) -> PyResult<Snapshot> {
    let format: u32 = scalar(dict, "format")?;
    if format != FORMAT {
        return Err(mismatch(dict.py(), "format", format, FORMAT));
    }
    let n_envs: usize = scalar(dict, "n_envs")?;
    if n_envs != n {
        return Err(mismatch(dict.py(), "n_envs", n_envs, n));
    }
    let state = coerce::array(&field(dict, "state")?, "state")?;
    let state = coerce::numbers::<f64>(&state, "state")?;
    Ok(Snapshot {
        env_id: scalar(dict, "env_id")?,
        seeds: numbers(&field(dict, "seeds")?, "seeds", n)?,
        indices: numbers(&field(dict, "indices")?, "indices", n)?,
        positions: numbers(&field(dict, "positions")?, "positions", n)?,
        elapsed: steps(&field(dict, "elapsed")?, "elapsed", n)?,
        state: state.slice().to_vec(),
    })
}

/// Step counts `[n]`; a negative one becomes too large and is refused with the limit.
pub(crate) fn steps(value: &Bound<'_, PyAny>, name: &str, n: usize) -> PyResult<Vec<u32>> {
    let counts: Vec<i64> = numbers(value, name, n)?;
    Ok(counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect())
}

fn numbers<T: Plain>(value: &Bound<'_, PyAny>, name: &str, n: usize) -> PyResult<Vec<T>> {
    let array = coerce::array(value, name)?;
    coerce::check_shape(&array, name, &[n], "n_envs")?;
    let array = coerce::elements::<T>(&array, name, "iu")?;
    Ok(array.slice().to_vec())
}

fn field<'py>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    dict.get_item(name)?.ok_or_else(|| {
        let message = format!("snapshot has no field {name}; pass what snapshot() returned");
        errors::new(dict.py(), Class::Checkpoint, message)
    })
}

fn scalar<'py, T>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let value = field(dict, name)?;
    value.extract().map_err(|_| {
        let message = format!("snapshot field {name} is {value}, which has the wrong type");
        errors::new(dict.py(), Class::Checkpoint, message)
    })
}

fn mismatch(
    py: Python<'_>,
    name: &str,
    got: impl std::fmt::Display,
    expected: impl std::fmt::Display,
) -> PyErr {
    let message = format!("snapshot field {name} is {got}, expected {expected}");
    errors::new(py, Class::Checkpoint, message)
}
