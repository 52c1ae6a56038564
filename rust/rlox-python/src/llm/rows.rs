//! Arguments that several language-model primitives share: rows of tokens and their masks.

use std::fmt::Display;

use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::errors::{self, ErrorClass};
use crate::memory::views::{Plain, View};

/// Returns the length of the rows of `array`: the argument if the array is flat, else the array's
/// second size.
pub(crate) fn row_len(
    array: &Bound<'_, PyUntypedArray>,
    name: &str,
    arg: OptionalArg<'_, '_>,
    given_name: &str,
    rows_name: &str,
) -> PyResult<usize> {
    let number = arg.map(|given| coerce::unsigned(given, given_name)).transpose()?;
    let expected_len = number.map(|given| usize::try_from(given).unwrap_or(usize::MAX));
    let fail = |class, message| Err(errors::new(array.py(), class, message));
    match (array.shape(), expected_len) {
        (&[_], Some(given)) => Ok(given),
        (&[_, len], None) => Ok(len),
        (&[_, len], Some(given)) if len == given => Ok(len),
        (&[_, len], Some(given)) => {
            let message =
                format!("{given_name} is {given}, expected {len}, the second size of {name}; leave it out");
            fail(ErrorClass::Config, message)
        }
        (&[_], None) => {
            let message =
                format!("{given_name} is missing; pass it, or {name} of shape ({rows_name}, {given_name})");
            fail(ErrorClass::Config, message)
        }
        (shape, _) => {
            let message = format!(
                "{name} has shape {shape:?}, expected ({rows_name} * {given_name}) or \
                 ({rows_name}, {given_name})"
            );
            fail(ErrorClass::Shape, message)
        }
    }
}

/// A mask of tokens, as bytes; a byte other than 0 is true.
pub(crate) enum Mask<'py> {
    View(View<'py, u8>),
    Bytes(Vec<u8>),
}

impl<'py> Mask<'py> {
    /// Reads a mask of the shape of the reference array: bools, or numbers that are 0 or 1.
    pub(crate) fn read(
        mask: &Bound<'py, PyAny>,
        reference: &Bound<'py, PyUntypedArray>,
        like_name: &str,
    ) -> PyResult<Self> {
        let array = coerce::array(mask, "mask")?;
        let why = format!("the shape of {like_name}");
        coerce::check_shape(&array, "mask", reference.shape(), &why)?;
        if array.dtype().kind() == b'b' {
            return coerce::bools(&array, "mask").map(Self::View);
        }
        let bytes = match (View::<i64>::of(&array), View::<f32>::of(&array)) {
            (Ok(view), _) => zeros_and_ones(view.slice()),
            (_, Ok(view)) => zeros_and_ones(view.slice()),
            _ => zeros_and_ones(coerce::numbers::<f64>(&array, "mask")?.slice()),
        };
        bytes.map(Self::Bytes).map_err(|(index, value)| {
            let message = format!("mask is {value} at flat index {index}, expected 0 or 1");
            errors::new(array.py(), ErrorClass::Config, message)
        })
    }

    pub(crate) fn slice(&self) -> &[u8] {
        match self {
            Self::View(view) => view.slice(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// Returns the values as bytes, or the first value that is neither 0 nor 1, with its index.
fn zeros_and_ones<T: Plain + PartialEq + From<u8> + Display>(
    values: &[T],
) -> Result<Vec<u8>, (usize, String)> {
    let (zero, one) = (T::from(0), T::from(1));
    match values.iter().enumerate().find(|&(_, &value)| value != zero && value != one) {
        Some((index, &value)) => Err((index, value.to_string())),
        None => Ok(values.iter().map(|&value| u8::from(value == one)).collect()),
    }
}
