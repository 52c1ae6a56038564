//! What is pushed -> the bytes of a column.

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat};
use rlox_core::{Dtype, Field};

use crate::coerce;
use crate::errors::{self, Class};
use crate::views::{Plain, View};

/// Rows of one column.
pub(super) enum Bytes<'py> {
    /// An array's memory.
    Array(View<'py, u8>),
    /// One number of so many bytes.
    Number([u8; 8], usize),
}

impl Bytes<'_> {
    /// The bytes in row-major order.
    pub(super) fn slice(&self) -> &[u8] {
        match self {
            Self::Array(view) => view.slice(),
            Self::Number(bytes, len) => bytes.get(..*len).unwrap_or_default(),
        }
    }
}

/// Rows of column `field` with the leading axes `lead`, from any array-like or number.
pub(super) fn read<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    field: &Field,
    lead: &[usize],
) -> PyResult<Bytes<'py>> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return from_array(array, name, field, lead);
    }
    if lead.is_empty() && field.len() == 1 {
        if let Ok(float) = value.cast_exact::<PyFloat>() {
            if let Some(number) = from_float(float.value(), field.dtype) {
                return Ok(number);
            }
        } else if let Some(number) = from_number(value, field.dtype) {
            return Ok(number);
        }
    }
    from_array(&coerce::array(value, name)?, name, field, lead)
}

/// One flag, or `lead` of them.
pub(super) fn flags<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    lead: &[usize],
) -> PyResult<Bytes<'py>> {
    if lead.is_empty() {
        if let Ok(flag) = value.cast::<PyBool>() {
            return Ok(Bytes::Number([u8::from(flag.is_true()); 8], 1));
        }
        // Also NumPy's bool scalars.
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
    let same = match field.dtype {
        Dtype::U8 => View::<u8>::of(array),
        Dtype::U16 => View::<u16>::of(array).map(View::into_bytes),
        Dtype::I8 => View::<i8>::of(array).map(View::into_bytes),
        Dtype::I16 => View::<i16>::of(array).map(View::into_bytes),
        Dtype::I32 => View::<i32>::of(array).map(View::into_bytes),
        Dtype::I64 => View::<i64>::of(array).map(View::into_bytes),
        Dtype::F32 => View::<f32>::of(array).map(View::into_bytes),
        Dtype::F64 => View::<f64>::of(array).map(View::into_bytes),
        Dtype::Bool => View::of_bools(array),
    };
    match same {
        Ok(view) => Ok(Bytes::Array(view)),
        Err(_) => converted(array, name, field.dtype).map(Bytes::Array),
    }
}

/// A copy of `array` in the column's type.
#[cold]
fn converted<'py>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
    dtype: Dtype,
) -> PyResult<View<'py, u8>> {
    match dtype {
        Dtype::F32 => coerce::numbers::<f32>(array, name).map(View::into_bytes),
        Dtype::F64 => coerce::numbers::<f64>(array, name).map(View::into_bytes),
        Dtype::Bool => coerce::bools(array, name),
        Dtype::U8 => whole::<u8>(array, name, dtype),
        Dtype::U16 => whole::<u16>(array, name, dtype),
        Dtype::I8 => whole::<i8>(array, name, dtype),
        Dtype::I16 => whole::<i16>(array, name, dtype),
        Dtype::I32 => whole::<i32>(array, name, dtype),
        Dtype::I64 => whole::<i64>(array, name, dtype),
    }
}

/// A copy of whole numbers of any type, each of which has to fit.
fn whole<'py, T: Plain + TryFrom<i64>>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
    dtype: Dtype,
) -> PyResult<View<'py, u8>> {
    let wide = coerce::elements::<i64>(array, name, "iub")?;
    // Unsigned numbers above i64::MAX have become negative.
    let wrapped = |number: i64| number < 0 && array.dtype().kind() == b'u';
    let fits = |number: i64| T::try_from(number).is_ok() && !wrapped(number);
    if let Some(number) = wide.slice().iter().find(|number| !fits(**number)) {
        let message = format!("{name} holds {number}, expected {} numbers", dtype.name());
        return Err(errors::new(array.py(), Class::Shape, message));
    }
    Ok(coerce::elements::<T>(array, name, "iub")?.into_bytes())
}

/// Checks for `lead + field.shape`; a column of flat rows takes rows of any shape with as many
/// elements, and a single row may have a leading axis of 1.
#[inline]
fn check_shape(
    array: &Bound<'_, PyUntypedArray>,
    name: &str,
    field: &Field,
    lead: &[usize],
) -> PyResult<()> {
    let shape = array.shape();
    // A call of memcmp would take longer than these few numbers.
    let alike = |expected: &[usize], got: &[usize]| {
        expected.len() == got.len() && expected.iter().zip(got).all(|(a, b)| a == b)
    };
    if lead.is_empty() && alike(&field.shape, shape) {
        return Ok(());
    }
    if let Some(row) = shape.strip_prefix(lead) {
        if row == field.shape {
            return Ok(());
        }
        let flat = field.shape.len() <= 1 && row.iter().product::<usize>() == field.len();
        let single = lead.is_empty() && shape.strip_prefix(&[1]) == Some(&field.shape);
        if flat || single {
            return Ok(());
        }
    }
    let expected: Vec<usize> = lead.iter().chain(&field.shape).copied().collect();
    let message = format!("{name} has shape {shape:?}, expected {expected:?}");
    Err(errors::new(array.py(), Class::Shape, message))
}

/// A float as one number of the column; None for a column of whole numbers.
fn from_float(value: f64, dtype: Dtype) -> Option<Bytes<'static>> {
    match dtype {
        #[expect(clippy::cast_possible_truncation, reason = "rounding, as NumPy does")]
        Dtype::F32 => Some(number((value as f32).to_ne_bytes())),
        Dtype::F64 => Some(number(value.to_ne_bytes())),
        _ => None,
    }
}

/// A Python number as one number of the column; None if it does not fit.
fn from_number(value: &Bound<'_, PyAny>, dtype: Dtype) -> Option<Bytes<'static>> {
    match dtype {
        Dtype::F32 | Dtype::F64 => from_float(coerce::real(value, "").ok()?, dtype),
        Dtype::I64 => Some(number(value.extract::<i64>().ok()?.to_ne_bytes())),
        Dtype::I32 => Some(number(value.extract::<i32>().ok()?.to_ne_bytes())),
        Dtype::I16 => Some(number(value.extract::<i16>().ok()?.to_ne_bytes())),
        Dtype::I8 => Some(number(value.extract::<i8>().ok()?.to_ne_bytes())),
        Dtype::U16 => Some(number(value.extract::<u16>().ok()?.to_ne_bytes())),
        Dtype::U8 => Some(number([value.extract::<u8>().ok()?])),
        Dtype::Bool => Some(number([u8::from(value.cast::<PyBool>().ok()?.is_true())])),
    }
}

fn number<const N: usize>(bytes: [u8; N]) -> Bytes<'static> {
    let mut all = [0; 8];
    for (slot, byte) in all.iter_mut().zip(bytes) {
        *slot = byte;
    }
    Bytes::Number(all, N)
}
