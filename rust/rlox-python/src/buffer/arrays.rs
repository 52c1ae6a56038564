//! The arrays of a batch: new ones, or the caller's.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rlox_core::buffer::{Batch, BatchKind, BatchPart};
use rlox_core::{Result, with_dtype};

use super::columns::Columns;
use crate::convert::coerce;
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{OutputElement, ViewMut};

/// The largest number of dimensions of an array.
const MAX_DIMS: usize = 16;

/// The arrays of one call, in the order of [`BatchKind::parts`].
pub(super) struct Arrays<'a, 'py> {
    columns: &'a Columns,
    kind: BatchKind,
    /// Number of rows, over all leading axes.
    n: usize,
    out_dict: Option<&'a Bound<'py, PyDict>>,
    views: Vec<ViewMut<'py, u8>>,
}

impl<'a, 'py> Arrays<'a, 'py> {
    /// Returns arrays with the leading axes `lead`: those of the caller's dict, or new ones.
    pub(super) fn new(
        py: Python<'py>,
        columns: &'a Columns,
        lead: &[usize],
        kind: BatchKind,
        out_dict: Option<&'a Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let schema = columns.schema();
        out_dict.map_or(Ok(()), |dict| check_keys(columns, dict, kind))?;
        let count = 2 * schema.obs().len() + schema.columns().len() + 5;
        let mut views = Vec::with_capacity(count);
        for part in kind.parts(schema) {
            let (dtype, row) = part.row_type(schema);
            let mut shape = [0; MAX_DIMS];
            for (dim, &size) in shape.iter_mut().zip(lead.iter().chain(row)) {
                *dim = size;
            }
            let shape = shape.get(..lead.len() + row.len()).unwrap_or_default();
            views.push(match out_dict {
                None => with_dtype!(dtype, T => ViewMut::<T>::fresh(py, shape)?.into_bytes()),
                Some(caller_dict) => {
                    let (value, name) = caller_array(py, columns, caller_dict, part)?;
                    with_dtype!(dtype, T => writable_view::<T>(&value, name, shape))?
                }
            });
        }
        Ok(Self { columns, kind, n: lead.iter().product(), out_dict, views })
    }

    /// Runs `fill`, which writes into the arrays, and returns its result.
    pub(super) fn fill_with<T>(
        &mut self,
        py: Python<'py>,
        fill: impl FnOnce(&mut Batch<'_, '_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut arrays: Vec<&mut [u8]> = self.views.iter_mut().map(ViewMut::slice_mut).collect();
        let batch: Result<Batch<'_, '_>> =
            Batch::from_arrays(self.columns.schema(), self.kind, self.n, &mut arrays);
        fill(&mut batch.or_raise(py)?)
    }

    /// Returns the batch as a dict: the caller's own, or a new one.
    pub(super) fn into_dict(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(out_dict) = self.out_dict {
            return Ok(out_dict.clone());
        }
        let dict = self.columns.new_batch_dict(py, self.kind)?;
        let mut nested: Option<(&str, Bound<'py, PyDict>)> = None;
        for (part, view) in self.kind.parts(self.columns.schema()).zip(self.views) {
            let array: Bound<'py, PyUntypedArray> = view.into_array();
            let (parent_key, key) = self.columns.key(py, part);
            let Some(outer_key) = parent_key else {
                dict.set_item(key, array)?;
                continue;
            };
            let inner = match nested.take() {
                Some((name, inner)) if name == outer_key => inner,
                _ => {
                    let inner = PyDict::new(py);
                    dict.set_item(PyString::intern(py, outer_key), &inner)?;
                    inner
                }
            };
            inner.set_item(key, array)?;
            nested = Some((outer_key, inner));
        }
        Ok(dict)
    }
}

/// Refuses keys that this call does not write, for example from a batch of another kind: their
/// values would look like a part of this batch.
fn check_keys(columns: &Columns, out_dict: &Bound<'_, PyDict>, kind: BatchKind) -> PyResult<()> {
    let py = out_dict.py();
    let mut known: Vec<&str> = Vec::with_capacity(out_dict.len());
    for part in kind.parts(columns.schema()) {
        let (parent_key, key) = columns.key(py, part);
        let name = parent_key.map_or_else(|| key.to_str(), Ok)?;
        if known.last() != Some(&name) {
            known.push(name);
        }
    }
    if out_dict.len() <= known.len() {
        return Ok(());
    }
    let keys = out_dict.keys();
    let stray = keys.iter().find(|key| !known.iter().any(|name| key.eq(name).unwrap_or(false)));
    let stray = stray.map_or(String::new(), |key| coerce::short_repr(&key));
    let message = format!("out has {stray}, which this call does not write; expected {known:?}");
    Err(errors::new(py, ErrorClass::Shape, message))
}

/// Returns the caller's array for a part, and its key.
fn caller_array<'a, 'py>(
    py: Python<'py>,
    columns: &'a Columns,
    out_dict: &Bound<'py, PyDict>,
    part: BatchPart,
) -> PyResult<(Bound<'py, PyAny>, &'a Bound<'py, PyString>)> {
    let (parent_key, key) = columns.key(py, part);
    let inner = match parent_key {
        Some(outer_key) => {
            let inner = out_dict.get_item(outer_key)?.and_then(|value| value.cast_into::<PyDict>().ok());
            inner.ok_or_else(|| missing_error(&PyString::intern(py, outer_key), "a dict of arrays"))?
        }
        None => out_dict.clone(),
    };
    let value = inner.get_item(key)?.ok_or_else(|| missing_error(key, "an array"))?;
    Ok((value, key))
}

/// Returns the caller's array as a writable view.
fn writable_view<'py, T: OutputElement>(
    value: &Bound<'py, PyAny>,
    key: &Bound<'py, PyString>,
    shape: &[usize],
) -> PyResult<ViewMut<'py, u8>> {
    let name = key.to_string_lossy();
    // A tensor's NumPy view shares its memory. NumPy copies a list, so what is written would be lost.
    let array = coerce::array(value, &name)?;
    let owned = || array.as_any().getattr("flags")?.getattr("owndata")?.is_truthy();
    if !array.is(value) && owned()? {
        return Err(missing_error(key, "an array or tensor that can be written to"));
    }
    Ok(coerce::output::<T>(array.as_any(), &name, shape)?.into_bytes())
}

fn missing_error(key: &Bound<'_, PyString>, expected: &str) -> PyErr {
    let message =
        format!("out[{key:?}] is missing or unusable, expected {expected}; pass what sample() returned");
    errors::new(key.py(), ErrorClass::Shape, message)
}
