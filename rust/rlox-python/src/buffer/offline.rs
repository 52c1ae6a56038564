//! The offline dataset for Python.

use numpy::{PyArray1, PyArrayDescrMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_core::buffer::{
    Batch, BatchKind, InMemoryBuffer, ObsField, OfflineDataset, Schema, Standardizer, Transitions,
};
use rlox_core::{Dtype, Field, Result};

use super::arrays::Arrays;
use super::columns::Columns;
use super::dataset_arrays::{apply_in_float64, read_rows};
use super::shared::SampleArgs;
use super::{incoming, shared};
use crate::convert::coerce::{self, IntegerArg, TextArg};
use crate::convert::paths::PathArg;
use crate::detach::{detached, with_read_lock};
use crate::errors::{self, ErrorClass, OrRaise};

/// A dataset of transitions for offline learning, built once and then read-only.
///
/// Rows are in time order, episode after episode; `terminated` or `truncated` ends an episode. Rows
/// after the last end form one more, incomplete, episode, which is sampled and counted like the
/// others. A `next_obs` that equals the next row's `obs` is stored once.
///
/// Args:
///     obs: `[n, ...]`, or flat, `[n * obs_dim]`, of any dtype that a column can have; float16
///         becomes float32, uint32 and uint64 become int64.
///     next_obs: the same as `obs`; at the end of an episode its last observation.
///     actions: `[n, ...]`, `[n]` or flat, `[n * act_dim]`.
///     rewards: `[n]`; its length is the number of rows.
///     terminated: `[n]`, whether the state reached is terminal.
///     truncated: `[n]`, whether the episode was cut short.
///     normalize: standardise float observations by the dataset's mean and population standard
///         deviation of each element (elements with a deviation below 1e-6 are only centred);
///         `stats` returns both, `normalize` and `denormalize` convert other observations.
///     seed: batch i draws from `Stream(seed, "replay", i)`, unless `sample` gets its own seed.
///
/// Raises:
///     ShapeError: the arrays do not fit together.
///     NonFiniteError: observations, actions, rewards or flags contain NaN or infinity, or
///         observations exceed about 1e150.
///     ConfigError: there are no rows.
#[pyclass(name = "OfflineDatasetBuffer", module = "rlox._core", frozen)]
pub(crate) struct PyOfflineDatasetBuffer {
    columns: Columns,
    dataset: Shared<OfflineDataset>,
}

#[pymethods]
impl PyOfflineDatasetBuffer {
    #[new]
    #[pyo3(
        signature = (obs, next_obs, actions, rewards, terminated, truncated, normalize=false, *,
            seed=IntegerArg::OMITTED),
        text_signature = "(obs, next_obs, actions, rewards, terminated, truncated, normalize=False, *, seed=0)"
    )]
    #[expect(clippy::too_many_arguments, reason = "a dataset has so many parts")]
    fn new<'py>(
        py: Python<'py>,
        obs: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        terminated: &Bound<'py, PyAny>,
        truncated: &Bound<'py, PyAny>,
        normalize: bool,
        seed: IntegerArg<'py>,
    ) -> PyResult<Self> {
        let rewards = coerce::array(rewards, "rewards")?;
        coerce::check_ndim(&rewards, "rewards", &["n"])?;
        let n = rewards.len();
        let is_double = rewards.dtype().kind() == b'f' && rewards.dtype().itemsize() == 8;
        let reward_dtype = if is_double { Dtype::F64 } else { Dtype::F32 };
        let (obs, obs_field) = read_rows(obs, "obs", n)?;
        let (next_obs, _) = read_rows(next_obs, "next_obs", n)?;
        let (actions, action) = read_rows(actions, "actions", n)?;
        let column = ObsField { field: Field { name: String::new(), ..obs_field }, stack: None };
        let schema =
            Schema::new(vec![column.clone()], (action.dtype, action.shape.clone()), reward_dtype, Vec::new());
        let schema = schema.or_raise(py)?;
        let reward = Field::new("rewards", reward_dtype, []);
        // Observations and actions are read as flat, because the arrays may be flat. Their sizes have
        // been checked.
        let flat_field = |field: &Field| Field::new("", field.dtype, [n * field.len()]);
        let obs = incoming::read(obs.as_any(), "obs", &flat_field(&column.field), &[])?;
        let next_obs = incoming::read(next_obs.as_any(), "next_obs", &flat_field(&column.field), &[])?;
        let actions = incoming::read(actions.as_any(), "actions", &flat_field(&action), &[])?;
        let rewards = incoming::read(rewards.as_any(), "rewards", &reward, &[n])?;
        let terminated = incoming::flags(terminated, "terminated", &[n])?;
        let truncated = incoming::flags(truncated, "truncated", &[n])?;
        let seed = seed.read("seed", 0)?;
        let columns = Columns::new(py, schema.clone(), 1);
        let (obs, next_obs) = ([obs.slice()], [next_obs.slice()]);
        let others = [actions.slice(), rewards.slice()];
        let rows = Transitions {
            n,
            obs: &obs,
            next_obs: Some(&next_obs),
            columns: &others,
            terminated: terminated.slice(),
            truncated: truncated.slice(),
        };
        let load = || OfflineDataset::new(schema, rows, normalize, seed);
        let data = detached(py, crate::detach::ALWAYS_RELEASE, load)?;
        Ok(Self { columns, dataset: Shared::new(data) })
    }

    /// Draws transitions uniformly, with replacement.
    ///
    /// Args:
    ///     batch_size: rows per batch, B.
    ///     seed: the same seed gives the same batch; without one the dataset continues its own
    ///         draws.
    ///     n_batches: several batches in one call; every array then has a leading axis.
    ///     out: a dict that an earlier call of the same sizes returned; its arrays are filled in
    ///         place.
    ///
    /// Returns:
    ///     A dict: `obs` and `next_obs` `[B, ...]` (normalised if the dataset is), `actions`
    ///     `[B, act_dim]`, `rewards` `[B]`, `terminated` and `truncated` bool `[B]`, `indices`
    ///     uint64 `[B]`, the rows of the dataset.
    ///
    /// Raises:
    ///     ConfigError: a setting is out of range.
    #[pyo3(
        signature = (batch_size, seed=IntegerArg::OMITTED, *, n_batches=IntegerArg::OMITTED, out=None),
        text_signature = "($self, batch_size, seed=None, *, n_batches=None, out=None)"
    )]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        batch_size: IntegerArg<'py>,
        seed: IntegerArg<'py>,
        n_batches: IntegerArg<'py>,
        out: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let args = shared::parse_sample_args(&batch_size, &seed, &n_batches)?;
        self.draw_batch(py, &args, BatchKind::Transitions, out, |data, draw_args, batch| {
            let draws = data.sample(draw_args.request)?;
            let rows = data.rows();
            rlox_core::buffer::Rows::gather(rows, &draws.rows, &draws.rows, batch)
        })
    }

    /// Draws parts of episodes, on which a Decision Transformer trains (Chen et al. 2021).
    ///
    /// The first row of each part is uniform over the dataset. A part ends with its episode; its
    /// end is padded with zeros, where `mask` is False.
    ///
    /// Args:
    ///     batch_size: number of parts, B.
    ///     seq_len: rows of each part, padding included, L.
    ///     seed: the same as for `sample`.
    ///
    /// Returns:
    ///     A dict: `obs` `[B, L, ...]`, `actions` `[B, L, act_dim]`, `rewards` `[B, L]`,
    ///     `returns_to_go` `[B, L]` (undiscounted sum of the rewards from that row to the end of
    ///     its episode, summed in float64), `timesteps` int64 `[B, L]` (steps of the episode
    ///     before that row), `mask` bool `[B, L]`.
    ///
    /// Raises:
    ///     ConfigError: a setting is out of range.
    #[pyo3(
        signature = (batch_size, seq_len, seed=IntegerArg::OMITTED),
        text_signature = "($self, batch_size, seq_len, seed=None)"
    )]
    fn sample_trajectories<'py>(
        &self,
        py: Python<'py>,
        batch_size: IntegerArg<'py>,
        seq_len: IntegerArg<'py>,
        seed: IntegerArg<'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let args =
            shared::parse_sample_args(&batch_size, &seed, &IntegerArg::OMITTED)?.with_windows(&seq_len)?;
        self.draw_batch(py, &args, BatchKind::Trajectories, None, |data, draw_args, batch| {
            let draws = data.sample_trajectories(draw_args.request)?;
            data.gather_trajectories(&draws, draw_args.request.len, batch)
        })
    }

    /// Statistics of the dataset.
    ///
    /// Returns:
    ///     A dict: `n_transitions`, `n_episodes` (an incomplete last one included),
    ///     `n_complete_episodes`, `obs_dim` and `act_dim` (numbers per row), `mean_return`,
    ///     `std_return` (population), `min_return`, `max_return` (undiscounted),
    ///     `mean_episode_length`, and for float observations `obs_mean` and `obs_std` (population),
    ///     float64 in the shape of an observation, of the `obs` that was passed.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (schema, dict) = (self.columns.schema(), PyDict::new(py));
        let (stats, moments) = self.read_dataset(py, |data| (data.stats(), data.standardizer(0).cloned()))?;
        dict.set_item("n_transitions", stats.n_transitions)?;
        dict.set_item("n_episodes", stats.n_episodes)?;
        dict.set_item("n_complete_episodes", stats.n_complete)?;
        dict.set_item("obs_dim", schema.obs().first().map_or(0, |column| column.field.len()))?;
        dict.set_item("act_dim", schema.columns().first().map_or(0, Field::len))?;
        dict.set_item("mean_return", stats.mean_return)?;
        dict.set_item("std_return", stats.std_return)?;
        dict.set_item("min_return", stats.min_return)?;
        dict.set_item("max_return", stats.max_return)?;
        dict.set_item("mean_episode_length", stats.mean_length)?;
        if let Some(moments) = moments {
            dict.set_item("obs_mean", self.row_array(py, moments.mean())?)?;
            dict.set_item("obs_std", self.row_array(py, moments.std())?)?;
        }
        Ok(dict)
    }

    /// Number of episodes, an incomplete last one included.
    fn n_episodes(&self, py: Python<'_>) -> PyResult<usize> {
        self.read_dataset(py, |data| data.episodes().len())
    }

    /// (obs - mean) / std with the dataset's mean and std, for other observations, `[..., *obs]`:
    /// float32 if they are float32, else float64. Elements with a std below 1e-6 are only centred.
    ///
    /// Raises ConfigError for a dataset without float observations.
    fn normalize<'py>(&self, obs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (mean, scale) = self.moments(obs.py())?;
        apply_in_float64(obs, self.row_shape(), |obs| {
            obs.call_method1("__sub__", (mean,))?.call_method1("__truediv__", (scale,))
        })
    }

    /// obs * std + mean with the dataset's mean and std, the inverse of `normalize`.
    ///
    /// Raises ConfigError for a dataset without float observations.
    fn denormalize<'py>(&self, obs: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let (mean, scale) = self.moments(obs.py())?;
        apply_in_float64(obs, self.row_shape(), |obs| {
            obs.call_method1("__mul__", (scale,))?.call_method1("__add__", (mean,))
        })
    }

    /// Whether sampled observations are normalised.
    #[getter]
    fn normalized(&self, py: Python<'_>) -> PyResult<bool> {
        self.read_dataset(py, OfflineDataset::is_normalized)
    }

    /// Saves the dataset and its draws as `name` in the folder `path`, which other saves and
    /// buffers may share; the rest is as in `ReplayBuffer.save`. The first save into a folder
    /// writes the rows, later ones only list them.
    #[pyo3(
        signature = (path, name=TextArg::Omitted("last")),
        text_signature = "($self, path, name='last')"
    )]
    fn save(&self, py: Python<'_>, path: PathArg<'_>, name: TextArg<'_>) -> PyResult<u64> {
        let (path, name) = (path.read("path")?, name.read("name")?);
        detached(py, crate::detach::ALWAYS_RELEASE, || Ok(self.dataset.save(&path, &name)?.new_bytes))
    }

    /// Continues from a save, with the same rows, moments and draws. The saved dataset must have the
    /// same columns, number of rows and `normalize`.
    ///
    /// Raises:
    ///     CheckpointError: a file is damaged (the message has the file and the byte) or missing, or
    ///         has another layout. Nothing changes then.
    #[pyo3(
        signature = (path, name=TextArg::Omitted("last")),
        text_signature = "($self, path, name='last')"
    )]
    fn load(&self, py: Python<'_>, path: PathArg<'_>, name: TextArg<'_>) -> PyResult<()> {
        let (path, name) = (path.read("path")?, name.read("name")?);
        detached(py, crate::detach::ALWAYS_RELEASE, || self.dataset.load(&path, &name))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.read_dataset(py, |data| data.rows().rings().len())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("OfflineDatasetBuffer({} transitions)", self.__len__(py)?))
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> PyResult<()> {
        Err(crate::errors::not_copyable_error(slf, crate::errors::HOW_TO_MOVE))
    }
}

impl PyOfflineDatasetBuffer {
    /// Returns a batch of this kind, which `fill` draws and copies.
    fn draw_batch<'py>(
        &self,
        py: Python<'py>,
        args: &SampleArgs,
        kind: BatchKind,
        out: Option<&Bound<'py, PyDict>>,
        fill: impl FnOnce(&OfflineDataset, &SampleArgs, &mut Batch<'_, '_>) -> Result<()> + Send,
    ) -> PyResult<Bound<'py, PyDict>> {
        let rows = args.request.rows().or_raise(py)?;
        let mut arrays = Arrays::new(py, &self.columns, &args.lead, kind, out)?;
        let cost = shared::copy_nanoseconds(&self.columns, rows);
        arrays
            .fill_with(py, |batch| with_read_lock(py, &self.dataset, cost, |data| fill(data, args, batch)))?;
        arrays.into_dict(py)
    }

    /// Returns the result of `read`, a short call.
    fn read_dataset<T: Send>(
        &self,
        py: Python<'_>,
        read: impl FnOnce(&OfflineDataset) -> T + Send,
    ) -> PyResult<T> {
        with_read_lock(py, &self.dataset, 1_000, |data| Ok(read(data)))
    }

    /// Returns `values` as an array in the shape of an observation.
    fn row_array<'py>(&self, py: Python<'py>, values: &[f64]) -> PyResult<Bound<'py, PyAny>> {
        PyArray1::from_slice(py, values).call_method1("reshape", (self.row_shape().to_vec(),))
    }

    /// Returns the shape of an observation.
    fn row_shape(&self) -> &[usize] {
        let column = self.columns.schema().obs().first();
        column.map_or(&[], |column| column.field.shape.as_slice())
    }

    /// Returns the mean and the divisor of standardisation.
    fn moments<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let missing = || {
            let message = "observations are whole numbers, expected float ones to normalise";
            errors::new(py, ErrorClass::Config, message)
        };
        let moments = self.read_dataset(py, |data| data.standardizer(0).cloned())?;
        let moments: Standardizer = moments.ok_or_else(missing)?;
        Ok((self.row_array(py, moments.mean())?, self.row_array(py, &moments.scale())?))
    }
}
