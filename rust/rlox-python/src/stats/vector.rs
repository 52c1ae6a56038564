//! Running statistics of vectors.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::stats::Moments;

use super::{
    NUMBER_NANOSECONDS, add_rows, as_state_dict, copy_moments, merge, new_array, normalize_array, reset,
    restore, to_state_dict,
};
use crate::convert::arg;
use crate::convert::coerce;
use crate::detach::{detached, with_read_lock};
use crate::errors::{self, ErrorClass};

/// Largest number of dimensions: 2 GiB of float64.
const MAX_DIMS: u64 = 1 << 28;

/// Running count, mean and variance of vectors, per dimension, in float64.
///
/// The rules are those of `RunningStats`.
///
/// Args:
///     dim: numbers in a vector, at least 1.
///
/// Raises:
///     ConfigError: dim is not an integer in 1..2**28.
#[pyclass(name = "RunningStatsVec", module = "rlox._core", frozen)]
pub(crate) struct PyRunningStatsVec {
    /// Numbers in a vector.
    dim: usize,
    moments: Shared<Moments>,
}

#[pymethods]
impl PyRunningStatsVec {
    #[new]
    fn new(py: Python<'_>, dim: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dim = coerce::unsigned(dim, "dim")?;
        match usize::try_from(dim) {
            Ok(dim) if (1..MAX_DIMS).contains(&(dim as u64)) => {
                let moments = detached(py, dim, || Ok(Moments::new(dim)))?;
                Ok(Self { dim, moments: Shared::new(moments) })
            }
            _ => {
                let message = format!("dim is {dim}, expected an integer in 1..2**28");
                Err(errors::new(py, ErrorClass::Config, message))
            }
        }
    }

    /// Adds one vector `[dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
    /// infinity.
    fn update(&self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let x = self.vector(x)?;
        add_rows(py, &self.moments, &x)
    }

    /// Adds vectors `[n, dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
    /// infinity.
    fn batch_update(&self, py: Python<'_>, xs: &Bound<'_, PyAny>) -> PyResult<()> {
        let xs = self.vectors(xs)?;
        add_rows(py, &self.moments, &xs)
    }

    /// Adds everything that was added to `other`. Raises ShapeError for another dimension, and
    /// ConfigError if the count would exceed 2**53.
    fn merge(&self, py: Python<'_>, other: &Bound<'_, Self>) -> PyResult<()> {
        merge(py, &self.moments, &other.get().moments)
    }

    /// (x - mean) / sqrt(var + eps) of one vector `[dim]`, clipped to [-clip, clip] if `clip` is
    /// not None: float32 if `x` is float32, else float64. Raises ConfigError unless eps is positive
    /// and clip at least 0.
    #[pyo3(
        signature = (x, clip=None, eps=1e-8)
    )]
    fn normalize<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::optional_number::clip)] clip: Option<f64>,
        #[pyo3(from_py_with = arg::number::eps)] eps: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        normalize_array(py, &self.moments, &self.vector(x)?, clip, eps)
    }

    /// `normalize` of vectors `[n, dim]`.
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
        normalize_array(py, &self.moments, &self.vectors(xs)?, clip, eps)
    }

    /// Removes all vectors.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        reset(py, &self.moments)
    }

    /// Format, count, means and sums of squared deviations; for `restore`.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let moments = copy_moments(py, &self.moments)?;
        let (mean, m2) = (new_array(py, moments.mean())?, new_array(py, moments.m2())?);
        to_state_dict(py, &moments, mean, m2)
    }

    /// Continues from the result of `state()`. Raises CheckpointError for anything else.
    fn restore(&self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let state_dict = as_state_dict(state);
        let numbers = |name| -> PyResult<Vec<f64>> {
            let array = coerce::array(&state_dict.field(name)?, name)?;
            if array.shape() != [self.dim] {
                let got = format!("of shape {:?}", array.shape());
                return Err(state_dict.mismatch_error(name, got, format!("[{}]", self.dim)));
            }
            Ok(coerce::numbers::<f64>(&array, name)?.slice().to_vec())
        };
        let (mean, m2) = (numbers("mean")?, numbers("m2")?);
        restore(&self.moments, state, mean, m2)
    }

    /// Numbers in a vector.
    #[getter]
    fn dim(&self) -> usize {
        self.dim
    }

    /// Number of vectors added.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        with_read_lock(py, &self.moments, NUMBER_NANOSECONDS, |moments| Ok(moments.count()))
    }

    /// Mean of the vectors, `[dim]`; 0 before the first.
    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        new_array(py, copy_moments(py, &self.moments)?.mean())
    }

    /// Population variance of the vectors (divisor count), `[dim]`; 1 before the first.
    #[getter]
    fn var<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        new_array(py, &copy_moments(py, &self.moments)?.var().collect::<Vec<f64>>())
    }

    /// Square root of `var`, `[dim]`.
    #[getter]
    fn std<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        new_array(py, &copy_moments(py, &self.moments)?.var().map(f64::sqrt).collect::<Vec<f64>>())
    }
}

impl PyRunningStatsVec {
    fn vector<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let x = coerce::array(x, "x")?;
        coerce::check_shape(&x, "x", &[self.dim], "dim")?;
        Ok(x)
    }

    fn vectors<'py>(&self, xs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let xs = coerce::array(xs, "xs")?;
        coerce::check_ndim(&xs, "xs", &["n", "dim"])?;
        let rows = xs.shape().first().copied().unwrap_or(0);
        coerce::check_shape(&xs, "xs", &[rows, self.dim], "n, dim")?;
        Ok(xs)
    }
}
