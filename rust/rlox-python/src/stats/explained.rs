//! Explained variance of returns by values, for Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::stats;

use crate::convert::coerce;
use crate::detach::detached;
use crate::memory::views::{Plain, has_dtype};

/// 1 - Var(R - V) / Var(R) of values V and returns R: 1 where V predicts R exactly, 0 where V
/// predicts no better than the mean of R, and 0 where R does not vary.
///
/// Args:
///     values: V, `[n]`.
///     returns: R, `[n]`.
///
/// Raises:
///     ShapeError: their lengths differ.
#[pyfunction]
pub(crate) fn explained_variance(
    py: Python<'_>,
    values: &Bound<'_, PyAny>,
    returns: &Bound<'_, PyAny>,
) -> PyResult<f64> {
    let values = coerce::array(values, "values")?;
    coerce::check_ndim(&values, "values", &["n"])?;
    let returns = coerce::array(returns, "returns")?;
    coerce::check_shape(&returns, "returns", values.shape(), "the shape of values")?;
    // float32 arrays are read without a copy; the sums are float64 in any case.
    if has_dtype::<f32>(&values) && has_dtype::<f32>(&returns) {
        explained_variance_as::<f32>(py, &values, &returns)
    } else {
        explained_variance_as::<f64>(py, &values, &returns)
    }
}

fn explained_variance_as<'py, F: Plain + rlox_core::math::Float>(
    py: Python<'py>,
    values: &Bound<'py, PyUntypedArray>,
    returns: &Bound<'py, PyUntypedArray>,
) -> PyResult<f64> {
    let values = coerce::numbers::<F>(values, "values")?;
    let returns = coerce::numbers::<F>(returns, "returns")?;
    let (values, returns) = (values.slice(), returns.slice());
    detached(py, 4 * values.len(), || stats::explained_variance(values, returns))
}
