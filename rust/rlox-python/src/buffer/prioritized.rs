//! The prioritized replay buffer for Python.

use std::sync::RwLock;

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use rlox_core::Error;
use rlox_core::buffer::{Draw, PrioritizedReplayBuffer, RingBuffer, Target};

use super::columns::{Columns, Pushed};
use super::methods::held_methods;
use super::outgoing::{Arrays, More};
use super::shared::{self, Held};
use super::{door, settings, state};
use crate::coerce::{self, Number, Real, Text};
use crate::paths::PathArg;

/// A ring of transitions, sampled with probability proportional to priority^alpha.
///
/// Slot i is drawn with P(i) = p_i / sum of p, p_i = priority^alpha (0^0 = 1), and has the weight
/// (N P(i))^-beta divided by the largest weight of any transition held (Schaul et al. 2016,
/// equation 1 and section 3.4). A batch is stratified: one draw in each of B equal parts of the
/// sum (appendix B.2.1). Storage, columns and thread safety are those of `ReplayBuffer`.
///
/// Args:
///     capacity: transitions held over all environments, up to 2**30.
///     obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
///     act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
///     alpha: priority exponent in [0, 1]: 0 is uniform, 1 fully prioritized.
///     beta: exponent of the importance weights in [0, 1].
///     n_envs: environments pushed side by side.
///     seed: as for `ReplayBuffer`.
///     stratified: False draws independently instead.
///     obs_shape: and the other keywords, as for `ReplayBuffer`.
///
/// Raises:
///     ConfigError: a setting is out of range or contradicts another.
///     UnknownNameError: a keyword or dtype that does not exist; names the nearest.
#[pyclass(name = "PrioritizedReplayBuffer", module = "rlox._core", frozen)]
pub(crate) struct PyPrioritizedReplayBuffer {
    columns: Columns,
    buffer: RwLock<PrioritizedReplayBuffer>,
}

impl Held for PrioritizedReplayBuffer {
    fn state<'py>(py: Python<'py>, buffer: &RwLock<Self>) -> PyResult<Bound<'py, PyDict>> {
        state::save_prioritized(py, buffer)
    }

    fn continue_from(
        py: Python<'_>,
        buffer: &RwLock<Self>,
        state: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        state::restore_prioritized(py, buffer, state)
    }
}

held_methods!(PyPrioritizedReplayBuffer);

#[pymethods]
impl PyPrioritizedReplayBuffer {
    #[new]
    #[pyo3(
        signature = (capacity, obs_dim=Number::OMITTED, act_dim=Number::OMITTED, alpha=Real::Omitted(0.6),
            beta=Real::Omitted(0.4), *, n_envs=Number::OMITTED, seed=Number::OMITTED, stratified=true, **keywords),
        text_signature = "(capacity, obs_dim=None, act_dim=None, alpha=0.6, beta=0.4, *, n_envs=1, seed=0, stratified=True, obs_shape=None, obs_dtype='float32', obs_spaces=None, action_shape=None, action_dtype='float32', reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "keywords of a constructor")]
    fn new<'py>(
        py: Python<'py>,
        capacity: Number<'py>,
        obs_dim: Number<'py>,
        act_dim: Number<'py>,
        alpha: Real<'py>,
        beta: Real<'py>,
        n_envs: Number<'py>,
        seed: Number<'py>,
        stratified: bool,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let columns = settings::columns(py, obs_dim, act_dim, &n_envs, keywords)?;
        let capacity = settings::size(&capacity, "capacity", 0)?;
        let seed = seed.read("seed", 0)?;
        let (alpha, beta) = (alpha.read("alpha")?, beta.read("beta")?);
        let (schema, n_envs) = (columns.schema().clone(), columns.n_envs());
        let draw = if stratified { Draw::Stratified } else { Draw::Independent };
        let make =
            || PrioritizedReplayBuffer::new(schema, capacity, n_envs, seed, (alpha, beta), draw);
        let buffer = crate::detach::detached(py, 0, make)?;
        Ok(Self { columns, buffer: RwLock::new(buffer) })
    }

    /// As `ReplayBuffer.from_spaces`.
    #[classmethod]
    #[pyo3(
        signature = (observation_space, action_space, capacity, **keywords),
        text_signature = "($cls, observation_space, action_space, capacity, *, alpha=0.6, beta=0.4, n_envs=1, seed=0, stratified=True, reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    fn from_spaces<'py>(
        cls: &Bound<'py, PyType>,
        observation_space: &Bound<'py, PyAny>,
        action_space: &Bound<'py, PyAny>,
        capacity: &Bound<'py, PyAny>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        settings::from_spaces(cls, observation_space, action_space, capacity, keywords)
    }

    /// As `ReplayBuffer.push`, with a priority in [0, 1e100]; without one the largest seen so
    /// far, 1 at first. With `n_envs > 1` priorities are `[n_envs]`.
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
        let (actions, rewards, n) = (action, reward, self.columns.n_envs());
        let pushed = Pushed { obs, actions, rewards, terminated, truncated, next_obs, extra };
        let (lead, target) = shared::target(n);
        self.push_rows(py, pushed, lead, n, target, priority)
    }

    /// As `ReplayBuffer.push_batch`, with priorities, `[n]`, as in `push`.
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
        let pushed = Pushed { obs, actions, rewards, terminated, truncated, next_obs, extra };
        let ids = env_ids.map(settings::env_ids).transpose()?;
        let target = ids.as_deref().map_or(Target::Stream(0), Target::Ids);
        let n = shared::leading(terminated)?;
        self.push_rows(py, pushed, Some(n), n, target, priorities)
    }

    /// Draws transitions with probability proportional to priority^alpha, with replacement.
    ///
    /// Args:
    ///     batch_size: rows per batch, B.
    ///     seed: and the other arguments, as for `ReplayBuffer.sample`.
    ///
    /// Returns:
    ///     The dict of `ReplayBuffer.sample` with `weights`, float32 `[B]`, in (0, 1].
    ///
    /// Raises:
    ///     ConfigError: the buffer is empty, or a setting is out of range.
    ///     ShapeError: an array of `out` has another shape or dtype.
    #[pyo3(
        signature = (batch_size, seed=Number::OMITTED, *, n_batches=Number::OMITTED,
            n_step=Number::OMITTED, gamma=None, out=None),
        text_signature = "($self, batch_size, seed=None, *, n_batches=None, n_step=None, gamma=None, out=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "one call samples and looks ahead")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Number<'py>,
        seed: Number<'py>,
        n_batches: Number<'py>,
        n_step: Number<'py>,
        gamma: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (request, lead) = shared::request(&batch_size, &seed, &n_batches)?;
        let horizon = shared::horizon(py, &n_step, gamma)?;
        let rows = shared::raised(py, request.rows())?;
        let more = More { discounts: horizon.is_some(), weights: true, sequence: false };
        let mut arrays = Arrays::new(py, &self.columns, &lead, more, out)?;
        let mut slices = arrays.slices();
        door::reading(py, &self.buffer, 2 * shared::cost(&self.columns, rows), |buffer| {
            let mut exact = vec![0.0; rows];
            let rows = buffer.sample(request, &mut exact)?;
            buffer.storage().fill(&rows, horizon, &mut slices);
            if let Some(weights) = slices.last_mut() {
                for (weight, exact) in weights.as_chunks_mut().0.iter_mut().zip(exact) {
                    #[expect(clippy::cast_possible_truncation, reason = "weights are float32")]
                    let single = exact as f32;
                    *weight = single.to_ne_bytes();
                }
            }
            Ok(())
        })?;
        drop(slices);
        arrays.into_dict(py)
    }

    /// Sets the priorities, `[n]`, of the rows with the given indices, `[n]`: new absolute TD
    /// errors plus a small constant. Of an index given twice the last priority stays.
    ///
    /// Returns:
    ///     How many rows were overwritten in the meantime and passed over.
    ///
    /// Raises:
    ///     ConfigError: a priority is negative, NaN or above 1e100; nothing is changed then.
    ///     ShapeError: the lengths differ.
    fn update_priorities(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let indices = coerce::array(indices, "indices")?;
        coerce::check_ndim(&indices, "indices", &["n"])?;
        let priorities = coerce::array(priorities, "priorities")?;
        coerce::check_shape(&priorities, "priorities", &[indices.len()], "one per index")?;
        let indices = coerce::elements::<u64>(&indices, "indices", "iu")?;
        let priorities = coerce::numbers::<f64>(&priorities, "priorities")?;
        let (indices, priorities) = (indices.slice(), priorities.slice());
        door::writing(py, &self.buffer, indices.len().saturating_mul(60), |buffer| {
            buffer.update_priorities(indices, priorities)
        })
    }

    /// Replaces beta, in [0, 1].
    fn set_beta(&self, py: Python<'_>, beta: Real<'_>) -> PyResult<()> {
        let beta = beta.read("beta")?;
        door::writing(py, &self.buffer, 100, |buffer| buffer.set_beta(beta))
    }

    /// Exponent of the importance weights.
    #[getter]
    fn beta(&self, py: Python<'_>) -> PyResult<f64> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.priorities().beta()))
    }

    /// Exponent of the priorities.
    #[getter]
    fn alpha(&self, py: Python<'_>) -> PyResult<f64> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.priorities().alpha()))
    }

    /// The priority of a row that is pushed without one: the largest so far, 1 at first.
    #[getter]
    fn max_priority(&self, py: Python<'_>) -> PyResult<f64> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.priorities().most()))
    }
}

impl PyPrioritizedReplayBuffer {
    fn push_rows<'py>(
        &self,
        py: Python<'py>,
        pushed: Pushed<'_, 'py>,
        lead: Option<usize>,
        n: usize,
        target: Target<'_>,
        priorities: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let given = priorities.map(|priorities| coerce::array(priorities, "priority"));
        let given = given.transpose()?;
        let given = given.map(|array| coerce::numbers::<f64>(&array, "priority")).transpose()?;
        let priorities = given.as_ref().map(crate::views::View::slice);
        if let Some(all) = priorities
            && all.len() != n
        {
            let expected = format!("{n}, one per transition");
            let got = format!("{} elements", all.len());
            return shared::raised(
                py,
                Err(Error::Shape { name: "priority".into(), got, expected }),
            );
        }
        self.columns.read(pushed, lead, |rows| {
            let cost = shared::cost(&self.columns, n).saturating_add(n.saturating_mul(60));
            door::writing(py, &self.buffer, cost, |buffer| buffer.push(target, rows, priorities))
        })
    }
}
