//! The prioritized replay buffer for Python.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::buffer::{BatchKind, InMemoryBuffer, MemoryRows, Prioritized, PrioritizedReplayBuffer};

use super::columns::{Columns, PushArgs};
use super::methods::{memory_buffer_methods, ring_methods};
use super::{settings, shared, state};
use crate::convert::coerce::{self, IntegerArg, RealArg, TextArg};
use crate::convert::paths::PathArg;
use crate::detach::{detached, with_read_lock, with_write_lock};

/// A ring of transitions, sampled with probability proportional to priority^alpha.
///
/// Of N rows, row i is drawn with P(i) = p_i / sum of p, p_i = priority^alpha (0^0 = 1). Its weight
/// is (N P(i))^-beta divided by the largest weight of any row in the buffer (Schaul et al. 2016,
/// equation 1 and section 3.4). A batch is stratified: one draw in each of B equal parts of the sum
/// (appendix B.2.1). Storage, columns and thread safety are those of `ReplayBuffer`.
///
/// Args:
///     capacity: number of transitions over all environments, fewer than 2**30.
///     obs_dim: numbers per observation; or pass `obs_shape` or `obs_spaces`.
///     act_dim: numbers per action, 1 for a discrete action; or pass `action_shape`.
///     alpha: priority exponent in [0, 1]: 0 is uniform, 1 fully prioritized.
///     beta: exponent of the importance weights in [0, 1].
///     n_envs: number of environments whose transitions are pushed together.
///     seed: the same as for `ReplayBuffer`.
///     stratified: False draws independently instead.
///     obs_shape: this and the other keywords are as for `ReplayBuffer`.
///
/// Raises:
///     ConfigError: a setting is out of range or contradicts another.
///     UnknownNameError: a keyword or dtype does not exist; the message has the nearest.
#[pyclass(name = "PrioritizedReplayBuffer", module = "rlox._core", frozen)]
pub(crate) struct PyPrioritizedReplayBuffer {
    pub(super) columns: Columns,
    pub(super) buffer: Shared<PrioritizedReplayBuffer>,
}

ring_methods!(PyPrioritizedReplayBuffer);
memory_buffer_methods!(
    PyPrioritizedReplayBuffer,
    "($cls, observation_space, action_space, capacity, *, alpha=0.6, beta=0.4, n_envs=1, seed=0, stratified=True, reward_dtype='float32', frame_stack=None, extra_columns=None)"
);

#[pymethods]
impl PyPrioritizedReplayBuffer {
    #[new]
    #[pyo3(
        signature = (capacity, obs_dim=IntegerArg::OMITTED, act_dim=IntegerArg::OMITTED, alpha=RealArg::Omitted(0.6),
            beta=RealArg::Omitted(0.4), *, n_envs=IntegerArg::OMITTED, seed=IntegerArg::OMITTED, stratified=true, **keywords),
        text_signature = "(capacity, obs_dim=None, act_dim=None, alpha=0.6, beta=0.4, *, n_envs=1, seed=0, stratified=True, obs_shape=None, obs_dtype='float32', obs_spaces=None, action_shape=None, action_dtype='float32', reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    fn new<'py>(
        py: Python<'py>,
        capacity: IntegerArg<'py>,
        obs_dim: IntegerArg<'py>,
        act_dim: IntegerArg<'py>,
        alpha: RealArg<'py>,
        beta: RealArg<'py>,
        n_envs: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        stratified: bool,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let columns = settings::read_columns::<Self>(py, obs_dim, act_dim, &n_envs, keywords)?;
        let capacity = settings::read_size(&capacity, "capacity", 0)?;
        let seed = seed.read("seed", 0)?;
        let (alpha, beta) = (alpha.read("alpha")?, beta.read("beta")?);
        let (schema, n_envs) = (columns.schema().clone(), columns.n_envs());
        let make = || {
            // This refuses a buffer that is too large, before the tree is allocated for seconds.
            drop(MemoryRows::new(schema.clone(), capacity, n_envs)?);
            // The tree has as many leaves as the buffer has rows.
            let leaves = capacity.checked_div(n_envs).unwrap_or(0).saturating_mul(n_envs).max(1);
            let rule = Prioritized::new(leaves, alpha, beta, stratified)?;
            PrioritizedReplayBuffer::new(schema, capacity, n_envs, seed, rule)
        };
        let buffer = detached(py, capacity.saturating_mul(4), make)?;
        Ok(Self { columns, buffer: Shared::new(buffer) })
    }

    /// The same as `ReplayBuffer.push`, with a priority in [0, 1e100]. Without one the row gets the
    /// largest priority so far, at first 1. With `n_envs > 1` priorities are `[n_envs]`.
    #[pyo3(
        signature = (obs, action, reward, terminated, truncated, next_obs=None, priority=None,
            extra=None)
    )]
    #[expect(clippy::too_many_arguments, reason = "a transition has so many parts")]
    fn push<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        action: &Bound<'py, PyAny>,
        reward: &Bound<'py, PyAny>,
        terminated: &Bound<'py, PyAny>,
        truncated: &Bound<'py, PyAny>,
        next_obs: Option<&Bound<'py, PyAny>>,
        priority: Option<&Bound<'py, PyAny>>,
        extra: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let (actions, rewards) = (action, reward);
        let pushed = PushArgs { obs, actions, rewards, terminated, truncated, next_obs, extra };
        shared::push(py, &self.columns, &self.buffer, pushed, priority)
    }

    /// The same as `ReplayBuffer.push_batch`, with priorities, `[n]`, as in `push`.
    #[pyo3(
        signature = (obs, actions, rewards, terminated, truncated, next_obs=None, priorities=None,
            *, env_ids=None, extra=None)
    )]
    #[expect(clippy::too_many_arguments, reason = "a transition has so many parts")]
    fn push_batch<'py>(
        &self,
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        terminated: &Bound<'py, PyAny>,
        truncated: &Bound<'py, PyAny>,
        next_obs: Option<&Bound<'py, PyAny>>,
        priorities: Option<&Bound<'py, PyAny>>,
        env_ids: Option<&Bound<'py, PyAny>>,
        extra: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let pushed = PushArgs { obs, actions, rewards, terminated, truncated, next_obs, extra };
        shared::push_batch(py, &self.columns, &self.buffer, pushed, priorities, env_ids)
    }

    /// Draws transitions with probability proportional to priority^alpha, with replacement.
    ///
    /// Args:
    ///     batch_size: rows per batch, B.
    ///     seed: this and the other arguments are as for `ReplayBuffer.sample`.
    ///
    /// Returns:
    ///     The dict of `ReplayBuffer.sample` with `weights`, float32 `[B]`, in [0, 1]: 0 only where
    ///     the weight is too small for float32.
    ///
    /// Raises:
    ///     ConfigError: the buffer is empty, or a setting is out of range.
    ///     ShapeError: an array of `out` has another shape or dtype.
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
        let kind = if n_step.is_some() { BatchKind::WeightedNStep } else { BatchKind::Weighted };
        shared::sample(py, (&self.columns, &self.buffer), &args, (kind, n_step), out)
    }

    /// Sets the priorities, `[n]`, of the rows with the indices `indices`, `[n]`: usually absolute
    /// TD errors plus a small constant. If an index occurs twice, its last priority stays.
    ///
    /// Returns:
    ///     Number of skipped indices: their rows were overwritten in the meantime, or they mark
    ///     padding.
    ///
    /// Raises, with nothing changed:
    ///     ConfigError: a priority is negative or above 1e100.
    ///     NonFiniteError: a priority is NaN or infinite.
    ///     StaleIndexError: a row was never written, or a `load` dropped it.
    ///     ShapeError: the lengths differ.
    fn update_priorities(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let indices = shared::read_indices(indices)?;
        let priorities = coerce::array(priorities, "priorities")?;
        let expected = [indices.slice().len()];
        coerce::check_shape(&priorities, "priorities", &expected, "one per index")?;
        let priorities = coerce::numbers::<f64>(&priorities, "priorities")?;
        let (indices, priorities) = (indices.slice(), priorities.slice());
        with_write_lock(py, &self.buffer, indices.len().saturating_mul(60), |buffer| {
            buffer.update_priorities(indices, priorities)
        })
    }

    /// Replaces beta, in [0, 1].
    fn set_beta(&self, py: Python<'_>, beta: RealArg<'_>) -> PyResult<()> {
        let beta = beta.read("beta")?;
        with_write_lock(py, &self.buffer, 100, |buffer| buffer.set_beta(beta))
    }

    /// Exponent of the importance weights.
    #[getter]
    fn beta(&self, py: Python<'_>) -> PyResult<f64> {
        with_read_lock(py, &self.buffer, 100, |buffer| Ok(buffer.sampler().priorities().beta()))
    }

    /// Exponent of the priorities.
    #[getter]
    fn alpha(&self, py: Python<'_>) -> PyResult<f64> {
        with_read_lock(py, &self.buffer, 100, |buffer| Ok(buffer.sampler().priorities().alpha()))
    }

    /// Priority of a row that is pushed without one: the largest so far, at first 1.
    #[getter]
    fn max_priority(&self, py: Python<'_>) -> PyResult<f64> {
        with_read_lock(py, &self.buffer, 100, |buffer| Ok(buffer.sampler().priorities().max()))
    }
}
