//! Functions that all buffers share at the boundary to Python.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::buffer::{
    Batch, BatchKind, Buffer, EnvIndex, InMemoryBuffer, MmapReplayBuffer, NStep, SampleRequest, Sampler,
    Transitions,
};
use rlox_core::{Error, Result};

use super::arrays::Arrays;
use super::columns::{Columns, PushArgs};
use super::{incoming, settings};
use crate::convert::coerce::{self, IntegerArg, TextArg};
use crate::detach::{ALWAYS_RELEASE, detached, with_read_lock, with_write_lock};
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::View;

/// A buffer of transitions, in memory or on disk.
pub(super) trait Replay: Send + Sync + Sized {
    /// Nanoseconds that a read may wait for the disk: `ALWAYS_RELEASE` for a buffer on disk, 0 in memory.
    const DISK_WAIT_NANOSECONDS: usize;

    /// Stores rows, which takes about `cost` nanoseconds.
    fn push(
        py: Python<'_>,
        buffer: &Shared<Self>,
        cost: usize,
        env_index: EnvIndex<'_>,
        rows: Transitions<'_>,
        priorities: Option<&[f64]>,
    ) -> PyResult<()>;

    /// Draws and copies rows.
    fn sample(&self, request: SampleRequest, n_step: Option<NStep>, out: &mut Batch<'_, '_>) -> Result<()>;

    /// Copies rows by their indices.
    fn gather(&self, indices: &[u64], out: &mut Batch<'_, '_>) -> Result<()>;

    /// Writes values into a column; returns the number of rows that no longer exist.
    fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64>;
}

impl<S: Sampler + ?Sized> Replay for Buffer<S> {
    const DISK_WAIT_NANOSECONDS: usize = 0;

    fn push(
        py: Python<'_>,
        buffer: &Shared<Self>,
        cost: usize,
        env_index: EnvIndex<'_>,
        rows: Transitions<'_>,
        priorities: Option<&[f64]>,
    ) -> PyResult<()> {
        with_write_lock(py, buffer, cost, |buffer| buffer.push(env_index, rows, priorities))
    }

    fn sample(&self, request: SampleRequest, n_step: Option<NStep>, out: &mut Batch<'_, '_>) -> Result<()> {
        let draws = Self::sample(self, request)?;
        if out.mask.is_empty() {
            Self::gather(self, &draws.rows, n_step, out)?;
        } else {
            self.rows().gather_windows(&draws, request.len, out)?;
        }
        for (slot, weight) in out.weights.as_chunks_mut().0.iter_mut().zip(draws.weights) {
            #[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
            let single = weight as f32;
            *slot = single.to_ne_bytes();
        }
        Ok(())
    }

    fn gather(&self, indices: &[u64], out: &mut Batch<'_, '_>) -> Result<()> {
        let rows = indices.iter().map(|&index| self.rows().rings().find(index));
        Self::gather(self, &rows.collect::<Result<Vec<_>>>()?, None, out)
    }

    fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        Self::update(self, column, indices, values)
    }
}

impl Replay for MmapReplayBuffer {
    const DISK_WAIT_NANOSECONDS: usize = ALWAYS_RELEASE;

    fn push(
        py: Python<'_>,
        buffer: &Shared<Self>,
        _cost: usize,
        env_index: EnvIndex<'_>,
        rows: Transitions<'_>,
        _priorities: Option<&[f64]>,
    ) -> PyResult<()> {
        detached(py, ALWAYS_RELEASE, || buffer.push(env_index, rows))
    }

    fn sample(&self, request: SampleRequest, n_step: Option<NStep>, out: &mut Batch<'_, '_>) -> Result<()> {
        let draws = Self::sample(self, request)?;
        Self::gather(self, &draws.rows, n_step, out)
    }

    fn gather(&self, indices: &[u64], out: &mut Batch<'_, '_>) -> Result<()> {
        let rows = indices.iter().map(|&index| self.find(index));
        Self::gather(self, &rows.collect::<Result<Vec<_>>>()?, None, out)
    }

    fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        Self::update(self, column, indices, values)
    }
}

/// Returns the nanoseconds of a short call, which may have to wait for the disk.
pub(super) fn short_call_nanoseconds<B: Replay>(_buffer: &Shared<B>) -> usize {
    B::DISK_WAIT_NANOSECONDS.max(100)
}

/// Estimates the nanoseconds for a copy of `rows` rows.
pub(super) fn copy_nanoseconds(columns: &Columns, rows: usize) -> usize {
    rows.saturating_mul(10 + columns.row_bytes() / 16)
}

/// The size of a draw, and the leading axes of its arrays.
pub(super) struct SampleArgs {
    pub request: SampleRequest,
    pub lead: Vec<usize>,
}

/// Parses `batch_size`, `seed` and `n_batches`.
pub(super) fn parse_sample_args(
    batch_size: &IntegerArg<'_>,
    seed: &IntegerArg<'_>,
    n_batches: &IntegerArg<'_>,
) -> PyResult<SampleArgs> {
    let batch_size = settings::read_size(batch_size, "batch_size", 0)?;
    let batches = n_batches.read_optional("n_batches")?;
    let n_batches = batches.map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX));
    let lead = if batches.is_some() { vec![n_batches, batch_size] } else { vec![batch_size] };
    let request = SampleRequest { batch_size, n_batches, len: 1, seed: seed.read_optional("seed")? };
    Ok(SampleArgs { request, lead })
}

impl SampleArgs {
    /// Returns the same request for windows of `len` rows.
    pub(super) fn with_windows(mut self, len: &IntegerArg<'_>) -> PyResult<Self> {
        self.request.len = settings::read_size(len, "seq_len", 0)?;
        self.lead.push(self.request.len);
        Ok(self)
    }
}

/// Parses `n_step` and `gamma`; None means single steps.
pub(super) fn read_n_step(
    py: Python<'_>,
    n_step: &IntegerArg<'_>,
    gamma: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<NStep>> {
    let (n, gamma) = (n_step.read_optional("n_step")?, coerce::optional_real(gamma, "gamma")?);
    let result = match (n, gamma) {
        (None, None) => Ok(None),
        (None, Some(gamma)) => Err(Error::config("gamma", gamma, "n_step given with it")),
        (Some(_), None) => Err(Error::config("gamma", "missing", "a number in [0, 1], as n_step is given")),
        (Some(n), Some(gamma)) => NStep::new(usize::try_from(n).unwrap_or(usize::MAX), gamma).map(Some),
    };
    result.or_raise(py)
}

/// Draws a batch of this kind.
pub(super) fn sample<'py, B: Replay>(
    py: Python<'py>,
    (columns, buffer): (&Columns, &Shared<B>),
    args: &SampleArgs,
    (kind, n_step): (BatchKind, Option<NStep>),
    out: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let request = args.request;
    let rows = request.rows().or_raise(py)?;
    let mut arrays = Arrays::new(py, columns, &args.lead, kind, out)?;
    let cost = copy_nanoseconds(columns, rows).max(B::DISK_WAIT_NANOSECONDS);
    arrays.fill_with(py, |batch| {
        with_read_lock(py, buffer, cost, |buffer| buffer.sample(request, n_step, batch))
    })?;
    arrays.into_dict(py)
}

/// Returns the leading axis and environments for one transition of each of `n` environments.
pub(super) const fn one_per_env(n: usize) -> (Option<usize>, EnvIndex<'static>) {
    if n == 1 { (None, EnvIndex::One(0)) } else { (Some(n), EnvIndex::Each) }
}

/// Stores one transition of each environment.
pub(super) fn push<'py, B: Replay>(
    py: Python<'py>,
    columns: &Columns,
    buffer: &Shared<B>,
    pushed: PushArgs<'_, 'py>,
    priorities: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let n = columns.n_envs();
    let (lead, env_index) = one_per_env(n);
    store(py, (columns, buffer), pushed, (lead, n, env_index), priorities)
}

/// Stores consecutive transitions of one environment, or of those in `env_ids`.
pub(super) fn push_batch<'py, B: Replay>(
    py: Python<'py>,
    columns: &Columns,
    buffer: &Shared<B>,
    pushed: PushArgs<'_, 'py>,
    priorities: Option<&Bound<'py, PyAny>>,
    env_ids: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let ids = env_ids.map(settings::read_env_ids).transpose()?;
    let env_index = ids.as_deref().map_or(EnvIndex::One(0), EnvIndex::Ids);
    let terminated = coerce::array(pushed.terminated, "terminated")?;
    let n = terminated
        .shape()
        .first()
        .copied()
        .ok_or_else(|| errors::new(py, ErrorClass::Shape, "terminated has shape [], expected [n]"))?;
    store(py, (columns, buffer), pushed, (Some(n), n, env_index), priorities)
}

fn store<'py, B: Replay>(
    py: Python<'py>,
    (columns, buffer): (&Columns, &Shared<B>),
    pushed: PushArgs<'_, 'py>,
    (lead, n, env_index): (Option<usize>, usize, EnvIndex<'_>),
    priorities: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let Some(priorities) = priorities else {
        return columns.read(pushed, lead, |rows| {
            B::push(py, buffer, copy_nanoseconds(columns, n), env_index, rows, None)
        });
    };
    let array = coerce::array(priorities, "priority")?;
    let numbers = coerce::numbers::<f64>(&array, "priority")?;
    let values = numbers.slice();
    if values.len() != n {
        let (got, expected) = (format!("{} elements", values.len()), format!("{n}, one per transition"));
        return Err(Error::Shape { name: "priority".into(), got, expected }).or_raise(py);
    }
    columns.read(pushed, lead, |rows| {
        let cost = copy_nanoseconds(columns, n).saturating_add(n.saturating_mul(60));
        B::push(py, buffer, cost, env_index, rows, Some(values))
    })
}

/// Reads the indices of rows, `[n]`.
pub(super) fn read_indices<'py>(value: &Bound<'py, PyAny>) -> PyResult<View<'py, u64>> {
    let indices = coerce::array(value, "indices")?;
    coerce::check_ndim(&indices, "indices", &["n"])?;
    coerce::elements::<u64>(&indices, "indices", "iu")
}

/// Returns the rows with these indices.
pub(super) fn gather<'py, B: Replay>(
    py: Python<'py>,
    columns: &Columns,
    buffer: &Shared<B>,
    indices: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let indices = read_indices(indices)?;
    let indices = indices.slice();
    let mut arrays = Arrays::new(py, columns, &[indices.len()], BatchKind::Transitions, out)?;
    let cost = copy_nanoseconds(columns, indices.len()).max(B::DISK_WAIT_NANOSECONDS);
    arrays.fill_with(py, |batch| with_read_lock(py, buffer, cost, |buffer| buffer.gather(indices, batch)))?;
    arrays.into_dict(py)
}

/// Writes values into a column; returns the number of rows that no longer exist.
pub(super) fn update<B: Replay>(
    py: Python<'_>,
    columns: &Columns,
    buffer: &Shared<B>,
    column: &TextArg<'_>,
    indices: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
) -> PyResult<u64> {
    let schema = columns.schema();
    let column_index = schema.column(&column.read("column")?).or_raise(py)?;
    let Some(field) = schema.columns().get(column_index) else { return Ok(0) };
    let indices = read_indices(indices)?;
    let values = incoming::read(values, "values", field, &[indices.slice().len()])?;
    let (indices, values) = (indices.slice(), values.slice());
    let cost = indices.len().saturating_mul(20 + field.row_bytes() / 8);
    with_write_lock(py, buffer, cost, |buffer| buffer.update(column_index, indices, values))
}
