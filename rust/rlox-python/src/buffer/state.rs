//! The state of a buffer as a flat dict of arrays.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rlox_core::Shared;
use rlox_core::buffer::{BufferState, InMemoryBuffer};

use crate::convert::coerce;
use crate::convert::saved::StateDict;
use crate::detach::ALWAYS_RELEASE;
use crate::detach::{detached, with_read_lock};
use crate::errors::{self, ErrorClass};

/// Version of the dict's fields and their meaning.
const FORMAT: u32 = 2;

/// Returns the state as a dict: rows under the names of their columns (these contain a `/`), and
/// the rest of the buffer as numbers of 8 bytes, or as bytes.
pub(super) fn save<'py, B: InMemoryBuffer + Send + Sync>(
    py: Python<'py>,
    buffer: &Shared<B>,
) -> PyResult<Bound<'py, PyDict>> {
    let BufferState { layout, columns, rows } =
        with_read_lock(py, buffer, ALWAYS_RELEASE, |b| Ok(b.state()))?;
    let dict = PyDict::new(py);
    dict.set_item("format", FORMAT)?;
    dict.set_item("layout", layout)?;
    for (name, size, bytes) in columns {
        if size % 8 == 0 {
            let numbers = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
            dict.set_item(name, PyArray1::from_iter(py, numbers))?;
        } else {
            dict.set_item(name, PyArray1::from_vec(py, bytes))?;
        }
    }
    for (name, _, bytes) in rows {
        dict.set_item(name, PyArray1::from_vec(py, bytes))?;
    }
    Ok(dict)
}

/// Continues from a dict that [`save`] wrote.
pub(super) fn restore<B: InMemoryBuffer + Send + Sync>(
    py: Python<'_>,
    buffer: &Shared<B>,
    dict: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let state_dict = StateDict { dict, method: "state" };
    let format: u32 = state_dict.read_field("format")?;
    if format != FORMAT {
        let message = format!(
            "state field format is {format}, expected {FORMAT}; states of another version of rlox \
             cannot be read, what save() wrote can"
        );
        return Err(errors::new(py, ErrorClass::Checkpoint, message));
    }
    let mut state = BufferState { layout: state_dict.read_field("layout")?, ..BufferState::default() };
    for (key, value) in dict.iter() {
        let name = key.cast::<PyString>()?.to_string_lossy().into_owned();
        if name == "format" || name == "layout" {
            continue;
        }
        let array = coerce::array(&value, &name)?;
        coerce::check_ndim(&array, &name, &["n"])?;
        if name.contains('/') {
            let bytes = coerce::elements::<u8>(&array, &name, "iu")?.slice().to_vec();
            state.rows.push((name, 1, bytes));
        } else if let Ok(bytes) = crate::memory::views::View::<u8>::of(&array) {
            state.columns.push((name, 1, bytes.slice().to_vec()));
        } else {
            let numbers = coerce::elements::<u64>(&array, &name, "iu")?;
            let bytes = numbers.slice().iter().flat_map(|number| number.to_le_bytes());
            let bytes = bytes.collect();
            state.columns.push((name, 8, bytes));
        }
    }
    detached(py, ALWAYS_RELEASE, || buffer.replace(|buffer| buffer.restore(&state)))
}
