//! The replay buffer on disk, which can be larger than memory, for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::buffer::{BatchKind, MmapConfig, MmapReplayBuffer};

use super::columns::{Columns, PushArgs};
use super::methods::{push_methods, ring_methods};
use super::{settings, shared};
use crate::convert::coerce::{IntegerArg, TextArg};
use crate::convert::paths::PathArg;
use crate::detach::{detached, with_read_lock};
use crate::errors::OrRaise;

/// A ring of transitions with its newer part in memory and its older part on disk.
///
/// `cold_path` becomes a folder of immutable segments. Every row has a checksum and is read by
/// position, not through a mapping: a file that is cut short is an error, never a signal. One
/// process at a time may use the folder. The buffer takes over rows that an earlier buffer of the
/// same columns and `n_envs` sealed there, also if its process was killed; with `reopen=False` such
/// rows are an error.
///
/// Rows are sealed in segments of 1/256 of `total_capacity`. If that is less than 1 MiB, a segment
/// has 1 MiB, but at most a third of `hot_capacity`. If the process dies, the `n_unsealed` newest
/// rows are lost; `flush` seals them. An observation is stored once, uint8 stays uint8 and frames of
/// stacks are shared, as in `ReplayBuffer`. With the same pushes and seed this buffer and a
/// `ReplayBuffer` sample the same rows.
///
/// Args:
///     hot_capacity: smallest number of transitions in memory (2/256 of `total_capacity` if that is
///         more).
///     total_capacity: number of transitions in all, fewer than 2**30.
///     obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
///     act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
///     cold_path: the folder.
///     n_envs: number of environments whose transitions are pushed together.
///     seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.
///     reopen: take over rows that are in the folder.
///     obs_shape: this and the other keywords are as for `ReplayBuffer`.
///
/// Raises:
///     ConfigError: a setting is out of range or contradicts another.
///     StorageError: the files cannot be read or written, another buffer uses the folder, or the
///         folder has rows and `reopen` is False.
///     CheckpointError: the files are damaged (the file and byte are named) or have other columns.
#[pyclass(name = "MmapReplayBuffer", module = "rlox._core", frozen)]
pub(crate) struct PyMmapReplayBuffer {
    columns: Columns,
    buffer: Shared<MmapReplayBuffer>,
}

push_methods!(PyMmapReplayBuffer);
ring_methods!(PyMmapReplayBuffer);

#[pymethods]
impl PyMmapReplayBuffer {
    #[new]
    #[pyo3(
        signature = (hot_capacity, total_capacity, obs_dim=IntegerArg::OMITTED, act_dim=IntegerArg::OMITTED,
            cold_path=None, *, n_envs=IntegerArg::OMITTED, seed=IntegerArg::OMITTED, reopen=true,
            **keywords),
        text_signature = "(hot_capacity, total_capacity, obs_dim=None, act_dim=None, cold_path=None, *, n_envs=1, seed=0, reopen=True, obs_shape=None, obs_dtype='float32', obs_spaces=None, action_shape=None, action_dtype='float32', reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "the settings of a buffer")]
    fn new<'py>(
        py: Python<'py>,
        hot_capacity: IntegerArg<'py>,
        total_capacity: IntegerArg<'py>,
        obs_dim: IntegerArg<'py>,
        act_dim: IntegerArg<'py>,
        cold_path: Option<PathArg<'py>>,
        n_envs: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        reopen: bool,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let columns = settings::read_columns::<Self>(py, obs_dim, act_dim, &n_envs, keywords)?;
        let missing = || rlox_core::Error::config("cold_path", "missing", "a path for the segments");
        let path = cold_path.ok_or_else(missing).or_raise(py)?.read("cold_path")?;
        let hot_capacity = settings::read_size(&hot_capacity, "hot_capacity", 0)?;
        let total_capacity = settings::read_size(&total_capacity, "total_capacity", 0)?;
        let seed = seed.read("seed", 0)?;
        let (schema, n_envs) = (columns.schema().clone(), columns.n_envs());
        let make = || {
            let tiers = MmapConfig { hot_capacity, total_capacity, path: &path, reopen };
            MmapReplayBuffer::new(schema, &tiers, n_envs, seed)
        };
        let buffer = detached(py, crate::detach::ALWAYS_RELEASE, make)?;
        Ok(Self { columns, buffer: Shared::new(buffer) })
    }

    /// Draws transitions uniformly, with replacement, from memory and disk; the same as
    /// `ReplayBuffer.sample` without `her`. An n-step window does not continue across a reopening.
    ///
    /// Raises:
    ///     ConfigError: the buffer is empty or closed, or a setting is out of range.
    ///     CheckpointError: a row on disk is damaged; the message has the file and the byte.
    #[pyo3(
        signature = (batch_size, seed=IntegerArg::OMITTED, *, n_batches=IntegerArg::OMITTED,
            n_step=IntegerArg::OMITTED, gamma=None, out=None),
        text_signature = "($self, batch_size, seed=None, *, n_batches=None, n_step=None, gamma=None, out=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "one call samples and looks ahead")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        n_batches: IntegerArg<'py>,
        n_step: IntegerArg<'py>,
        gamma: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let args = shared::parse_sample_args(&batch_size, &seed, &n_batches)?;
        let n_step = shared::read_n_step(py, &n_step, gamma)?;
        let kind = if n_step.is_some() { BatchKind::NStep } else { BatchKind::Transitions };
        shared::sample(py, (&self.columns, &self.buffer), &args, (kind, n_step), out)
    }

    /// Writes `values`, `[n, ...]`, into a column of rows that are not yet sealed on disk.
    /// `indices` are their indices, `[n]`; the rest is as in `ReplayBuffer.update`.
    ///
    /// Segments never change: a new value of a sealed row would be lost when the row leaves memory,
    /// so that is an error. Only rows pushed since the last segment was sealed can be updated. The
    /// newest row of an environment may be sealed although `n_unsealed` still counts it.
    ///
    /// Returns:
    ///     Number of skipped indices: their rows left the ring in the meantime, or they mark padding.
    ///
    /// Raises ConfigError if a row is sealed, StaleIndexError if a row was never written; nothing
    /// is written then.
    fn update(
        &self,
        py: Python<'_>,
        column: TextArg<'_>,
        indices: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        shared::update(py, &self.columns, &self.buffer, &column, indices, values)
    }

    /// Seals the rows that are only in memory, so that they survive the process. The newest row of
    /// an environment counts as unsealed until its next observation is known.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, crate::detach::ALWAYS_RELEASE, || self.buffer.flush())
    }

    /// Closes the buffer and removes its files except those that saves need. With `keep` every row
    /// is sealed and the files stay for a later buffer. Closing twice is allowed.
    ///
    /// A buffer that is dropped without `close` leaves its sealed rows.
    #[pyo3(signature = (keep=false))]
    fn close(&self, py: Python<'_>, keep: bool) -> PyResult<()> {
        detached(py, crate::detach::ALWAYS_RELEASE, || self.buffer.close(keep))
    }

    /// Saves the exact state, running episodes and draws included, as `name` next to the rows. It
    /// seals the rows and keeps them as long as the save exists.
    #[pyo3(
        signature = (name=TextArg::Omitted("last")),
        text_signature = "($self, name='last')"
    )]
    fn save(&self, py: Python<'_>, name: TextArg<'_>) -> PyResult<()> {
        let name = name.read("name")?;
        detached(py, crate::detach::ALWAYS_RELEASE, || self.buffer.save(&name))
    }

    /// Continues from the state saved as `name`; rows pushed since are dropped.
    ///
    /// Raises CheckpointError for files that are damaged or missing; nothing changes then.
    #[pyo3(
        signature = (name=TextArg::Omitted("last")),
        text_signature = "($self, name='last')"
    )]
    fn load(&self, py: Python<'_>, name: TextArg<'_>) -> PyResult<()> {
        let name = name.read("name")?;
        detached(py, crate::detach::ALWAYS_RELEASE, || self.buffer.restore(&name))
    }

    /// Reads and checks every sealed row; raises CheckpointError at the first damaged one.
    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        with_read_lock(py, &self.buffer, crate::detach::ALWAYS_RELEASE, MmapReplayBuffer::verify)
    }

    /// Number of transitions in memory.
    #[getter]
    fn n_hot(&self, py: Python<'_>) -> PyResult<usize> {
        with_read_lock(py, &self.buffer, 100, |buffer| Ok(buffer.memory().rings().len()))
    }

    /// Number of newest transitions that would be lost if the process died now.
    #[getter]
    fn n_unsealed(&self, py: Python<'_>) -> PyResult<u64> {
        with_read_lock(py, &self.buffer, 100, |buffer| Ok(buffer.n_unsealed()))
    }

    /// Bytes of memory used for transitions.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        with_read_lock(py, &self.buffer, 1_000, |buffer| Ok(buffer.memory().nbytes()))
    }

    /// Bytes of the segments on disk.
    #[getter]
    fn disk_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        with_read_lock(py, &self.buffer, 1_000, |buffer| Ok(buffer.disk_bytes()))
    }
}

/// Removes every save of the folder `path` except those named in `keep`, and the segments that no
/// kept save lists; returns the number of removed segments and unfinished files.
///
/// The rows that a `MmapReplayBuffer` left in the folder stay, whatever `keep` names.
///
/// Raises:
///     StorageError: the folder does not exist, its files cannot be removed, or another process is
///         writing there.
///     CheckpointError: a save named in `keep` does not exist or cannot be read; nothing is removed
///         then.
#[pyfunction]
pub(crate) fn prune_replay(py: Python<'_>, path: PathArg<'_>, keep: Vec<TextArg<'_>>) -> PyResult<usize> {
    let path = path.read("path")?;
    let keep = keep.iter().map(|name| Ok(name.read("keep")?.into_owned()));
    let keep: Vec<String> = keep.collect::<PyResult<_>>()?;
    detached(py, crate::detach::ALWAYS_RELEASE, || {
        let keep: Vec<&str> = keep.iter().map(String::as_str).collect();
        rlox_core::buffer::prune(&path, &keep)
    })
}
