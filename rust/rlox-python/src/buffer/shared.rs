//! What the buffers have in common at the boundary.

use parking_lot::RwLock;

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Result;
use rlox_core::buffer::{Horizon, Request, RingBuffer, Rows, Target};

use super::columns::{Columns, Pushed};
use super::outgoing::{Arrays, More};
use super::{columns, door, incoming, settings, state};
use crate::coerce::{self, Number, Text};
use crate::errors::{self, Class};
use crate::views::View;

/// Nanoseconds of a call that is always worth releasing the GIL for.
pub(super) const LONG: usize = usize::MAX;

/// A buffer that rows are pushed to.
pub(super) trait Takes: Send + Sync {
    /// Stores rows.
    fn take(&mut self, target: Target<'_>, rows: Rows<'_>) -> Result<()>;
}

/// A buffer in memory, and its state as a dict.
pub(super) trait Held: RingBuffer + Send + Sync + Sized {
    /// Writes the dict.
    fn state<'py>(py: Python<'py>, buffer: &RwLock<Self>) -> PyResult<Bound<'py, PyDict>> {
        state::save(py, buffer)
    }

    /// Continues from a dict that [`Held::state`] wrote.
    fn continue_from(
        py: Python<'_>,
        buffer: &RwLock<Self>,
        state: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        state::restore(py, buffer, state)
    }
}

/// A core result as Python's.
pub(super) fn raised<T>(py: Python<'_>, result: Result<T>) -> PyResult<T> {
    result.map_err(|error| errors::raise(py, &error))
}

/// Nanoseconds that copying `rows` rows takes, about.
pub(super) fn cost(columns: &Columns, rows: usize) -> usize {
    rows.saturating_mul(10 + columns.row_bytes() / 16)
}

/// Rows, batches and seed of a call, and the leading axes of its arrays.
pub(super) fn request(
    batch_size: &Number<'_>,
    seed: &Number<'_>,
    n_batches: &Number<'_>,
) -> PyResult<(Request, Vec<usize>)> {
    let batch_size = settings::size(batch_size, "batch_size", 0)?;
    let batches = n_batches.optional("n_batches")?;
    let n_batches = batches.map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let lead = if batches.is_some() { vec![n_batches, batch_size] } else { vec![batch_size] };
    Ok((Request { batch_size, n_batches, seed: seed.optional("seed")? }, lead))
}

/// The n-step horizon of a call.
pub(super) fn horizon(
    py: Python<'_>,
    n_step: &Number<'_>,
    gamma: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Horizon>> {
    let n_step = n_step.optional("n_step")?;
    raised(py, columns::horizon(n_step, coerce::optional_real(gamma, "gamma")?))
}

/// Stores one transition of each environment.
pub(super) fn push<'py, B: Takes>(
    py: Python<'py>,
    columns: &Columns,
    buffer: &RwLock<B>,
    pushed: Pushed<'_, 'py>,
) -> PyResult<()> {
    let n = columns.n_envs();
    let (lead, target) = target(n);
    columns.read(pushed, lead, |rows| {
        door::writing(py, buffer, cost(columns, n), |buffer| buffer.take(target, rows))
    })
}

/// Leading axis and streams of one transition of each of `n` environments.
pub(super) const fn target(n: usize) -> (Option<usize>, Target<'static>) {
    if n == 1 { (None, Target::Stream(0)) } else { (Some(n), Target::Each) }
}

/// The number of rows of a batch, by its flags.
pub(super) fn leading(terminated: &Bound<'_, PyAny>) -> PyResult<usize> {
    let array = coerce::array(terminated, "terminated")?;
    array.shape().first().copied().ok_or_else(|| {
        let message = "terminated has shape [], expected [n]";
        errors::new(terminated.py(), Class::Shape, message)
    })
}

/// Stores consecutive transitions of one environment, or of those named.
pub(super) fn push_batch<'py, B: Takes>(
    py: Python<'py>,
    columns: &Columns,
    buffer: &RwLock<B>,
    pushed: Pushed<'_, 'py>,
    env_ids: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let ids = env_ids.map(settings::env_ids).transpose()?;
    let target = ids.as_deref().map_or(Target::Stream(0), Target::Ids);
    let n = leading(pushed.terminated)?;
    columns.read(pushed, Some(n), |rows| {
        door::writing(py, buffer, cost(columns, n), |buffer| buffer.take(target, rows))
    })
}

/// The indices of rows, `[n]`.
pub(super) fn indices_of<'py>(value: &Bound<'py, PyAny>) -> PyResult<View<'py, u64>> {
    let indices = coerce::array(value, "indices")?;
    coerce::check_ndim(&indices, "indices", &["n"])?;
    coerce::elements::<u64>(&indices, "indices", "iu")
}

/// The rows with given indices.
pub(super) fn gather<'py, B: Held>(
    py: Python<'py>,
    columns: &Columns,
    buffer: &RwLock<B>,
    indices: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let indices = indices_of(indices)?;
    let indices = indices.slice();
    let lead = [indices.len()];
    let mut arrays = Arrays::new(py, columns, &lead, More::default(), out)?;
    let mut slices = arrays.slices();
    door::reading(py, buffer, cost(columns, indices.len()), |buffer| {
        let storage = buffer.storage();
        let rows = indices.iter().map(|&index| storage.find(index)).collect::<Result<Vec<_>>>()?;
        storage.fill(&rows, None, &mut slices);
        Ok(())
    })?;
    drop(slices);
    arrays.into_dict(py)
}

/// Writes values into a column; returns how many rows were gone.
pub(super) fn update<B: Held>(
    py: Python<'_>,
    columns: &Columns,
    buffer: &RwLock<B>,
    column: &Text<'_>,
    indices: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let schema = columns.schema();
    let at = raised(py, schema.column(&column.read("column")?))?;
    let Some(field) = schema.columns().get(at) else { return Ok(0) };
    let indices = indices_of(indices)?;
    let values = incoming::read(values, "values", field, &[indices.slice().len()])?;
    let (indices, values) = (indices.slice(), values.slice());
    let cost = indices.len().saturating_mul(20 + field.row_bytes() / 8);
    door::writing(py, buffer, cost, |buffer| buffer.storage_mut().update(at, indices, values))
}
