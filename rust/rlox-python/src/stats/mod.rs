//! Statistics for Python: running moments of numbers and of vectors, and explained variance.

mod explained;
mod scalar;
mod vector;

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::stats::Moments;

use crate::convert::coerce;
use crate::convert::saved::StateDict;
use crate::detach::{detached, with_read_lock, with_write_lock};
use crate::memory::views::{ViewMut, has_dtype};

pub(crate) use explained::explained_variance;
pub(crate) use scalar::PyRunningStats;
pub(crate) use vector::PyRunningStatsVec;

/// Version of the state's fields and their meaning.
const FORMAT: u32 = 1;

/// Nanoseconds of work on one number.
const NUMBER_NANOSECONDS: usize = 10;

fn add_rows(py: Python<'_>, moments: &Shared<Moments>, xs: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let xs = coerce::numbers::<f64>(xs, "xs")?;
    let rows = xs.slice();
    with_write_lock(py, moments, rows.len() * 2, |moments| moments.update(rows))
}

fn merge(py: Python<'_>, moments: &Shared<Moments>, other: &Shared<Moments>) -> PyResult<()> {
    // The copy lets an object be merged with itself, and no thread holds two locks.
    let other = copy_moments(py, other)?;
    with_write_lock(py, moments, other.mean().len() * 4, |moments| moments.merge(&other))
}

fn copy_moments(py: Python<'_>, moments: &Shared<Moments>) -> PyResult<Moments> {
    with_read_lock(py, moments, NUMBER_NANOSECONDS, |moments| Ok(moments.clone()))
}

fn reset(py: Python<'_>, moments: &Shared<Moments>) -> PyResult<()> {
    with_write_lock(py, moments, NUMBER_NANOSECONDS, |moments| {
        *moments = Moments::new(moments.mean().len());
        Ok(())
    })
}

fn normalize_array<'py>(
    py: Python<'py>,
    moments: &Shared<Moments>,
    xs: &Bound<'py, PyUntypedArray>,
    clip: Option<f64>,
    eps: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let rows = coerce::numbers::<f64>(xs, "xs")?;
    let rows = rows.slice();
    let mut out = ViewMut::<f64>::fresh(py, xs.shape())?;
    let target = out.slice_mut();
    with_read_lock(py, moments, rows.len() * 2, |moments| moments.normalize(rows, clip, eps, target))?;
    if !has_dtype::<f32>(xs) {
        return Ok(out.into_array().into_any());
    }
    let mut single = ViewMut::<f32>::fresh(py, xs.shape())?;
    let (singles, doubles) = (single.slice_mut(), out.slice_mut());
    detached(py, doubles.len(), || {
        for (single, double) in singles.iter_mut().zip(doubles) {
            *single = rlox_core::math::Float::from_f64(*double);
        }
        Ok(())
    })?;
    Ok(single.into_array().into_any())
}

fn first(numbers: &[f64]) -> f64 {
    numbers.first().copied().unwrap_or(0.0)
}

fn new_array<'py>(py: Python<'py>, numbers: &[f64]) -> PyResult<Bound<'py, PyAny>> {
    let mut out = ViewMut::<f64>::fresh(py, &[numbers.len()])?;
    out.slice_mut().copy_from_slice(numbers);
    Ok(out.into_array().into_any())
}

fn to_state_dict<'py>(
    py: Python<'py>,
    moments: &Moments,
    mean: impl IntoPyObject<'py>,
    m2: impl IntoPyObject<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("format", FORMAT)?;
    dict.set_item("count", moments.count())?;
    dict.set_item("mean", mean)?;
    dict.set_item("m2", m2)?;
    Ok(dict)
}

/// Wraps a dict that should be the result of `state()`.
const fn as_state_dict<'a, 'py>(dict: &'a Bound<'py, PyDict>) -> StateDict<'a, 'py> {
    StateDict { dict, method: "state" }
}

/// Continues from a saved state with these means and sums of squared deviations.
fn restore(
    moments: &Shared<Moments>,
    state: &Bound<'_, PyDict>,
    mean: Vec<f64>,
    m2: Vec<f64>,
) -> PyResult<()> {
    let py = state.py();
    let state_dict = as_state_dict(state);
    state_dict.check_format(FORMAT)?;
    let count = state_dict.read_field("count")?;
    with_write_lock(py, moments, mean.len() * 2, |moments| {
        *moments = Moments::from_parts(count, mean, m2)?;
        Ok(())
    })
}
