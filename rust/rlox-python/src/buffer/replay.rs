//! The uniform replay buffer for Python.

use std::sync::RwLock;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};
use rlox_core::buffer::{DrawState, ReplayBuffer, Storage};

use super::columns::{Columns, Pushed, horizon};
use super::goals::{self, PyHindsightConfig};
use super::outgoing::{Arrays, More};
use super::shared::{self, Held};
use super::{door, settings, state};
use crate::coerce::{self, Number, Text};
use crate::paths::PathArg;

/// A ring of transitions, sampled uniformly with replacement.
///
/// The oldest transition is overwritten first, in a ring of `capacity // n_envs` rows for each
/// environment. An observation is stored once though it is the `next_obs` of one row and the `obs`
/// of the next; where the bytes differ (a reset) both are kept. Numbers are stored as they are,
/// NaN and infinity included.
///
/// Any number of threads may call any methods at once: a call sees whole rows only, sampling does
/// not wait for sampling, and the GIL is released during long calls and while waiting. Results
/// never depend on the number of threads.
///
/// Args:
///     capacity: transitions held over all environments, up to 2**30.
///     obs_dim: numbers per observation; or give `obs_shape` or `obs_spaces`.
///     act_dim: numbers per action, 1 for a discrete action; or give `action_shape`.
///     n_envs: environments pushed side by side.
///     seed: draws without a seed of their own come from `Stream(seed, "replay", i)` for the
///         i-th batch.
///     obs_shape: shape of an observation.
///     obs_dtype: uint8, int32, int64, float32, float64 or bool.
///     obs_spaces: `{name: (dtype, shape)}` for observations that are dicts of arrays.
///     action_shape: shape of an action.
///     action_dtype: as `obs_dtype`.
///     reward_dtype: float32 or float64.
///     frame_stack: `(k, "first")` or `(k, "last")` if an observation stacks k frames along its
///         first or last axis, oldest first (for dict observations, a mapping from names to such
///         pairs): each frame is stored once. Stacks are compared by bytes, so any reset
///         convention is reproduced exactly; frames that a reset changes take memory of their own.
///     extra_columns: `{name: (dtype, shape)}` of further columns, pushed as `extra`.
///
/// Raises:
///     ConfigError: a setting is out of range or contradicts another.
///     UnknownNameError: a keyword or dtype that does not exist; names the nearest.
#[pyclass(name = "ReplayBuffer", module = "rlox._core", frozen)]
pub(crate) struct PyReplayBuffer {
    columns: Columns,
    buffer: RwLock<ReplayBuffer>,
}

impl Held for ReplayBuffer {
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
impl PyReplayBuffer {
    #[new]
    #[pyo3(
        signature = (capacity, obs_dim=Number::OMITTED, act_dim=Number::OMITTED, *,
            n_envs=Number::OMITTED, seed=Number::OMITTED, **keywords),
        text_signature = "(capacity, obs_dim=None, act_dim=None, *, n_envs=1, seed=0, obs_shape=None, obs_dtype='float32', obs_spaces=None, action_shape=None, action_dtype='float32', reward_dtype='float32', frame_stack=None, extra_columns=None)"
    )]
    fn new<'py>(
        py: Python<'py>,
        capacity: Number<'py>,
        obs_dim: Number<'py>,
        act_dim: Number<'py>,
        n_envs: Number<'py>,
        seed: Number<'py>,
        keywords: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let schema = settings::schema(py, obs_dim, act_dim, keywords)?;
        let capacity = settings::size(&capacity, "capacity", 0)?;
        let n_envs = settings::size(&n_envs, "n_envs", 1)?;
        let seed = seed.read("seed", 0)?;
        let columns = schema.clone();
        let make = || ReplayBuffer::new(schema, capacity, n_envs, seed);
        let buffer = crate::detach::detached(py, 0, make)?;
        Ok(Self { columns: Columns::new(py, columns, n_envs), buffer: RwLock::new(buffer) })
    }

    /// A buffer for the observations and actions of Gymnasium spaces; Discrete actions are
    /// `(1,)` of the space's dtype. Other keywords are those of the constructor.
    ///
    /// Raises UnsupportedSpaceError for spaces whose elements are no arrays.
    #[classmethod]
    #[pyo3(
        signature = (observation_space, action_space, capacity, **keywords),
        text_signature = "($cls, observation_space, action_space, capacity, *, n_envs=1, seed=0, reward_dtype='float32', frame_stack=None, extra_columns=None)"
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

    /// Stores one transition; with `n_envs > 1` one of each environment, every argument with a
    /// leading axis `[n_envs]`.
    ///
    /// Args:
    ///     obs: the observation acted on, in the declared shape (or any with as many elements if
    ///         that is flat), or a mapping for dict observations.
    ///     action: a number or array.
    ///     reward: a number.
    ///     terminated: whether the state reached is terminal: its value is 0.
    ///     truncated: whether the episode was cut short: the state reached has a value.
    ///     next_obs: what the step led to, the last observation of the episode where one ended.
    ///         Left out, it is the next `obs` pushed for the same environment (until then, and
    ///         where the episode ends, `obs` itself).
    ///     extra: the extra columns, a dict by name.
    ///
    /// Raises:
    ///     ShapeError: an array of another shape, or a number that the column cannot hold.
    #[pyo3(
        signature = (obs, action, reward, terminated, truncated, next_obs=None, extra=None),
        text_signature = "($self, obs, action, reward, terminated, truncated, next_obs=None, extra=None)"
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
        extra: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let pushed = Pushed {
            obs,
            actions: action,
            rewards: reward,
            terminated,
            truncated,
            next_obs,
            extra,
        };
        shared::push(py, &self.columns, &self.buffer, pushed)
    }

    /// Stores consecutive transitions of one environment, oldest first, each array with a leading
    /// axis `[n]`; otherwise as `push`.
    ///
    /// Args:
    ///     env_ids: the environment of each row, `[n]`, the rows of one environment in time order;
    ///         without it all are of environment 0.
    #[pyo3(
        signature = (obs, actions, rewards, terminated, truncated, next_obs=None, *, env_ids=None,
            extra=None),
        text_signature = "($self, obs, actions, rewards, terminated, truncated, next_obs=None, *, env_ids=None, extra=None)"
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
        env_ids: Option<&Bound<'py, PyAny>>,
        extra: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<()> {
        let pushed = Pushed { obs, actions, rewards, terminated, truncated, next_obs, extra };
        shared::push_batch(py, &self.columns, &self.buffer, pushed, env_ids)
    }

    /// Draws transitions uniformly, with replacement.
    ///
    /// Args:
    ///     batch_size: rows per batch, B.
    ///     seed: the same seed and contents give the same batch; without one the buffer's own
    ///         draws go on, which `state` saves.
    ///     n_batches: several batches in one call, equal to as many calls; every array then has a
    ///         leading axis `[n_batches]`. With a seed, batch i draws from
    ///         `Stream(seed, "replay", i)`.
    ///     n_step: rewards become R = sum_{k<m} gamma^k r_{t+k} and `next_obs` and the flags those
    ///         of row t+m-1, with m = n_step, or less where the episode ends or the newest row is
    ///         reached; `discounts` is added. (Sutton & Barto 2018, equation 7.1.)
    ///     gamma: discount per step, in [0, 1]; needed with `n_step`.
    ///     her: hindsight relabelling of dict observations; see `HindsightConfig`.
    ///     out: a dict of arrays as returned by an earlier call of the same sizes, or of CPU
    ///         tensors, to be filled in place and returned.
    ///
    /// Returns:
    ///     A dict: `obs` and `next_obs` `[B, ...]` (dicts for dict observations), `actions`
    ///     `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, the extra
    ///     columns, `indices` uint64 `[B]` for `gather` and `update`, and with `n_step`
    ///     `discounts` float32 `[B]`, gamma^m (1 - terminated).
    ///
    /// Raises:
    ///     ConfigError: the buffer is empty, or a setting is out of range.
    ///     ShapeError: an array of `out` has another shape or dtype.
    #[pyo3(
        signature = (batch_size, seed=Number::OMITTED, *, n_batches=Number::OMITTED,
            n_step=Number::OMITTED, gamma=None, her=None, out=None),
        text_signature = "($self, batch_size, seed=None, *, n_batches=None, n_step=None, gamma=None, her=None, out=None)"
    )]
    #[expect(clippy::too_many_arguments, reason = "one call samples, looks ahead and relabels")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: Number<'py>,
        seed: Number<'py>,
        n_batches: Number<'py>,
        n_step: Number<'py>,
        gamma: Option<&Bound<'py, PyAny>>,
        her: Option<&Bound<'py, PyHindsightConfig>>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (request, lead) = shared::request(&batch_size, &seed, &n_batches)?;
        let horizon = shared::raised(
            py,
            horizon(n_step.optional("n_step")?, coerce::optional_real(gamma, "gamma")?),
        )?;
        if let Some(her) = her {
            return goals::sample(
                py,
                &self.columns,
                &self.buffer,
                request,
                &lead,
                horizon,
                her.get(),
                out,
            );
        }
        let rows = shared::raised(py, request.rows())?;
        let more = More { discounts: horizon.is_some(), ..More::default() };
        let mut arrays = Arrays::new(py, &self.columns, &lead, more, out)?;
        let mut slices = arrays.slices();
        door::reading(py, &self.buffer, shared::cost(&self.columns, rows), |buffer| {
            let rows = buffer.sample(request)?;
            buffer.storage().fill(&rows, horizon, &mut slices);
            Ok(())
        })?;
        drop(slices);
        arrays.into_dict(py)
    }

    /// The transitions with the given indices, uint64 `[n]`, as `sample` returns them.
    ///
    /// Raises StaleIndexError if one was overwritten or never written.
    #[pyo3(signature = (indices, *, out=None))]
    fn gather<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        shared::gather(py, &self.columns, &self.buffer, indices, out)
    }

    /// Writes `values`, `[n, ...]`, into a column (`actions`, `rewards` or an extra one) of the
    /// rows with the given indices, `[n]`; of an index given twice the last value stays.
    ///
    /// Returns:
    ///     How many rows were overwritten in the meantime and passed over.
    fn update(
        &self,
        py: Python<'_>,
        column: Text<'_>,
        indices: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<u64> {
        shared::update(py, &self.columns, &self.buffer, &column, indices, values)
    }

    /// Ends the running episode of environment `env` after its newest transition, whatever its
    /// flags say: n-step windows and goals do not join it to what is pushed next. For an
    /// environment that died and was replaced.
    #[pyo3(signature = (env=Number::OMITTED), text_signature = "($self, env=0)")]
    fn cut_episode(&self, py: Python<'_>, env: Number<'_>) -> PyResult<()> {
        let env = settings::size(&env, "env", 0)?;
        door::writing(py, &self.buffer, 100, |buffer| buffer.storage_mut().cut_episode(env))
    }

    /// Forgets every transition; indices go on counting.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        door::writing(py, &self.buffer, shared::LONG, |buffer| {
            buffer.storage_mut().clear();
            Ok(())
        })
    }

    /// Everything needed to go on from here, as a flat dict of arrays, integers and strings.
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        state::save(py, &self.buffer)
    }

    /// Continues from what `state` returned, in a buffer of the same columns, capacity and number
    /// of environments: the same rows, indices and draws.
    ///
    /// Raises CheckpointError or ShapeError for a state that does not fit; nothing is changed then.
    fn restore(&self, py: Python<'_>, state: &Bound<'_, PyDict>) -> PyResult<()> {
        state::restore(py, &self.buffer, state)
    }

    /// Saves the buffer as `name` in the folder `path`, which other saves and buffers may share.
    ///
    /// Rows that are in a segment there already are only listed, so a save costs what came since
    /// the last one; segments that no saved buffer lists are removed. After the call the save
    /// outlasts a power cut; killed before that, the earlier save of that name stays.
    ///
    /// Returns:
    ///     Bytes written for rows.
    ///
    /// Raises:
    ///     StorageError: the disk refuses, or another process is writing there.
    ///     ConfigError: `name` is not of letters, digits, `_` and `-`.
    #[pyo3(
        signature = (path, name=Text::Omitted("last")),
        text_signature = "($self, path, name='last')"
    )]
    fn save(&self, py: Python<'_>, path: PathArg<'_>, name: Text<'_>) -> PyResult<u64> {
        let (path, name) = (path.read("path")?, name.read("name")?);
        let save = |buffer: &mut ReplayBuffer| Ok(buffer.save(&path, &name)?.new_bytes);
        door::writing(py, &self.buffer, shared::LONG, save)
    }

    /// Continues from what a buffer of the same columns and size saved: the same rows, indices
    /// and draws.
    ///
    /// Raises:
    ///     CheckpointError: a file is damaged (named, with the byte), missing, or of a buffer of
    ///         another layout. Nothing is changed then.
    #[pyo3(
        signature = (path, name=Text::Omitted("last")),
        text_signature = "($self, path, name='last')"
    )]
    fn load(&self, py: Python<'_>, path: PathArg<'_>, name: Text<'_>) -> PyResult<()> {
        let (path, name) = (path.read("path")?, name.read("name")?);
        door::writing(py, &self.buffer, shared::LONG, |buffer| buffer.load(&path, &name))
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

    /// Bytes of memory held, counting all records though memory is taken as it is first written.
    #[getter]
    fn nbytes(&self, py: Python<'_>) -> PyResult<usize> {
        door::reading(py, &self.buffer, 1_000, |buffer| Ok(buffer.storage().nbytes()))
    }
}
