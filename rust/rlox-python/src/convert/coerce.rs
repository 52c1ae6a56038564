//! Conversion of Python arguments to contiguous slices of the right type, or to a typed error.

use std::borrow::Cow;

use numpy::{
    Element, PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, get_array_module,
};
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFloat, PyInt, PyString};
use rlox_core::advantage::Flag;

use super::masked;
use crate::errors::{self, ErrorClass, ReplaceRefusal, is_refusal};
use crate::memory::views::{OutputElement, Plain, Refusal, View, ViewMut};

/// An optional argument.
pub(crate) type OptionalArg<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// An integer argument before its conversion. Its methods take its name for their messages.
pub(crate) struct IntegerArg<'py>(Option<Bound<'py, PyAny>>);

impl<'py> FromPyObject<'_, 'py> for IntegerArg<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self(Some(value.to_owned())))
    }
}

impl IntegerArg<'_> {
    /// An omitted argument.
    pub(crate) const OMITTED: Self = Self(None);

    /// Returns the integer, which must be in 0..2**64, or `default` if the argument was omitted.
    pub(crate) fn read(&self, name: &str, default: u64) -> PyResult<u64> {
        self.0.as_ref().map_or(Ok(default), |value| unsigned(value, name))
    }

    /// Returns the integer, which must be in 0..2**64, or None if the argument was omitted or is
    /// None.
    pub(crate) fn read_optional(&self, name: &str) -> PyResult<Option<u64>> {
        let value = self.0.as_ref().filter(|value| !value.is_none());
        value.map(|value| unsigned(value, name)).transpose()
    }
}

/// A float argument before its conversion, or its default. `read` takes its name for messages.
pub(crate) enum RealArg<'py> {
    /// The object that Python passed.
    Given(Bound<'py, PyAny>),
    /// The default of an omitted argument.
    Omitted(f64),
}

impl<'py> FromPyObject<'_, 'py> for RealArg<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(value.to_owned()))
    }
}

impl RealArg<'_> {
    /// Returns the number. The code that uses it checks its range.
    pub(crate) fn read(&self, name: &str) -> PyResult<f64> {
        match self {
            Self::Given(value) => real(value, name),
            Self::Omitted(default) => Ok(*default),
        }
    }
}

/// Reads a float argument that may be omitted or None.
pub(crate) fn optional_real(value: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<Option<f64>> {
    value.map(|value| real(value, name)).transpose()
}

/// Reads anything that Python converts to a float, NaN and infinities included. NumPy's complex
/// numbers are an error, because the conversion would drop the imaginary part. NumPy's dates and
/// time spans are errors too.
pub(crate) fn real(value: &Bound<'_, PyAny>, name: &str) -> PyResult<f64> {
    try_real(value)?.ok_or_else(|| {
        let message = format!("{name} is {}, expected a number in the range of float64", short_repr(value));
        errors::new(value.py(), ErrorClass::Config, message)
    })
}

/// Reads a number as [`real`] does, but returns None for anything else.
pub(crate) fn try_real(value: &Bound<'_, PyAny>) -> PyResult<Option<f64>> {
    let is_python_number = value.cast::<PyFloat>().is_ok() || value.cast::<PyInt>().is_ok();
    if !is_python_number && has_dtype_kind(value, b"cmM") {
        return Ok(None);
    }
    match value.extract() {
        Ok(number) => Ok(Some(number)),
        Err(error) if is_refusal(value.py(), &error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A text argument before its conversion, or its default. Anything but a `str` is a `TypeError`.
pub(crate) enum TextArg<'py> {
    /// The text that Python passed.
    Given(Bound<'py, PyString>),
    /// The default of an omitted argument.
    Omitted(&'static str),
}

impl<'py> FromPyObject<'_, 'py> for TextArg<'py> {
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self::Given(value.cast::<PyString>()?.to_owned()))
    }
}

impl TextArg<'_> {
    /// Returns the text. Lone surrogates are an error, because UTF-8 cannot encode them.
    pub(crate) fn read(&self, name: &str) -> PyResult<Cow<'_, str>> {
        match self {
            Self::Given(text) => text.to_cow().replace_refusal(text.py(), |_| {
                let message = format!("{name} is {}, expected Unicode text", short_repr(text));
                errors::new(text.py(), ErrorClass::Config, message)
            }),
            Self::Omitted(default) => Ok(Cow::Borrowed(default)),
        }
    }
}

/// Whether `value` is a NumPy array or scalar of one of these dtype kinds.
fn has_dtype_kind(value: &Bound<'_, PyAny>, kinds: &[u8]) -> bool {
    let dtype = value.getattr(intern!(value.py(), "dtype")).ok();
    let kind = dtype.and_then(|dtype| Some(dtype.cast_into::<PyArrayDescr>().ok()?.kind()));
    kind.is_some_and(|kind| kinds.contains(&kind))
}

/// Reads an integer in 0..2**64.
pub(crate) fn unsigned(value: &Bound<'_, PyAny>, name: &str) -> PyResult<u64> {
    value.extract().replace_refusal(value.py(), |_| {
        let message = format!("{name} is {}, expected an integer in 0..2**64", short_repr(value));
        errors::new(value.py(), ErrorClass::Config, message)
    })
}

/// Reads a number as [`real`] does, or None.
pub(crate) fn real_or_none(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<f64>> {
    if value.is_none() { Ok(None) } else { real(value, name).map(Some) }
}

/// Reads an integer in 0..2**64, or None.
pub(crate) fn unsigned_or_none(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Option<u64>> {
    if value.is_none() { Ok(None) } else { unsigned(value, name).map(Some) }
}

/// Reads an integer in 0..2**64 as a size; a number beyond `usize` becomes `usize::MAX`.
pub(crate) fn size(value: &Bound<'_, PyAny>, name: &str) -> PyResult<usize> {
    Ok(usize::try_from(unsigned(value, name)?).unwrap_or(usize::MAX))
}

/// Reads an integer in -2**63..2**63.
pub(crate) fn signed(value: &Bound<'_, PyAny>, name: &str) -> PyResult<i64> {
    value.extract().replace_refusal(value.py(), |_| {
        let message = format!("{name} is {}, expected an integer in -2**63..2**63", short_repr(value));
        errors::new(value.py(), ErrorClass::Config, message)
    })
}

/// Reads a `str`; anything else is a `TypeError`. Lone surrogates are an error, because UTF-8
/// cannot encode them.
pub(crate) fn text<'a>(value: &'a Bound<'_, PyAny>, name: &str) -> PyResult<&'a str> {
    let text = value.cast::<PyString>()?;
    text.to_str().replace_refusal(value.py(), |_| {
        let message = format!("{name} is {}, expected Unicode text", short_repr(text));
        errors::new(value.py(), ErrorClass::Config, message)
    })
}

/// Returns a short `repr` for messages.
pub(crate) fn short_repr(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map_or_else(|_| "an object".to_owned(), |text| text.to_string());
    if text.chars().count() > 80 { text.chars().take(77).chain("...".chars()).collect() } else { text }
}

/// Converts any array-like to a NumPy array; an array stays as it is. Masked numbers are refused.
pub(crate) fn array<'py>(value: &Bound<'py, PyAny>, name: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        masked::refuse(array, name)?;
        return Ok(array.clone());
    }
    let py = value.py();
    let read = || {
        let numpy = get_array_module(py)?;
        let array = numpy.call_method1("asarray", (value,))?.cast_into::<PyUntypedArray>()?;
        if array.len() > 0 || array.dtype().kind() != b'f' || value.hasattr("dtype")? {
            return Ok(array);
        }
        // NumPy makes a float64 array of `[]`, but `[]` may also stand for no indices. int64
        // converts to any type of number.
        Ok(array.call_method1("astype", ("int64",))?.cast_into::<PyUntypedArray>()?)
    };
    read().replace_refusal(py, |cause| {
        let message = format!(
            "{name} cannot be read as an array ({}); pass a NumPy array, a list of numbers or a \
             detached CPU tensor",
            cause.value(py)
        );
        errors::new(py, ErrorClass::Shape, message)
    })
}

/// Returns a C-contiguous view or copy of `array` with elements `T`. `kinds` are the accepted dtype
/// kinds.
#[inline]
pub(crate) fn elements<'py, T: Plain>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
    kinds: &str,
) -> PyResult<View<'py, T>> {
    match View::of(array) {
        Ok(view) => Ok(view),
        Err(Refusal::InUse) => Err(in_use_error(array, name)),
        // float64 beyond the range of float32 becomes infinite; the kernels report it with its
        // index.
        Err(_) => view_of_copy::<T, _>(array, name, kinds, View::of),
    }
}

/// Returns a C-contiguous view or copy of `array` as bools, one byte each: 0 is false, other
/// numbers are true, NaN is an error.
pub(crate) fn bools<'py>(array: &Bound<'py, PyUntypedArray>, name: &str) -> PyResult<View<'py, u8>> {
    match View::of_bools(array) {
        Ok(view) => Ok(view),
        Err(Refusal::InUse) => Err(in_use_error(array, name)),
        Err(_) => {
            if array.dtype().kind() == b'f' {
                refuse_nan(array.py(), numbers::<f64>(array, name)?.slice(), name)?;
            }
            view_of_copy::<bool, _>(array, name, "fiub", View::of_bools)
        }
    }
}

/// Refuses flags that are NaN.
pub(crate) fn refuse_nan<T: Flag>(py: Python<'_>, flags: &[T], name: &str) -> PyResult<()> {
    let Some(index) = T::first_nan(flags) else { return Ok(()) };
    let message = format!("{name} is NaN at {index}, expected flags: 0 or not 0");
    Err(errors::new(py, ErrorClass::NonFinite, message))
}

#[cold]
fn in_use_error(array: &Bound<'_, PyUntypedArray>, name: &str) -> PyErr {
    let message = format!("{name} is being written to by another call; give each thread arrays of its own");
    errors::new(array.py(), ErrorClass::Shape, message)
}

/// Returns a view of a copy of `array` with elements `T`.
#[cold]
fn view_of_copy<'py, T: Element, V>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
    kinds: &str,
    view: impl Fn(&Bound<'py, PyUntypedArray>) -> Result<V, Refusal>,
) -> PyResult<V> {
    let py = array.py();
    let dtype_error = || {
        let message = format!(
            "{name} has dtype {}, expected {}",
            array.dtype(),
            if kinds.contains('f') { "numbers" } else { "integers" }
        );
        errors::new(py, ErrorClass::Shape, message)
    };
    if !kinds.as_bytes().contains(&array.dtype().kind()) {
        return Err(dtype_error());
    }
    let options = PyDict::new(py);
    options.set_item("dtype", numpy::dtype::<T>(py))?;
    options.set_item("order", "C")?;
    // `ascontiguousarray` would not do: it returns a misaligned array unchanged.
    let copy = || get_array_module(py)?.call_method("array", (array,), Some(&options));
    let array_copy = match copy() {
        // The user may have turned warnings into errors. The caller of this function reports
        // numbers that do not fit.
        Err(error) if error.is_instance_of::<PyRuntimeWarning>(py) => without_warnings(py, copy)?,
        result => result?,
    };
    view(array_copy.cast::<PyUntypedArray>()?).map_err(|_| dtype_error())
}

/// Runs `call` without NumPy's warnings about numbers that do not fit.
#[cold]
fn without_warnings<T>(py: Python<'_>, call: impl Fn() -> PyResult<T>) -> PyResult<T> {
    let options = PyDict::new(py);
    options.set_item("all", "ignore")?;
    let quiet = py.import("numpy")?.call_method("errstate", (), Some(&options))?;
    quiet.call_method0("__enter__")?;
    let result = call();
    quiet.call_method1("__exit__", (py.None(), py.None(), py.None()))?;
    result
}

/// Reads floats, integers or bools as `T`.
#[inline]
pub(crate) fn numbers<'py, T: Plain>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
) -> PyResult<View<'py, T>> {
    elements(array, name, "fiub")
}

/// Checks the number of dimensions.
pub(crate) fn check_ndim(array: &Bound<'_, PyUntypedArray>, name: &str, expected: &[&str]) -> PyResult<()> {
    if array.ndim() == expected.len() {
        return Ok(());
    }
    let expected = expected.join(", ");
    let message = format!("{name} has shape {:?}, expected ({expected})", array.shape());
    Err(errors::new(array.py(), ErrorClass::Shape, message))
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
    Err(errors::new(array.py(), ErrorClass::Shape, message))
}

/// Returns the caller's C-contiguous output array, which must have exactly this type and shape.
pub(crate) fn output<'py, T: OutputElement>(
    value: &Bound<'py, PyAny>,
    name: &str,
    shape: &[usize],
) -> PyResult<ViewMut<'py, T>> {
    let refusal = match value.cast::<PyUntypedArray>() {
        Ok(array) if array.shape() == shape => match ViewMut::of(array) {
            Ok(view) => return Ok(view),
            Err(reason) => reason,
        },
        _ => Refusal::Layout,
    };
    let py = value.py();
    let message = match refusal {
        Refusal::Layout => format!(
            "{name} is {}, expected a C-contiguous {} array of shape {shape:?}",
            describe_output(value),
            numpy::dtype::<T>(py)
        ),
        Refusal::ReadOnly => format!("{name} is read-only, expected a writeable array"),
        Refusal::InUse => format!(
            "{name} shares memory with another argument, or with an argument of a call in another thread; \
             outputs must not share memory with other arguments, and each thread needs its own outputs"
        ),
    };
    Err(errors::new(py, ErrorClass::Shape, message))
}

/// Describes the type, dtype, shape and layout of a value that was passed as an output.
fn describe_output(value: &Bound<'_, PyAny>) -> String {
    match value.cast::<PyUntypedArray>() {
        Ok(array) => {
            let layout = if array.is_c_contiguous() { "" } else { "non-contiguous " };
            format!("a {layout}{} array of shape {:?}", array.dtype(), array.shape())
        }
        Err(_) => short_repr(value),
    }
}
