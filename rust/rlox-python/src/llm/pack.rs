//! Sequence packing for Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PySlice};
use rlox_core::llm::packing::{Description, Packing};

use super::tokens::{self, read_integers};
use crate::convert::arg;
use crate::convert::coerce;
use crate::detach::detached;
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{View, ViewMut};

/// (packed, masks, positions).
type PackedArrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Assigns sequences to rows of `max_len` tokens by first-fit decreasing (Johnson 1974).
///
/// Takes the longest sequence first, and sequences of equal length in their original order. Each
/// one goes into the first row that has room. This needs at most 11/9 of the fewest possible rows,
/// plus one, and O(n log n) time for n sequences.
///
/// Args:
///     lengths: tokens of each sequence, integers in 1..=max_len, `[n]`.
///     max_len: tokens of a row, at least 1.
///
/// Returns:
///     (packed, masks, positions), each `[n_bins, max_len]`: packed (int64) has the index in lengths
///     of the token's sequence, or -1 for padding; masks (bool) is True where there is a token;
///     positions (int64) counts from 0 within each sequence, and is 0 for padding.
///
/// Raises:
///     ShapeError: lengths is not `[n]` or not of integers.
///     ConfigError: max_len or a length (named by its index) is out of range, or the rows would
///         have 2**31 tokens or more.
#[pyfunction]
pub(crate) fn pack_sequences<'py>(
    py: Python<'py>,
    lengths: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arg::size::max_len)] max_len: usize,
) -> PyResult<PackedArrays<'py>> {
    let lengths = coerce::array(lengths, "lengths")?;
    coerce::check_ndim(&lengths, "lengths", &["n"])?;
    let lengths = read_integers(&lengths, "lengths")?;
    let packing = pack(py, lengths.slice(), max_len)?;
    describe(py, &packing)
}

/// Concatenates sequences of tokens in rows of `max_len`, with the assignment of `pack_sequences`.
///
/// Args:
///     sequences: token ids of each sequence, 1 to max_len integers.
///     max_len: tokens of a row, at least 1.
///     pad_token_id: the token that fills the rest of a row.
///
/// Returns:
///     A dict with `packed`, `masks`, `positions` of `pack_sequences`, and
///     tokens: int64 `[n_bins, max_len]`;
///     cu_seqlens: int32 `[n + 1]`, the positions at which the sequences begin in `tokens[masks]`
///         (the rows without padding), and as last entry the number of tokens: the form that
///         variable-length attention kernels take;
///     order: int64 `[n]`, the index of the sequence between cu_seqlens[i] and cu_seqlens[i + 1].
///
/// Raises:
///     ShapeError: a sequence is not one-dimensional or not of integers.
///     ConfigError: a sequence (named by its index) is empty or too long, a token or max_len is out
///         of range, or the rows would have 2**31 tokens or more.
#[pyfunction]
#[pyo3(
    signature = (sequences, max_len, *, pad_token_id=0)
)]
pub(crate) fn pack_tokens<'py>(
    py: Python<'py>,
    sequences: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arg::size::max_len)] max_len: usize,
    #[pyo3(from_py_with = arg::signed::pad_token_id)] pad_token_id: i64,
) -> PyResult<Bound<'py, PyDict>> {
    let views = tokens::read_sequences(sequences)?;
    let sequences: Vec<&[i64]> = views.iter().map(View::slice).collect();
    let lengths: Vec<i64> =
        sequences.iter().map(|tokens| i64::try_from(tokens.len()).unwrap_or(i64::MAX)).collect();
    let packing = pack(py, &lengths, max_len)?;
    let (packed, masks, positions) = describe(py, &packing)?;
    let mut tokens = ViewMut::<i64>::fresh(py, &[packing.n_bins(), packing.max_len()])?;
    let out = tokens.slice_mut();
    detached(py, out.len(), || packing.write_tokens(&sequences, pad_token_id, out))?;
    let order: Vec<i64> =
        packing.places().iter().map(|place| i64::try_from(place.sequence).unwrap_or(i64::MAX)).collect();
    let result = PyDict::new(py);
    result.set_item("tokens", tokens.into_array())?;
    result.set_item("packed", packed)?;
    result.set_item("masks", masks)?;
    result.set_item("positions", positions)?;
    result.set_item("cu_seqlens", numpy::PyArray1::from_vec(py, packing.cumulative_lengths()))?;
    result.set_item("order", numpy::PyArray1::from_vec(py, order))?;
    Ok(result)
}

/// Cuts the values of each sequence out of rows: the inverse of `pack_tokens`.
///
/// Args:
///     values: tokens, or values that were computed per token: an array or a tensor
///         `[n_bins, max_len, ...]` of any dtype.
///     packed: the sequence of each token, as `pack_sequences` returns it, int64
///         `[n_bins, max_len]`.
///
/// Returns:
///     A list of `[length, ...]` in the order in which the sequences were packed. They are views of
///     values, so gradients flow through them.
///
/// Raises:
///     ShapeError: the shape of values does not begin with the shape of packed, or values has no
///         shape.
///     ConfigError: a sequence of packed is in two pieces, or one is missing.
#[pyfunction]
pub(crate) fn unpack_sequences<'py>(
    py: Python<'py>,
    values: &Bound<'py, PyAny>,
    packed: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    let packed = coerce::array(packed, "packed")?;
    coerce::check_ndim(&packed, "packed", &["n_bins", "max_len"])?;
    // A list becomes an array; arrays and tensors are cut without conversion.
    let values = match values.getattr("shape") {
        Ok(_) => values.clone(),
        Err(_) => coerce::array(values, "values")?.into_any(),
    };
    let shape: Vec<usize> = values.getattr("shape")?.extract()?;
    if shape.get(..2) != Some(packed.shape()) {
        let message = format!(
            "values has shape {shape:?}, expected {:?} to begin with (the shape of packed)",
            packed.shape()
        );
        return Err(errors::new(py, ErrorClass::Shape, message));
    }
    let rows = read_integers(&packed, "packed")?;
    let width = shape.get(1).copied().unwrap_or(0);
    let pieces = Packing::pieces(rows.slice(), width).or_raise(py)?;
    let result = PyList::empty(py);
    for (bin, start, len) in pieces {
        let (start, end) = (isize::try_from(start)?, isize::try_from(start + len)?);
        result.append(values.get_item((bin, PySlice::new(py, start, end, 1)))?)?;
    }
    Ok(result)
}

fn pack(py: Python<'_>, lengths: &[i64], max_len: usize) -> PyResult<Packing> {
    detached(py, lengths.len() * 50, || Packing::first_fit_decreasing(lengths, max_len))
}

fn describe<'py>(py: Python<'py>, packing: &Packing) -> PyResult<PackedArrays<'py>> {
    let shape = [packing.n_bins(), packing.max_len()];
    let mut packed = ViewMut::<i64>::fresh(py, &shape)?;
    let mut masks = ViewMut::<bool>::fresh(py, &shape)?;
    let mut positions = ViewMut::<i64>::fresh(py, &shape)?;
    let out = Description {
        packed: packed.slice_mut(),
        masks: masks.slice_mut(),
        positions: positions.slice_mut(),
    };
    detached(py, out.packed.len(), || packing.describe(out))?;
    let arrays: [Bound<'py, PyUntypedArray>; 3] =
        [packed.into_array(), masks.into_array(), positions.into_array()];
    let [packed, masks, positions] = arrays.map(Bound::into_any);
    Ok((packed, masks, positions))
}
