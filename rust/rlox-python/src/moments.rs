//! Running statistics for Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::stats::Moments;

use crate::coerce::{self, Real};
use crate::detach::detached;
use crate::errors::{self, Class};
use crate::snapshot::{field, mismatch, scalar};
use crate::views::{ViewMut, is_of};

/// Version of the state's fields and their meaning.
const FORMAT: u32 = 1;

/// Dimensions, at most: 2 GiB of float64.
const MOST_DIMS: u64 = 1 << 28;

/// Running count, mean and variance of numbers, in float64.
///
/// Batches and other statistics are merged as in Chan, Golub and LeVeque 1983, so the result is that
/// of the whole up to rounding, and does not depend on threads. NaN and infinity are refused and
/// leave the object as it was.
#[pyclass(name = "RunningStats", module = "rlox._core")]
pub(crate) struct PyRunningStats {
    inner: Moments,
}

#[pymethods]
impl PyRunningStats {
    #[new]
    fn new() -> Self {
        Self { inner: Moments::new(1) }
    }

    /// Takes in one number. Raises ShapeError if it is none, NonFiniteError for NaN and infinity.
    fn update(&mut self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        self.inner.update(&[number(x)?]).map_err(|error| errors::raise(py, &error))
    }

    /// Takes in numbers `[n]`. Raises ShapeError for another shape, NonFiniteError for NaN and
    /// infinity.
    fn batch_update(&mut self, py: Python<'_>, xs: &Bound<'_, PyAny>) -> PyResult<()> {
        let xs = coerce::array(xs, "xs")?;
        coerce::check_ndim(&xs, "xs", &["n"])?;
        take_in(py, &mut self.inner, &xs)
    }

    /// Takes in everything that `other` has seen. Raises ConfigError if that makes more than 2**53
    /// numbers.
    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
        // Cloned, so that an object can be merged with itself.
        let other = other.try_borrow()?.inner.clone();
        let merged = slf.try_borrow_mut()?.inner.merge(&other);
        merged.map_err(|error| errors::raise(slf.py(), &error))
    }

    /// (x - mean) / sqrt(var + eps) of one number, cut to [-clip, clip] if `clip` is given.
    /// Raises ConfigError unless eps is positive and clip at least 0.
    #[pyo3(
        signature = (x, clip=None, eps=Real::Omitted(1e-8)),
        text_signature = "($self, x, clip=None, eps=1e-8)"
    )]
    fn normalize<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        clip: Option<Real<'py>>,
        eps: Real<'py>,
    ) -> PyResult<f64> {
        let (clip, eps) = limits(clip, &eps)?;
        let mut out = [0.0];
        let done = self.inner.normalize(&[number(x)?], clip, eps, &mut out);
        done.map_err(|error| errors::raise(py, &error))?;
        let [normal] = out;
        Ok(normal)
    }

    /// `normalize` of numbers `[n]`: float32 if `xs` is, else float64.
    #[pyo3(
        signature = (xs, clip=None, eps=Real::Omitted(1e-8)),
        text_signature = "($self, xs, clip=None, eps=1e-8)"
    )]
    fn normalize_batch<'py>(
        &self,
        py: Python<'py>,
        xs: &Bound<'py, PyAny>,
        clip: Option<Real<'py>>,
        eps: Real<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let xs = coerce::array(xs, "xs")?;
        coerce::check_ndim(&xs, "xs", &["n"])?;
        normalized(py, &self.inner, &xs, clip, &eps)
    }

    /// Forgets everything.
    fn reset(&mut self) {
        self.inner = Moments::new(1);
    }

    /// Format, count, mean and sum of squared deviations; for `restore`.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        saved(py, &self.inner, first(self.inner.mean()), first(self.inner.m2()))
    }

    /// Continues from what `state()` returned. Raises CheckpointError if it is something else.
    fn restore(&mut self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let (mean, m2) = (vec![saved_number(state, "mean")?], vec![saved_number(state, "m2")?]);
        self.inner = restored(state, mean, m2)?;
        Ok(())
    }

    /// How many numbers were seen.
    #[getter]
    fn count(&self) -> u64 {
        self.inner.count()
    }

    /// Their mean; 0 before there are any.
    #[getter]
    fn mean(&self) -> f64 {
        first(self.inner.mean())
    }

    /// Their population variance (divisor count); 1 before there are any.
    #[getter]
    fn var(&self) -> f64 {
        self.inner.var().next().unwrap_or(1.0)
    }

    /// The square root of `var`.
    #[getter]
    fn std(&self) -> f64 {
        self.var().sqrt()
    }
}

/// Running count, mean and variance of vectors, per dimension, in float64.
///
/// As `RunningStats`.
///
/// Args:
///     dim: numbers in a vector, at least 1.
///
/// Raises:
///     ConfigError: dim is not an integer in 1..2**28.
#[pyclass(name = "RunningStatsVec", module = "rlox._core")]
pub(crate) struct PyRunningStatsVec {
    inner: Moments,
}

#[pymethods]
impl PyRunningStatsVec {
    #[new]
    fn new(py: Python<'_>, dim: &Bound<'_, PyAny>) -> PyResult<Self> {
        let dim = coerce::unsigned(dim, "dim")?;
        match usize::try_from(dim) {
            Ok(size) if (1..MOST_DIMS).contains(&dim) => Ok(Self { inner: Moments::new(size) }),
            _ => {
                let message = format!("dim is {dim}, expected an integer in 1..2**28");
                Err(errors::new(py, Class::Config, message))
            }
        }
    }

    /// Takes in one vector `[dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
    /// infinity.
    fn update(&mut self, py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        let x = self.vector(x)?;
        take_in(py, &mut self.inner, &x)
    }

    /// Takes in vectors `[n, dim]`. Raises ShapeError for another shape, NonFiniteError for NaN and
    /// infinity.
    fn batch_update(&mut self, py: Python<'_>, xs: &Bound<'_, PyAny>) -> PyResult<()> {
        let xs = self.vectors(xs)?;
        take_in(py, &mut self.inner, &xs)
    }

    /// Takes in everything that `other` has seen. Raises ShapeError for another dimension, and
    /// ConfigError if that makes more than 2**53 vectors.
    fn merge(slf: &Bound<'_, Self>, other: &Bound<'_, Self>) -> PyResult<()> {
        // Cloned, so that an object can be merged with itself.
        let other = other.try_borrow()?.inner.clone();
        let merged = slf.try_borrow_mut()?.inner.merge(&other);
        merged.map_err(|error| errors::raise(slf.py(), &error))
    }

    /// (x - mean) / sqrt(var + eps) of one vector `[dim]`, cut to [-clip, clip] if `clip` is given:
    /// float32 if `x` is, else float64. Raises ConfigError unless eps is positive and clip at
    /// least 0.
    #[pyo3(
        signature = (x, clip=None, eps=Real::Omitted(1e-8)),
        text_signature = "($self, x, clip=None, eps=1e-8)"
    )]
    fn normalize<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        clip: Option<Real<'py>>,
        eps: Real<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        normalized(py, &self.inner, &self.vector(x)?, clip, &eps)
    }

    /// `normalize` of vectors `[n, dim]`.
    #[pyo3(
        signature = (xs, clip=None, eps=Real::Omitted(1e-8)),
        text_signature = "($self, xs, clip=None, eps=1e-8)"
    )]
    fn normalize_batch<'py>(
        &self,
        py: Python<'py>,
        xs: &Bound<'py, PyAny>,
        clip: Option<Real<'py>>,
        eps: Real<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        normalized(py, &self.inner, &self.vectors(xs)?, clip, &eps)
    }

    /// Forgets everything.
    fn reset(&mut self) {
        self.inner = Moments::new(self.dim());
    }

    /// Format, count, means and sums of squared deviations; for `restore`.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (mean, m2) = (fresh(py, self.inner.mean())?, fresh(py, self.inner.m2())?);
        saved(py, &self.inner, mean, m2)
    }

    /// Continues from what `state()` returned. Raises CheckpointError if it is something else.
    fn restore(&mut self, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let numbers = |name| -> PyResult<Vec<f64>> {
            let array = coerce::array(&scalar::<Bound<'_, PyAny>>(state, name)?, name)?;
            if array.shape() != [self.dim()] {
                let got = format!("of shape {:?}", array.shape());
                return Err(mismatch(state.py(), name, got, format!("[{}]", self.dim())));
            }
            Ok(coerce::numbers::<f64>(&array, name)?.slice().to_vec())
        };
        let (mean, m2) = (numbers("mean")?, numbers("m2")?);
        self.inner = restored(state, mean, m2)?;
        Ok(())
    }

    /// Numbers in a vector.
    #[getter]
    fn dim(&self) -> usize {
        self.inner.mean().len()
    }

    /// How many vectors were seen.
    #[getter]
    fn count(&self) -> u64 {
        self.inner.count()
    }

    /// Their mean, `[dim]`; 0 before there are any.
    #[getter]
    fn mean<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fresh(py, self.inner.mean())
    }

    /// Their population variance (divisor count), `[dim]`; 1 before there are any.
    #[getter]
    fn var<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fresh(py, &self.inner.var().collect::<Vec<f64>>())
    }

    /// The square root of `var`, `[dim]`.
    #[getter]
    fn std<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        fresh(py, &self.inner.var().map(f64::sqrt).collect::<Vec<f64>>())
    }
}

impl PyRunningStatsVec {
    fn vector<'py>(&self, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let x = coerce::array(x, "x")?;
        coerce::check_shape(&x, "x", &[self.dim()], "dim")?;
        Ok(x)
    }

    fn vectors<'py>(&self, xs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyUntypedArray>> {
        let xs = coerce::array(xs, "xs")?;
        coerce::check_ndim(&xs, "xs", &["n", "dim"])?;
        let rows = xs.shape().first().copied().unwrap_or(0);
        coerce::check_shape(&xs, "xs", &[rows, self.dim()], "n, dim")?;
        Ok(xs)
    }
}

fn take_in(py: Python<'_>, moments: &mut Moments, xs: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
    let xs = coerce::numbers::<f64>(xs, "xs")?;
    let rows = xs.slice();
    detached(py, rows.len() * 2, || moments.update(rows))
}

fn normalized<'py>(
    py: Python<'py>,
    moments: &Moments,
    xs: &Bound<'py, PyUntypedArray>,
    clip: Option<Real<'py>>,
    eps: &Real<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let (clip, eps) = limits(clip, eps)?;
    let rows = coerce::numbers::<f64>(xs, "xs")?;
    let rows = rows.slice();
    let mut out = ViewMut::<f64>::fresh(py, xs.shape())?;
    let target = out.slice_mut();
    detached(py, rows.len() * 2, || moments.normalize(rows, clip, eps, target))?;
    if !is_of::<f32>(xs) {
        return Ok(out.into_array().into_any());
    }
    let mut single = ViewMut::<f32>::fresh(py, xs.shape())?;
    for (single, double) in single.slice_mut().iter_mut().zip(out.slice_mut()) {
        *single = rlox_core::math::Float::from_f64(*double);
    }
    Ok(single.into_array().into_any())
}

/// The bound of normalised numbers, and what is added to their variance.
fn limits(clip: Option<Real<'_>>, eps: &Real<'_>) -> PyResult<(Option<f64>, f64)> {
    Ok((clip.map(|clip| clip.read("clip")).transpose()?, eps.read("eps")?))
}

/// A Python number as float64.
fn number(x: &Bound<'_, PyAny>) -> PyResult<f64> {
    coerce::real(x, "x").map_err(|_| {
        let message = format!("x is {}, expected a number", coerce::shown(x));
        errors::new(x.py(), Class::Shape, message)
    })
}

/// A number of a saved state.
fn saved_number(state: &Bound<'_, PyDict>, name: &str) -> PyResult<f64> {
    let value = field(state, name)?;
    coerce::real(&value, name)
        .map_err(|_| mismatch(state.py(), name, coerce::shown(&value), "a number"))
}

fn first(numbers: &[f64]) -> f64 {
    numbers.first().copied().unwrap_or(0.0)
}

fn fresh<'py>(py: Python<'py>, numbers: &[f64]) -> PyResult<Bound<'py, PyAny>> {
    let mut out = ViewMut::<f64>::fresh(py, &[numbers.len()])?;
    out.slice_mut().copy_from_slice(numbers);
    Ok(out.into_array().into_any())
}

fn saved<'py>(
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

fn restored(state: &Bound<'_, PyDict>, mean: Vec<f64>, m2: Vec<f64>) -> PyResult<Moments> {
    let format: u32 = scalar(state, "format")?;
    if format != FORMAT {
        return Err(mismatch(state.py(), "format", format, FORMAT));
    }
    Moments::from_parts(scalar(state, "count")?, mean, m2)
        .map_err(|error| errors::raise(state.py(), &error))
}
