//! The sequence replay buffer for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::buffer::{BatchKind, InMemoryBuffer, SequenceReplayBuffer, Sequences};

use super::columns::{Columns, PushArgs};
use super::methods::{memory_buffer_methods, push_methods, ring_methods};
use super::{settings, shared, state};
use crate::convert::coerce::{IntegerArg, TextArg};
use crate::convert::paths::PathArg;
use crate::detach::detached;
use crate::errors::OrRaise;

/// A ring of transitions, sampled as windows of consecutive transitions.
///
/// Storage, `push`, `push_batch`, `gather`, `update` and thread safety are those of
/// `ReplayBuffer`; only `sample` differs.
///
/// Args:
///     capacity: number of transitions over all environments, fewer than 2**30.
///     obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
///     act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
///     n_envs: number of environments whose transitions are pushed together.
///     seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.
///     cross_episodes: windows may continue into the next episode of the same environment, where
///         `is_first` is set; by default they do not.
///     obs_shape: this and the other keywords are as for `ReplayBuffer`.
///
/// Raises:
///     ConfigError: a setting is out of range or contradicts another.
///     UnknownNameError: a keyword or dtype does not exist; the message has the nearest.
#[pyclass(name = "SequenceReplayBuffer", module = "rlox._core", frozen)]
pub(crate) struct PySequenceReplayBuffer {
    columns: Columns,
    buffer: Shared<SequenceReplayBuffer>,
}

push_methods!(PySequenceReplayBuffer);
ring_methods!(PySequenceReplayBuffer);
memory_buffer_methods!(
    PySequenceReplayBuffer,
    "($cls, observation_space, action_space, capacity, *, n_envs=1, seed=0, cross_episodes=False, reward_dtype='float32', frame_stack=None, extra_columns=None)"
);

#[pymethods]
impl PySequenceReplayBuffer {
    #[new]
    #[pyo3(
        signature = (capacity, obs_dim=IntegerArg::OMITTED, act_dim=IntegerArg::OMITTED, *,
            n_envs=IntegerArg::OMITTED, seed=IntegerArg::OMITTED, cross_episodes=false, **keywords),
        text_signature = "(capacity, obs_dim=None, act_dim=None, *, n_envs=1, seed=0, cross_episodes=False, obs_shape=None, obs_dtype='float32', obs_spaces=None, action_shape=None, action_dtype='float32', reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    fn new<'py>(
        py: Python<'py>,
        capacity: IntegerArg<'py>,
        obs_dim: IntegerArg<'py>,
        act_dim: IntegerArg<'py>,
        n_envs: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        cross_episodes: bool,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let columns = settings::read_columns::<Self>(py, obs_dim, act_dim, &n_envs, keywords)?;
        let capacity = settings::read_size(&capacity, "capacity", 0)?;
        let seed = seed.read("seed", 0)?;
        let (schema, n_envs) = (columns.schema().clone(), columns.n_envs());
        let rule = Sequences { cross_episodes };
        let make = || SequenceReplayBuffer::new(schema, capacity, n_envs, seed, rule);
        let buffer = detached(py, 0, make)?;
        Ok(Self { columns, buffer: Shared::new(buffer) })
    }

    /// Draws windows of `seq_len` consecutive transitions of one environment, with replacement.
    ///
    /// Draws are uniform over all positions where a whole window fits into its episode. A running
    /// episode ends at its newest transition, and a partly overwritten one begins at its oldest. An
    /// episode shorter than `seq_len` has one position, its first transition, and its window is
    /// padded with zeros.
    ///
    /// Args:
    ///     batch_size: windows per batch, B.
    ///     seq_len: transitions per window, L.
    ///     seed: the same as for `ReplayBuffer.sample`.
    ///     n_batches: the same as for `ReplayBuffer.sample`.
    ///     out: the same as for `ReplayBuffer.sample`.
    ///
    /// Returns:
    ///     The dict of `ReplayBuffer.sample` with leading axes `[B, L]`, and bool `[B, L]`
    ///     `is_first`, where an episode begins (not merely a window), and `mask`, False at padding,
    ///     whose `indices` are 2**64 - 1.
    ///
    /// Raises:
    ///     ConfigError: the buffer is empty, or a setting is out of range.
    ///     ShapeError: an array of `out` has another shape or dtype.
    #[pyo3(
        signature = (batch_size, seq_len, seed=IntegerArg::OMITTED, *, n_batches=IntegerArg::OMITTED,
            out=None),
        text_signature = "($self, batch_size, seq_len, seed=None, *, n_batches=None, out=None)"
    )]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: IntegerArg<'py>,
        seq_len: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        n_batches: IntegerArg<'py>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let args = shared::parse_sample_args(&batch_size, &seed, &n_batches)?.with_windows(&seq_len)?;
        Sequences::check(args.request.len).or_raise(py)?;
        let parts = (&self.columns, &self.buffer);
        shared::sample(py, parts, &args, (BatchKind::Sequences, None), out)
    }
}
