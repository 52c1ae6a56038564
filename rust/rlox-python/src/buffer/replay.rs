//! The uniform replay buffer for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::buffer::{BatchKind, InMemoryBuffer, ReplayBuffer, sampler_by_name};

use super::columns::{Columns, PushArgs};
use super::goals::{self, PyHindsightConfig};
use super::methods::{memory_buffer_methods, push_methods, ring_methods};
use super::{settings, shared, state};
use crate::convert::coerce::{IntegerArg, TextArg};
use crate::convert::paths::PathArg;
use crate::detach::detached;
use crate::errors::OrRaise;

/// A ring of transitions, sampled uniformly with replacement.
///
/// The oldest transition is overwritten first, in a ring of `capacity // n_envs` rows for each
/// environment. An observation that is the `next_obs` of one row and the `obs` of the next is
/// stored once; where the bytes differ (at a reset) both are stored. Numbers are stored unchanged,
/// NaN and infinity included.
///
/// Any number of threads may call any methods at once: a call sees whole rows only, calls of
/// `sample` do not wait for each other, and the GIL is released during long calls and while a call
/// waits. Results never depend on the number of threads.
///
/// Args:
///     capacity: number of transitions over all environments, fewer than 2**30.
///     obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
///     act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
///     n_envs: number of environments whose transitions are pushed together.
///     seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.
///     sampler: the rule by which `sample` draws: "uniform" gives every transition the same
///         probability, "episode_balanced" gives every episode the same probability, and every
///         transition within an episode.
///     obs_shape: shape of an observation.
///     obs_dtype: uint8 to uint64, int8 to int64, float32, float64 or bool.
///     obs_spaces: `{name: (dtype, shape)}` for observations that are dicts of arrays.
///     action_shape: shape of an action.
///     action_dtype: the same as for `obs_dtype`.
///     reward_dtype: float32 or float64.
///     frame_stack: `(k, "first")` or `(k, "last")` if an observation stacks k frames along its
///         first or last axis, oldest first (for dict observations, a mapping from names to such
///         pairs): each frame is stored once. Stacks are compared by bytes, so any reset convention
///         is reproduced exactly; frames that a reset changes take extra memory.
///     extra_columns: `{name: (dtype, shape)}` of further columns, pushed as `extra`.
///
/// Raises:
///     ConfigError: a setting is out of range or contradicts another.
///     UnknownNameError: a keyword or dtype does not exist; the message has the nearest.
#[pyclass(name = "ReplayBuffer", module = "rlox._core", frozen)]
pub(crate) struct PyReplayBuffer {
    pub(super) columns: Columns,
    pub(super) buffer: Shared<ReplayBuffer>,
}

push_methods!(PyReplayBuffer);
ring_methods!(PyReplayBuffer);
memory_buffer_methods!(
    PyReplayBuffer,
    "($cls, observation_space, action_space, capacity, *, n_envs=1, seed=0, sampler='uniform', reward_dtype='float32', frame_stack=None, extra_columns=None)"
);

#[pymethods]
impl PyReplayBuffer {
    #[new]
    #[pyo3(
        signature = (capacity, obs_dim=IntegerArg::OMITTED, act_dim=IntegerArg::OMITTED, *,
            n_envs=IntegerArg::OMITTED, seed=IntegerArg::OMITTED, sampler=TextArg::Omitted("uniform"), **keywords),
        text_signature = "(capacity, obs_dim=None, act_dim=None, *, n_envs=1, seed=0, sampler='uniform', obs_shape=None, obs_dtype='float32', obs_spaces=None, action_shape=None, action_dtype='float32', reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    fn new<'py>(
        py: Python<'py>,
        capacity: IntegerArg<'py>,
        obs_dim: IntegerArg<'py>,
        act_dim: IntegerArg<'py>,
        n_envs: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        sampler: TextArg<'py>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let rule = sampler_by_name(&sampler.read("sampler")?).or_raise(py)?;
        let columns = settings::read_columns::<Self>(py, obs_dim, act_dim, &n_envs, keywords)?;
        let capacity = settings::read_size(&capacity, "capacity", 0)?;
        let seed = seed.read("seed", 0)?;
        let (schema, n_envs) = (columns.schema().clone(), columns.n_envs());
        let make = || ReplayBuffer::new(schema, capacity, n_envs, seed, rule);
        let buffer = detached(py, 0, make)?;
        Ok(Self { columns, buffer: Shared::new(buffer) })
    }

    /// Draws transitions by the buffer's rule, with replacement.
    ///
    /// Args:
    ///     batch_size: rows per batch, B.
    ///     seed: the same seed and contents give the same batch; without a seed the buffer
    ///         continues its own draws, which `state` saves.
    ///     n_batches: several batches in one call, equal to those of as many calls; every array
    ///         then has a leading axis `[n_batches]`. With a seed, batch i draws from
    ///         `Stream(seed, "replay", i)`.
    ///     n_step: `rewards` become R = sum_{k<m} gamma^k r_{t+k}; `next_obs` and the flags become
    ///         those of row t+m-1; `discounts` is added. m is n_step, or less where the episode
    ///         ends or the newest row is reached (Sutton & Barto 2018, equation 7.1).
    ///     gamma: discount per step, in [0, 1]; required with `n_step`.
    ///     her: hindsight relabelling of dict observations; see `HindsightConfig`.
    ///     out: a dict of arrays that an earlier call of the same sizes returned, or of CPU
    ///         tensors; it is filled in place and returned.
    /// Returns:
    ///     A dict: `obs` and `next_obs` `[B, ...]` (dicts for dict observations), `actions`
    ///     `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, the extra
    ///     columns, `indices` uint64 `[B]` for `gather` and `update`, and with `n_step`
    ///     `discounts` float32 `[B]`, gamma^m (1 - terminated).
    ///
    /// Raises:
    ///     ConfigError: the buffer is empty, or a setting is out of range.
    ///     ShapeError: an array of `out` has another shape or dtype, or `compute_reward` of `her`
    ///         does not return one number for each goal.
    ///     NonFiniteError: `compute_reward` returns NaN or infinity.
    #[pyo3(
        signature = (batch_size, seed=IntegerArg::OMITTED, *, n_batches=IntegerArg::OMITTED,
            n_step=IntegerArg::OMITTED, gamma=None, her=None, out=None),
        text_signature = "($self, batch_size, seed=None, *, n_batches=None, n_step=None, gamma=None, her=None, out=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "one call samples, looks ahead and relabels")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        n_batches: IntegerArg<'py>,
        n_step: IntegerArg<'py>,
        gamma: Option<&Bound<'py, PyAny>>,
        her: Option<&Bound<'py, PyHindsightConfig>>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let args = shared::parse_sample_args(&batch_size, &seed, &n_batches)?;
        let n_step = shared::read_n_step(py, &n_step, gamma)?;
        if let Some(her) = her {
            let parts = (&self.columns, &self.buffer);
            return goals::sample(py, parts, &args, n_step, her.get(), out);
        }
        let kind = if n_step.is_some() { BatchKind::NStep } else { BatchKind::Transitions };
        shared::sample(py, (&self.columns, &self.buffer), &args, (kind, n_step), out)
    }
}
