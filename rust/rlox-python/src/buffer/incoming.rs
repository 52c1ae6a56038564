//! Conversion of pushed values to the bytes of a column.

use std::fmt::Display;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat};
use rlox_core::{Dtype, Field, with_dtype};

use crate::convert::{coerce, masked};
use crate::errors::{self, ErrorClass};
use crate::memory::views::{Plain, View};

/// The bytes of a column's rows.
pub(super) enum Bytes<'py> {
    /// The memory of an array.
    Array(View<'py, u8>),
    /// One number, and how many bytes it has.
    Number([u8; 8], usize),
}

impl Bytes<'_> {
    /// Returns the bytes in row-major order.
    pub(super) fn slice(&self) -> &[u8] {
        match self {
            Self::Array(view) => view.slice(),
            Self::Number(bytes, len) => bytes.get(..*len).unwrap_or_default(),
        }
    }
}

/// Reads rows of column `field` with the leading axes `lead` from any array-like or number.
pub(super) fn read<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    field: &Field,
    lead: &[usize],
) -> PyResult<Bytes<'py>> {
    // The check for an array costs more than the check for a float.
    if !value.is_exact_instance_of::<PyFloat>()
        && let Ok(array) = value.cast::<PyUntypedArray>()
    {
        masked::refuse(array, name)?;
        return from_array(array, name, field, lead);
    }
    if lead.is_empty()
        && field.len() == 1
        && let Some(number) = with_dtype!(field.dtype, T => T::number(value))?
    {
        return Ok(number);
    }
    from_array(&coerce::array(value, name)?, name, field, lead)
}

/// Reads one flag, or flags of shape `lead`.
pub(super) fn flags<'py>(value: &Bound<'py, PyAny>, name: &str, lead: &[usize]) -> PyResult<Bytes<'py>> {
    if lead.is_empty() {
        if let Ok(flag) = value.cast::<PyBool>() {
            return Ok(Bytes::Number([u8::from(flag.is_true()); 8], 1));
        }
        // NumPy's bool scalars are not `PyBool`.
        if let Ok(flag) = value.extract::<bool>() {
            return Ok(Bytes::Number([u8::from(flag); 8], 1));
        }
    }
    let array = coerce::array(value, name)?;
    let field = Field::new(name, Dtype::Bool, []);
    check_shape(&array, name, &field, lead)?;
    coerce::bools(&array, name).map(Bytes::Array)
}

fn from_array<'py>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
    field: &Field,
    lead: &[usize],
) -> PyResult<Bytes<'py>> {
    check_shape(array, name, field, lead)?;
    with_dtype!(field.dtype, T => T::view(array, name, field.dtype)).map(Bytes::Array)
}

/// An element of a column. It can be read from NumPy and from Python.
trait Element: Sized {
    /// Returns the array's memory, or a copy in this type.
    fn view<'py>(array: &Bound<'py, PyUntypedArray>, name: &str, dtype: Dtype) -> PyResult<View<'py, u8>>;

    /// Converts a Python number; None if it does not fit.
    fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Bytes<'static>>>;
}

macro_rules! impl_integers {
    ($($type:ty)+) => { $(impl Element for $type {
        #[inline]
        fn view<'py>(
            array: &Bound<'py, PyUntypedArray>,
            name: &str,
            dtype: Dtype,
        ) -> PyResult<View<'py, u8>> {
            match View::<$type>::of(array) {
                Ok(view) => Ok(view.into_bytes()),
                Err(_) => copy_integers::<$type>(array, name, dtype),
            }
        }

        fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Bytes<'static>>> {
            Ok(value.extract::<$type>().ok().map(|whole| number_bytes(whole.to_ne_bytes())))
        }
    })+ };
}

impl_integers! { u8 u16 u32 u64 i8 i16 i32 i64 }

macro_rules! impl_floats {
    ($($type:ty)+) => { $(impl Element for $type {
        #[inline]
        fn view<'py>(
            array: &Bound<'py, PyUntypedArray>,
            name: &str,
            dtype: Dtype,
        ) -> PyResult<View<'py, u8>> {
            if let Ok(view) = View::<$type>::of(array) {
                return Ok(view.into_bytes());
            }
            let narrow = coerce::numbers::<$type>(array, name)?;
            if narrow.slice().iter().any(|number| number.is_infinite()) {
                let wide = coerce::numbers::<f64>(array, name)?;
                let mut pairs = narrow.slice().iter().zip(wide.slice());
                if let Some((_, wide)) = pairs.find(|(n, wide)| n.is_infinite() && wide.is_finite()) {
                    return Err(range_error(array.py(), name, format_args!("{wide:e}"), dtype));
                }
            }
            Ok(narrow.into_bytes())
        }

        #[allow(
            clippy::allow_attributes,
            clippy::cast_possible_truncation,
            clippy::unnecessary_cast,
            reason = "one text for two types, rounding as NumPy does"
        )]
        fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Bytes<'static>>> {
            let wide = match value.cast_exact::<PyFloat>() {
                Ok(exact) => Some(exact.value()),
                Err(_) => coerce::try_real(value)?,
            };
            let narrow = wide.map(|wide| (wide, wide as $type));
            let fits = narrow.filter(|(wide, narrow)| narrow.is_finite() || !wide.is_finite());
            Ok(fits.map(|(_, narrow)| number_bytes(narrow.to_ne_bytes())))
        }
    })+ };
}

impl_floats! { f32 f64 }

impl Element for bool {
    fn view<'py>(array: &Bound<'py, PyUntypedArray>, name: &str, _dtype: Dtype) -> PyResult<View<'py, u8>> {
        let view = coerce::bools(array, name)?;
        if view.slice().iter().all(|&byte| byte <= 1) {
            return Ok(view);
        }
        // Other code can view any bytes as bool. NumPy reads all but 0 as True.
        let flags = array.call_method1("view", ("uint8",))?.call_method1("__ne__", (0,))?;
        coerce::bools(flags.cast()?, name)
    }

    fn number(value: &Bound<'_, PyAny>) -> PyResult<Option<Bytes<'static>>> {
        Ok(value.cast::<PyBool>().ok().map(|flag| number_bytes([u8::from(flag.is_true())])))
    }
}

/// Copies integers of any type; each has to fit into `T`.
#[cold]
fn copy_integers<'py, T: Plain + TryFrom<i128>>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
    dtype: Dtype,
) -> PyResult<View<'py, u8>> {
    let is_signed = array.dtype().kind() != b'u';
    let wide = coerce::elements::<i64>(array, name, "iub")?;
    // Unsigned numbers were read as int64 with the same bits.
    let to_i128 = |number: i64| {
        if is_signed { i128::from(number) } else { i128::from(number.cast_unsigned()) }
    };
    let mut numbers = wide.slice().iter().map(|&number| to_i128(number));
    if let Some(number) = numbers.find(|&number| T::try_from(number).is_err()) {
        return Err(range_error(array.py(), name, number, dtype));
    }
    Ok(coerce::elements::<T>(array, name, "iub")?.into_bytes())
}

fn range_error(py: Python<'_>, name: &str, number: impl Display, dtype: Dtype) -> PyErr {
    let message = format!("{name} holds {number}, expected {} numbers", dtype.name());
    errors::new(py, ErrorClass::Shape, message)
}

/// Checks for the shape `lead + field.shape`. A column of flat rows takes rows of any shape with
/// the same number of elements, and a single row may have a leading axis of 1.
#[inline]
fn check_shape(array: &Bound<'_, PyUntypedArray>, name: &str, field: &Field, lead: &[usize]) -> PyResult<()> {
    let shape = array.shape();
    // A call of memcmp would take longer for so few numbers.
    let are_equal = |expected: &[usize], got: &[usize]| {
        expected.len() == got.len() && expected.iter().zip(got).all(|(a, b)| a == b)
    };
    if lead.is_empty() && are_equal(&field.shape, shape) {
        return Ok(());
    }
    if let Some(row) = shape.strip_prefix(lead) {
        if row == field.shape {
            return Ok(());
        }
        let is_flat = field.shape.len() <= 1 && row.iter().product::<usize>() == field.len();
        let is_single_row = lead.is_empty() && shape.strip_prefix(&[1]) == Some(&field.shape);
        if is_flat || is_single_row {
            return Ok(());
        }
    }
    let expected: Vec<usize> = lead.iter().chain(&field.shape).copied().collect();
    let message = format!("{name} has shape {shape:?}, expected {expected:?}");
    Err(errors::new(array.py(), ErrorClass::Shape, message))
}

fn number_bytes<const N: usize>(bytes: [u8; N]) -> Bytes<'static> {
    let mut padded = [0; 8];
    for (slot, byte) in padded.iter_mut().zip(bytes) {
        *slot = byte;
    }
    Bytes::Number(padded, N)
}
