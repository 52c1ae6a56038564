//! The prioritized replay buffer for Python.

use std::path::PathBuf;
use std::sync::RwLock;

use numpy::PyArray1;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::buffer::{Draw, DrawState, PrioritizedReplayBuffer, Storage, Target};

use super::columns::{Columns, Pushed, horizon};
use super::outgoing::{Arrays, More};
use super::shared::{self, Held};
use super::{door, incoming, settings, state};
use crate::coerce::{self, Number};

/// A ring of transitions, sampled in proportion to priority^alpha (Schaul et al. 2016,
/// "Prioritized Experience Replay", proportional variant).
///
/// Row i has p_i = priority_i^alpha and is drawn with probability P(i) = p_i / sum p. Its
/// importance weight is (N P(i))^-beta over the largest such weight in the buffer, which makes the
/// weights those of section 3.4 with the exact maximum: (p_min / p_i)^beta. A row pushed without a
/// priority gets the largest ever set, 1 at first. Priorities are finite and in [0, 1e100]; a row
/// of priority 0 is not drawn (unless alpha is 0). Rows leave with their priorities.
///
/// Storage, thread safety and column keywords are those of `ReplayBuffer`.
///
/// Args:
///     capacity: transitions held over all environments, up to 2**30.
///     obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
///     act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
///     alpha: how much priorities matter, in [0, 1]; 0 is uniform.
///     beta: how much the weights make up for it, in [0, 1]; 1 is fully.
///     n_envs: environments pushed side by side.
///     seed: draws without a seed of their own come from `Stream(seed, "replay", i)` for the
///         i-th batch.
///     stratified: one draw in each of B equal parts of the sum (appendix B.2.1), which keeps
///         each row's expected count and lowers its variance; False draws independently.
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
    fn storage(&self) -> &Storage {
        self.storage()
    }

    fn storage_mut(&mut self) -> &mut Storage {
        self.storage_mut()
    }

    fn draws(&self) -> &DrawState {
        self.draws()
    }

    fn set_draws(&mut self, draws: DrawState) {
        self.set_draws(draws);
    }
}

#[pymethods]
impl PyPrioritizedReplayBuffer {
    #[new]
    #[pyo3(
        signature = (capacity, obs_dim=Number::OMITTED, act_dim=Number::OMITTED, alpha=0.6,
            beta=0.4, *, n_envs=Number::OMITTED, seed=Number::OMITTED, stratified=true, **keywords),
        text_signature = "(capacity, obs_dim=None, act_dim=None, alpha=0.6, beta=0.4, *, n_envs=1, seed=0, stratified=True, obs_shape=None, obs_dtype='float32', obs_spaces=None, action_shape=None, action_dtype='float32', reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "the settings of a buffer")]
    fn new<'py>(
        py: Python<'py>,
        capacity: Number<'py>,
        obs_dim: Number<'py>,
        act_dim: Number<'py>,
        alpha: f64,
        beta: f64,
        n_envs: Number<'py>,
        seed: Number<'py>,
        stratified: bool,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let schema = settings::schema(py, obs_dim, act_dim, keywords)?;
        let capacity = settings::size(&capacity, "capacity", 0)?;
        let n_envs = settings::size(&n_envs, "n_envs", 1)?;
        let seed = seed.read("seed", 0)?;
        let draw = if stratified { Draw::Stratified } else { Draw::Independent };
        let columns = schema.clone();
        let make =
            || PrioritizedReplayBuffer::new(schema, capacity, n_envs, seed, (alpha, beta), draw);
        let buffer = crate::detach::detached(py, shared::LONG, make)?;
        Ok(Self { columns: Columns::new(py, columns, n_envs), buffer: RwLock::new(buffer) })
    }

    /// Stores one transition as `ReplayBuffer.push` does, with its priority (with `n_envs > 1`,
    /// `[n_envs]`).
    ///
    /// Raises:
    ///     ConfigError: a priority is not in [0, 1e100]. NonFiniteError: it is NaN or infinite.
    #[pyo3(
        signature = (obs, action, reward, terminated, truncated, next_obs=None, priority=None,
            **extra),
        text_signature = "($self, obs, action, reward, terminated, truncated, next_obs=None, priority=None, **extra)"
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
        let extra = extra.filter(|extra| !extra.is_empty());
        let (actions, rewards) = (action, reward);
        let pushed = Pushed { obs, actions, rewards, terminated, truncated, next_obs, extra };
        let n = self.columns.n_envs();
        let (lead, target) =
            if n == 1 { (None, Target::Stream(0)) } else { (Some(n), Target::Each) };
        let priorities =
            priority.map(|value| incoming::priorities(value, "priority", lead)).transpose()?;
        self.store(py, pushed, lead, target, priorities.as_deref())
    }

    /// Stores consecutive transitions as `ReplayBuffer.push_batch` does, with their priorities,
    /// `[n]`.
    #[pyo3(
        signature = (obs, actions, rewards, terminated, truncated, next_obs=None, *,
            priorities=None, env_ids=None, **extra),
        text_signature = "($self, obs, actions, rewards, terminated, truncated, next_obs=None, *, priorities=None, env_ids=None, **extra)"
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
        let extra = extra.filter(|extra| !extra.is_empty());
        let pushed = Pushed { obs, actions, rewards, terminated, truncated, next_obs, extra };
        let ids = env_ids.map(settings::env_ids).transpose()?;
        let target = ids.as_deref().map_or(Target::Stream(0), Target::Ids);
        let n = shared::rows_of(terminated)?;
        let priorities = priorities
            .map(|values| incoming::priorities(values, "priorities", Some(n)))
            .transpose()?;
        self.store(py, pushed, Some(n), target, priorities.as_deref())
    }

    /// Draws transitions in proportion to p, with replacement.
    ///
    /// Args:
    ///     batch_size: rows per batch, B.
    ///     seed: the same seed, contents and priorities give the same batch; without one the
    ///         buffer's own draws go on, which `state` saves.
    ///     n_batches: several batches in one call; every array then has a leading axis.
    ///     n_step: and `gamma`, `out`: as for `ReplayBuffer.sample`.
    ///
    /// Returns:
    ///     The dict of `ReplayBuffer.sample` with `weights` float32 `[B]`, at most 1; `indices`
    ///     are for `update_priorities`.
    ///
    /// Raises:
    ///     ConfigError: the buffer is empty or every priority is 0, or a setting is out of range.
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
        gamma: Option<f64>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (request, lead) = shared::request(&batch_size, &seed, &n_batches)?;
        let horizon = shared::raised(py, horizon(n_step.optional("n_step")?, gamma))?;
        let rows = shared::raised(py, request.rows())?;
        let more = if horizon.is_some() { More::Discounts } else { More::Nothing };
        let mut arrays = Arrays::new(py, &self.columns, &lead, more, out)?;
        let key = intern!(py, "weights");
        let mut weights = arrays.another::<f32>(key, &lead)?;
        let (mut slices, weight_slice) = (arrays.slices(), weights.slice_mut());
        let cost = shared::cost(&self.columns, rows) + 60 * rows;
        door::reading(py, &self.buffer, cost, |buffer| {
            let mut exact = vec![0.0; rows];
            let rows = buffer.sample(request, &mut exact)?;
            buffer.storage().fill(&rows, horizon, &mut slices);
            #[expect(clippy::cast_possible_truncation, reason = "weights in [0, 1]")]
            for (weight, exact) in weight_slice.iter_mut().zip(exact) {
                *weight = exact as f32;
            }
            Ok(())
        })?;
        drop(slices);
        let dict = arrays.into_dict(py)?;
        if out.is_none() {
            dict.set_item(key, weights.into_array())?;
        }
        Ok(dict)
    }

    /// Sets the priorities of rows, `[n]`, by the `indices` that `sample` returned, `[n]`; of an
    /// index given twice the last value stays.
    ///
    /// Returns:
    ///     How many rows were overwritten in the meantime and passed over.
    ///
    /// Raises:
    ///     ConfigError: a priority is not in [0, 1e100] (pass magnitudes of TD errors).
    ///     NonFiniteError: it is NaN or infinite. ShapeError: the lengths differ. Nothing is
    ///     changed then.
    fn update_priorities(
        &self,
        py: Python<'_>,
        indices: &Bound<'_, PyAny>,
        priorities: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let indices = coerce::array(indices, "indices")?;
        coerce::check_ndim(&indices, "indices", &["n"])?;
        let indices = coerce::elements::<u64>(&indices, "indices", "iu")?;
        let priorities = coerce::array(priorities, "priorities")?;
        coerce::check_ndim(&priorities, "priorities", &["n"])?;
        let priorities = coerce::numbers::<f64>(&priorities, "priorities")?;
        let (indices, priorities) = (indices.slice(), priorities.slice());
        door::writing(py, &self.buffer, indices.len().saturating_mul(60), |buffer| {
            buffer.update_priorities(indices, priorities)
        })
    }

    /// Replaces beta, in [0, 1]; usually raised towards 1 over training.
    fn set_beta(&self, py: Python<'_>, beta: f64) -> PyResult<()> {
        door::writing(py, &self.buffer, 100, |buffer| buffer.set_beta(beta))
    }

    /// The exponent of the priorities.
    #[getter]
    fn alpha(&self, py: Python<'_>) -> PyResult<f64> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.priorities().alpha()))
    }

    /// The exponent of the weights.
    #[getter]
    fn beta(&self, py: Python<'_>) -> PyResult<f64> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.priorities().beta()))
    }

    /// The priority of a row that is pushed without one.
    #[getter]
    fn max_priority(&self, py: Python<'_>) -> PyResult<f64> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.priorities().most()))
    }

    /// The transitions with the given indices, uint64 `[n]`, as `ReplayBuffer.gather`.
    #[pyo3(signature = (indices, *, out=None))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        shared::gather(py, &self.columns, &self.buffer, indices, out)
    }

    /// Writes into a column, as `ReplayBuffer.update`.
    fn update(
        &self,
        py: Python<'_>,
        column: &str,
        indices: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        shared::update(py, &self.columns, &self.buffer, column, indices, values)
    }

    /// Ends the running episode of environment `env`, as `ReplayBuffer.cut_episode`.
    #[pyo3(signature = (env=Number::OMITTED), text_signature = "($self, env=0)")]
    fn cut_episode(&self, py: Python<'_>, env: Number<'_>) -> PyResult<()> {
        let env = settings::size(&env, "env", 0)?;
        door::writing(py, &self.buffer, 100, |buffer| buffer.storage_mut().cut_episode(env))
    }

    /// Forgets every transition; indices go on counting, `max_priority` stays.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        door::writing(py, &self.buffer, shared::LONG, PrioritizedReplayBuffer::clear)
    }

    /// Everything needed to go on from here, as a flat dict of arrays, numbers and strings.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, numbers) = state::save_with(py, &self.buffer, |buffer| {
            let priorities = buffer.priorities();
            let (tree, most) = priorities.state();
            (tree, most, priorities.alpha(), priorities.beta())
        })?;
        let (tree, most, alpha, beta) = numbers;
        dict.set_item("tree", PyArray1::from_vec(py, tree))?;
        for (key, value) in [("max_priority", most), ("alpha", alpha), ("beta", beta)] {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    }

    /// Continues from what `state` returned, in a buffer of the same columns, capacity, number of
    /// environments and alpha: the same rows, indices, priorities and draws.
    ///
    /// Raises CheckpointError or ShapeError for a state that does not fit; nothing is changed then.
    fn restore(&self, py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<()> {
        let (saved, draws) = state::read(py, state)?;
        let tree: Vec<f64> = state::array(state, "tree")?;
        let number = |name| state::scalar::<f64>(state, name);
        let numbers = (number("alpha")?, number("beta")?, number("max_priority")?);
        door::writing(py, &self.buffer, shared::LONG, |buffer| {
            buffer.restore(&saved, &tree, numbers)?;
            buffer.set_draws(draws);
            Ok(())
        })
    }

    /// Saves the buffer with its priorities as `name` in the folder `path`; otherwise as
    /// `ReplayBuffer.save`.
    #[pyo3(signature = (path, name="last"))]
    fn save(&self, py: Python<'_>, path: PathBuf, name: &str) -> PyResult<u64> {
        let save = |buffer: &mut PrioritizedReplayBuffer| Ok(buffer.save(&path, name)?.new_bytes);
        door::writing(py, &self.buffer, shared::LONG, save)
    }

    /// Continues from what a buffer of the same columns, size and alpha saved; otherwise as
    /// `ReplayBuffer.load`.
    #[pyo3(signature = (path, name="last"))]
    fn load(&self, py: Python<'_>, path: PathBuf, name: &str) -> PyResult<()> {
        door::writing(py, &self.buffer, shared::LONG, |buffer| buffer.load(&path, name))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.storage().len()))
    }

    /// Transitions held at most, a multiple of `n_envs`.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<usize> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.storage().capacity()))
    }

    /// Number of environments.
    #[getter]
    const fn n_envs(&self) -> usize {
        self.columns.n_envs()
    }

    /// Transitions pushed so far, overwritten ones included.
    #[getter]
    fn n_pushed(&self, py: Python<'_>) -> PyResult<u64> {
        door::reading(py, &self.buffer, 100, |buffer| Ok(buffer.storage().pushed()))
    }
}

impl PyPrioritizedReplayBuffer {
    fn store<'py>(
        &self,
        py: Python<'py>,
        pushed: Pushed<'_, 'py>,
        lead: Option<usize>,
        target: Target<'_>,
        priorities: Option<&[f64]>,
    ) -> PyResult<()> {
        self.columns.read(pushed, lead, |rows| {
            let cost = shared::cost(&self.columns, rows.n) + 60 * rows.n;
            door::writing(py, &self.buffer, cost, |buffer| buffer.push(target, rows, priorities))
        })
    }
}
