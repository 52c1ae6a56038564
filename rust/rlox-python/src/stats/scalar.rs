//! Running statistics of numbers.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::stats::Moments;

use super::{
    NUMBER_NANOSECONDS, add_rows, as_state_dict, copy_moments, first, merge, normalize_array, reset, restore,
    to_state_dict,
};
use crate::convert::arg;
use crate::convert::coerce;
use crate::detach::{with_read_lock, with_write_lock};
use crate::errors::{self, ErrorClass, ReplaceRefusal};

/// Running count, mean and variance of numbers, in float64.
///
/// Batches and other statistics are merged as in Chan, Golub and LeVeque 1983, so the result equals
/// that of all numbers together up to rounding, and does not depend on threads. NaN and infinity
/// are errors that leave the object unchanged.
#[pyclass(name = "RunningStats", module = "rlox._core", frozen)]
pub(crate) struct PyRunningStats {
    moments: Shared<Moments>,
}

#[pymethods]
impl PyRunningStats {
    #[new]
    fn new() -> Self {
        Self { moments: Shared::new(Moments::new(1)) }
    }

    /// Adds one number. Raises ShapeError for anything else, NonFiniteError for NaN and infinity.
    fn update(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let x = number(x)?;
        with_write_lock(py, &self.moments, NUMBER_NANOSECONDS, |moments| moments.update(&[x]))
    }

    /// Adds numbers `[n]`. Raises ShapeError for another shape, NonFiniteError for NaN and
    /// infinity.
    fn batch_update(&self, py: Python<'_>, xs: &Bound<'_, PyAny>) -> PyResult<()> {
        let xs = coerce::array(xs, "xs")?;
        coerce::check_ndim(&xs, "xs", &["n"])?;
        add_rows(py, &self.moments, &xs)
    }

    /// Adds everything that was added to `other`. Raises ConfigError if the count would exceed 2**53.
    fn merge(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        merge(py, &self.moments, &other.get().moments)
    }

    /// (x - mean) / sqrt(var + eps) of one number, clipped to [-clip, clip] if `clip` is not None.
    /// Raises ConfigError unless eps is positive and clip at least 0.
    #[pyo3(
        signature = (x, clip=None, eps=1e-8)
    )]
    fn normalize<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::optional_number::clip)] clip: Option<f64>,
        #[pyo3(from_py_with = arg::number::eps)] eps: f64,
    ) -> PyResult<f64> {
        let (x, mut out) = ([number(x)?], [0.0]);
        let target = &mut out;
        with_read_lock(py, &self.moments, NUMBER_NANOSECONDS, |moments| {
            moments.normalize(&x, clip, eps, target)
        })?;
        let [normal] = out;
        Ok(normal)
    }

    /// `normalize` of numbers `[n]`: float32 if `xs` is float32, else float64.
    #[pyo3(
        signature = (xs, clip=None, eps=1e-8)
    )]
    fn normalize_batch<'py>(
        &self,
        py: Python<'py>,
        xs: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::optional_number::clip)] clip: Option<f64>,
        #[pyo3(from_py_with = arg::number::eps)] eps: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let xs = coerce::array(xs, "xs")?;
        coerce::check_ndim(&xs, "xs", &["n"])?;
        normalize_array(py, &self.moments, &xs, clip, eps)
    }

    /// Removes all numbers.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        reset(py, &self.moments)
    }

    /// Format, count, mean and sum of squared deviations; for `restore`.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let moments = copy_moments(py, &self.moments)?;
        to_state_dict(py, &moments, first(moments.mean()), first(moments.m2()))
    }

    /// Continues from the result of `state()`. Raises CheckpointError for anything else.
    fn restore(&self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let (mean, m2) = (vec![saved_number(state, "mean")?], vec![saved_number(state, "m2")?]);
        restore(&self.moments, state, mean, m2)
    }

    /// Number of numbers added.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        with_read_lock(py, &self.moments, NUMBER_NANOSECONDS, |moments| Ok(moments.count()))
    }

    /// Mean of the numbers; 0 before the first.
    #[getter]
    fn mean(&self, py: Python<'_>) -> PyResult<f64> {
        with_read_lock(py, &self.moments, NUMBER_NANOSECONDS, |moments| Ok(first(moments.mean())))
    }

    /// Population variance of the numbers (divisor count); 1 before the first.
    #[getter]
    fn var(&self, py: Python<'_>) -> PyResult<f64> {
        with_read_lock(py, &self.moments, NUMBER_NANOSECONDS, |moments| {
            Ok(moments.var().next().unwrap_or(1.0))
        })
    }

    /// Square root of `var`.
    #[getter]
    fn std(&self, py: Python<'_>) -> PyResult<f64> {
        Ok(self.var(py)?.sqrt())
    }
}

/// Reads a Python number as float64.
fn number(x: &Bound<'_, PyAny>) -> PyResult<f64> {
    coerce::real(x, "x").replace_refusal(x.py(), |_| {
        let message = format!("x is {}, expected a number", coerce::short_repr(x));
        errors::new(x.py(), ErrorClass::Shape, message)
    })
}

/// Reads a number of a saved state.
fn saved_number(state: &Bound<'_, PyDict>, name: &str) -> PyResult<f64> {
    let state_dict = as_state_dict(state);
    let value = state_dict.field(name)?;
    coerce::real(&value, name).replace_refusal(state.py(), |_| {
        state_dict.mismatch_error(name, coerce::short_repr(&value), "a number")
    })
}
