//! What Python passes in -> contiguous slices of the right type, or a typed error.

use numpy::ndarray::Dimension;
use numpy::{
    Element, PyArray, PyArrayDescrMethods, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn,
    PyReadwriteArray, PyUntypedArray, PyUntypedArrayMethods, get_array_module,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{self, Class};

/// An integer argument as it came, `None` included; read with the argument's name for messages.
pub(crate) struct Number<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for Number<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(value.to_owned())))
    }
}

impl Number<'_> {
    /// An argument that was left out.
    pub(crate) const OMITTED: Self = Self(None);

    /// The integer, which must be in 0..2**64; `default` if it was left out.
    pub(crate) fn read(&self, name: &str, default: u64) -> PyResult<u64> {
        self.0.as_ref().map_or(Ok(default), |value| unsigned(value, name))
    }
}

/// An integer in 0..2**64.
pub(crate) fn unsigned(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    value.extract().map_err(|_| {
        let message = format!("{name} is {}, expected an integer in 0..2**64", shown(value));
        errors::new(value.py(), Class::Config, message)
    })
}

/// A short `repr` for messages.
fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string());
    if text.chars().count() > 80 {
        text.chars().take(77).chain("...".chars()).collect()
    } else {
        text
    }
}

/// Any array-like as a NumPy array, unchanged if it is one.
pub(crate) fn array<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return Ok(array.clone());
    }
    let py = value.py();
    let converted = get_array_module(py)?.call_method1("asarray", (value,));
    let array = converted.and_then(|array| Ok(array.cast_into::<PyUntypedArray>()?));
    array.map_err(|cause| {
        let message = format!(
            "{name} cannot be read as an array ({}); pass a NumPy array, a list of numbers or a \
             detached CPU tensor",
            cause.value(py)
        );
        errors::new(py, Class::Shape, message)
    })
}

/// True if the array holds elements `T` in this machine's byte order.
pub(crate) fn holds<T: Element>(array: &Bound<'_, PyUntypedArray>) -> bool {
    let dtype = array.dtype();
    dtype.num() == numpy::dtype::<T>(array.py()).num() && dtype.is_native_byteorder() != Some(false)
}

/// A C-contiguous view or copy of `array` with elements `T`; `kinds` are the dtype kinds accepted.
pub(crate) fn elements<'py, T: Element>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
    kinds: &str,
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    let py = array.py();
    if let Ok(same) = array.cast::<PyArrayDyn<T>>()
        && same.is_c_contiguous()
        && same.is_aligned()
    {
        return readonly(same, name);
    }
    if !kinds.as_bytes().contains(&array.dtype().kind()) {
        let message = format!(
            "{name} has dtype {}, expected {}",
            array.dtype(),
            if kinds.contains('f') { "numbers" } else { "integers" }
        );
        return Err(errors::new(py, Class::Shape, message));
    }
    let options = PyDict::new(py);
    options.set_item("dtype", numpy::dtype::<T>(py))?;
    // Float64 beyond float32's range becomes infinite, which the kernels report by index.
    let copied =
        get_array_module(py)?.call_method("ascontiguousarray", (array,), Some(&options))?;
    readonly(copied.cast::<PyArrayDyn<T>>()?, name)
}

/// Floats, integers or bools as `T`.
pub(crate) fn numbers<'py, T: Element>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    elements(array, name, "fiub")
}

/// Checks the number of dimensions.
pub(crate) fn check_ndim(
    array: &Bound<'_, PyUntypedArray>,
    name: &str,
    expected: &[&str],
) -> PyResult<()> {
    if array.ndim() == expected.len() {
        return Ok(());
    }
    let expected = expected.join(", ");
    let message = format!("{name} has shape {:?}, expected ({expected})", array.shape());
    Err(errors::new(array.py(), Class::Shape, message))
}

/// Checks the exact shape.
pub(crate) fn check_shape(
    array: &Bound<'_, PyUntypedArray>,
    name: &str,
    expected: &[usize],
    why: &str,
) -> PyResult<()> {
    if array.shape() == expected {
        return Ok(());
    }
    let message = format!("{name} has shape {:?}, expected {expected:?} ({why})", array.shape());
    Err(errors::new(array.py(), Class::Shape, message))
}

/// Shared access to an array's memory.
fn readonly<'py, T: Element>(
    array: &Bound<'py, PyArrayDyn<T>>,
    name: &str,
) -> PyResult<PyReadonlyArrayDyn<'py, T>> {
    array.try_readonly().map_err(|cause| borrow_error(array.py(), name, &cause))
}

/// The elements of a contiguous array.
pub(crate) fn slice<'a, T: Element>(
    array: &'a PyReadonlyArrayDyn<'_, T>,
    name: &str,
) -> PyResult<&'a [T]> {
    array.as_slice().map_err(|cause| borrow_error(array.py(), name, &cause))
}

/// Exclusive access to a caller-owned C-contiguous output of exactly this type and shape.
pub(crate) fn output<'py, T: Element, D: Dimension>(
    value: &Bound<'py, PyAny>,
    name: &str,
    shape: &[usize],
) -> PyResult<PyReadwriteArray<'py, T, D>> {
    let py = value.py();
    let fits = value
        .cast::<PyArray<T, D>>()
        .ok()
        .filter(|array| array.shape() == shape && array.is_c_contiguous() && array.is_aligned());
    let Some(array) = fits else {
        let message = format!(
            "{name} is {}, expected a C-contiguous {} array of shape {shape:?}",
            described(value),
            numpy::dtype::<T>(py)
        );
        return Err(errors::new(py, Class::Shape, message));
    };
    array.try_readwrite().map_err(|cause| borrow_error(py, name, &cause))
}

/// A fresh zeroed array of `shape`, borrowed for writing.
pub(crate) fn fresh<T: Element, D: Dimension>(
    py: Python<'_>,
    shape: D,
) -> PyResult<PyReadwriteArray<'_, T, D>> {
    let array = PyArray::<T, D>::zeros(py, shape, false);
    array.try_readwrite().map_err(|cause| borrow_error(py, "output", &cause))
}

/// The elements of a contiguous output.
pub(crate) fn slice_mut<'a, T: Element, D: Dimension>(
    array: &'a mut PyReadwriteArray<'_, T, D>,
    name: &str,
) -> PyResult<&'a mut [T]> {
    let py = array.py();
    array.as_slice_mut().map_err(|cause| borrow_error(py, name, &cause))
}

/// The array behind a borrow.
pub(crate) fn owned<'py, T: Element, D: Dimension>(
    array: &PyReadwriteArray<'py, T, D>,
) -> Bound<'py, PyArray<T, D>> {
    let bound: &Bound<'py, PyArray<T, D>> = array;
    bound.clone()
}

fn borrow_error(py: Python<'_>, name: &str, cause: &dyn std::fmt::Display) -> PyErr {
    let message = format!(
        "{name}: {cause}; outputs must be writeable and must not share memory with other arguments"
    );
    errors::new(py, Class::Shape, message)
}

/// Type, dtype, shape and layout of what was passed as an output.
fn described(value: &Bound<'_, PyAny>) -> String {
    match value.cast::<PyUntypedArray>() {
        Ok(array) => {
            let layout = if array.is_c_contiguous() { "" } else { "non-contiguous " };
            format!("a {layout}{} array of shape {:?}", array.dtype(), array.shape())
        }
        Err(_) => shown(value),
    }
}
