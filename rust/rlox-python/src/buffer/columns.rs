//! The columns of a buffer, under their Python names.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString};
use rlox_core::buffer::{BatchKind, BatchPart, ObsField, Schema, Transitions};
use rlox_core::{Error, Field};

use super::incoming::{self, Bytes};
use crate::convert::coerce;
use crate::errors::{self, ErrorClass, OrRaise, ReplaceRefusal};

/// The columns of a buffer and its number of environments. They never change, so calls read them
/// without the buffer's lock.
pub(super) struct Columns {
    schema: Schema,
    n_envs: usize,
    /// Names of the observation columns; None if the observation is one array.
    obs_keys: Vec<Option<Py<PyString>>>,
    column_keys: Vec<Py<PyString>>,
    row_bytes: usize,
    /// A batch dict with keys but no values. It is made for the first batch.
    empty_batch: PyOnceLock<Py<PyDict>>,
}

/// The arguments of a push, in the order of its signature.
pub(super) struct PushArgs<'a, 'py> {
    pub obs: &'a Bound<'py, PyAny>,
    pub actions: &'a Bound<'py, PyAny>,
    pub rewards: &'a Bound<'py, PyAny>,
    pub terminated: &'a Bound<'py, PyAny>,
    pub truncated: &'a Bound<'py, PyAny>,
    pub next_obs: Option<&'a Bound<'py, PyAny>>,
    pub extra: Option<&'a Bound<'py, PyDict>>,
}

impl Columns {
    pub(super) fn new(py: Python<'_>, schema: Schema, n_envs: usize) -> Self {
        let key = |name: &str| PyString::intern(py, name).unbind();
        let obs_keys = schema
            .obs()
            .iter()
            .map(|column| Some(column.field.name.as_str()).filter(|name| !name.is_empty()).map(key));
        let obs: usize = schema.obs().iter().map(|column| column.field.row_bytes()).sum();
        let columns: usize = schema.columns().iter().map(Field::row_bytes).sum();
        Self {
            row_bytes: 2 * obs + columns + 16,
            obs_keys: obs_keys.collect(),
            column_keys: schema.columns().iter().map(|column| key(&column.name)).collect(),
            n_envs,
            schema,
            empty_batch: PyOnceLock::new(),
        }
    }

    pub(super) const fn schema(&self) -> &Schema {
        &self.schema
    }

    pub(super) const fn n_envs(&self) -> usize {
        self.n_envs
    }

    /// Whether observations are dicts.
    pub(super) fn has_dict_obs(&self) -> bool {
        self.obs_keys.first().is_some_and(Option::is_some)
    }

    /// Returns the key of a part of a batch, and the key of the dict that contains it, if there is
    /// one.
    pub(super) fn key<'a, 'py>(
        &'a self,
        py: Python<'py>,
        part: BatchPart,
    ) -> (Option<&'static str>, &'a Bound<'py, PyString>) {
        let obs = |index: usize, name: &'static str, array_key: &'a Bound<'py, PyString>| {
            let key = self.obs_keys.get(index).and_then(Option::as_ref);
            key.map_or((None, array_key), |key| (Some(name), key.bind(py)))
        };
        // Interned keys, because making a key costs as much as copying a few rows.
        let fixed_key = match part {
            BatchPart::Obs(obs_index) => return obs(obs_index, "obs", intern!(py, "obs")),
            BatchPart::NextObs(next_obs_index) => {
                return obs(next_obs_index, "next_obs", intern!(py, "next_obs"));
            }
            BatchPart::Column(column_index) => {
                let key = self.column_keys.get(column_index).map(|key| key.bind(py));
                return (None, key.unwrap_or_else(|| intern!(py, "")));
            }
            BatchPart::Terminated => intern!(py, "terminated"),
            BatchPart::Truncated => intern!(py, "truncated"),
            BatchPart::Indices => intern!(py, "indices"),
            BatchPart::Discounts => intern!(py, "discounts"),
            BatchPart::Weights => intern!(py, "weights"),
            BatchPart::IsFirst => intern!(py, "is_first"),
            BatchPart::ReturnsToGo => intern!(py, "returns_to_go"),
            BatchPart::Timesteps => intern!(py, "timesteps"),
            BatchPart::Mask => intern!(py, "mask"),
        };
        (None, fixed_key)
    }

    /// Returns a dict for a batch. For plain transitions it has its keys already, so that it never
    /// grows.
    pub(super) fn new_batch_dict<'py>(
        &self,
        py: Python<'py>,
        kind: BatchKind,
    ) -> PyResult<Bound<'py, PyDict>> {
        if kind != BatchKind::Transitions {
            return Ok(PyDict::new(py));
        }
        let template = self.empty_batch.get_or_try_init(py, || {
            let dict = PyDict::new(py);
            for part in kind.parts(&self.schema) {
                let (parent_key, key) = self.key(py, part);
                match parent_key {
                    Some(outer_key) => dict.set_item(PyString::intern(py, outer_key), py.None())?,
                    None => dict.set_item(key, py.None())?,
                }
            }
            Ok::<_, PyErr>(dict.unbind())
        })?;
        template.bind(py).copy()
    }

    /// Bytes of one row in a batch, with `obs` and `next_obs`.
    pub(super) const fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Reads `n` rows, or one row without a leading axis if `n` is None, and passes them to
    /// `store`.
    pub(super) fn read<T>(
        &self,
        pushed: PushArgs<'_, '_>,
        n: Option<usize>,
        store: impl FnOnce(Transitions<'_>) -> PyResult<T>,
    ) -> PyResult<T> {
        let lead = n.as_slice();
        let terminated = incoming::flags(pushed.terminated, "terminated", lead)?;
        let truncated = incoming::flags(pushed.truncated, "truncated", lead)?;
        let n = n.unwrap_or(1);
        let rows = Transitions {
            n,
            obs: &[],
            next_obs: None,
            columns: &[],
            terminated: terminated.slice(),
            truncated: truncated.slice(),
        };
        if let ([column], [action, reward], None) = (self.schema.obs(), self.schema.columns(), pushed.extra)
            && !self.has_dict_obs()
        {
            // The common case needs no list on the heap.
            let obs = incoming::read(pushed.obs, "obs", &column.field, lead)?;
            let next = pushed.next_obs.map(|next| incoming::read(next, "next_obs", &column.field, lead));
            let next = next.transpose()?;
            let action = incoming::read(pushed.actions, "action", action, lead)?;
            let reward = incoming::read(pushed.rewards, "reward", reward, lead)?;
            let next = next.as_ref().map(|next| [next.slice()]);
            return store(Transitions {
                obs: &[obs.slice()],
                next_obs: next.as_ref().map(<[&[u8]; 1]>::as_slice),
                columns: &[action.slice(), reward.slice()],
                ..rows
            });
        }
        let obs = self.read_observations(pushed.obs, "obs", lead)?;
        let next = pushed.next_obs.map(|next| self.read_observations(next, "next_obs", lead));
        let next = next.transpose()?;
        let columns = self.read_other_columns(&pushed, lead)?;
        let next = next.as_ref().map(|next| slices(next));
        store(Transitions {
            obs: &slices(&obs),
            next_obs: next.as_deref(),
            columns: &slices(&columns),
            ..rows
        })
    }

    /// Reads one array, or a mapping with one array per observation column.
    fn read_observations<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        name: &str,
        lead: &[usize],
    ) -> PyResult<Vec<Bytes<'py>>> {
        let py = value.py();
        let read = |(column, key): (&ObsField, &Option<Py<PyString>>)| {
            let Some(key) = key else { return incoming::read(value, name, &column.field, lead) };
            let shown = key.bind(py).to_string_lossy();
            let part = value.get_item(key).replace_refusal(py, |_| {
                let message = format!("{name} has no {shown:?}, expected a mapping with that key");
                errors::new(py, ErrorClass::Shape, message)
            })?;
            incoming::read(&part, &format!("{name}[{shown:?}]"), &column.field, lead)
        };
        let parts = self.schema.obs().iter().zip(&self.obs_keys).map(read);
        let parts: Vec<Bytes<'py>> = parts.collect::<PyResult<_>>()?;
        if self.obs_keys.iter().all(Option::is_some) && value.len()? > parts.len() {
            return Err(self.unknown_key_error(value, name));
        }
        Ok(parts)
    }

    /// Returns the error for a mapping of observations that has an unknown key.
    fn unknown_key_error(&self, value: &Bound<'_, PyAny>, name: &str) -> PyErr {
        let known: Vec<&str> = self.schema.obs().iter().map(|obs| obs.field.name.as_str()).collect();
        let keys = value.try_iter().into_iter().flatten().filter_map(Result::ok);
        let mut keys = keys.map(|key| coerce::short_repr(&key));
        let unknown = keys.find(|key| !known.contains(&key.trim_matches('\'')));
        let message =
            format!("{name} has the key {}, expected {known:?} and no other", unknown.unwrap_or_default());
        errors::new(value.py(), ErrorClass::Shape, message)
    }

    /// Reads actions, rewards and the extra columns, all of which are required.
    fn read_other_columns<'py>(
        &self,
        pushed: &PushArgs<'_, 'py>,
        lead: &[usize],
    ) -> PyResult<Vec<Bytes<'py>>> {
        let py = pushed.obs.py();
        let n_extra = pushed.extra.map_or(0, PyDictMethods::len);
        let extras = self.schema.extras();
        if let (true, Some(extra)) = (n_extra > extras.len(), pushed.extra) {
            let unknown = extra
                .keys()
                .iter()
                .find(|key| !extras.iter().any(|field| key.eq(&field.name).unwrap_or(false)));
            let unknown = unknown.map_or(String::new(), |key| coerce::short_repr(&key));
            let known: Vec<&str> = extras.iter().map(|field| field.name.as_str()).collect();
            let error = Error::unknown_name("column", &unknown, &known);
            return Err(error).or_raise(py);
        }
        let mut columns = Vec::with_capacity(extras.len() + 2);
        let fixed = [pushed.actions, pushed.rewards].into_iter().zip(self.schema.columns());
        for ((value, field), name) in fixed.zip(["action", "reward"]) {
            columns.push(incoming::read(value, name, field, lead)?);
        }
        for (field, key) in extras.iter().zip(self.column_keys.iter().skip(2)) {
            let value = match pushed.extra {
                Some(extra) => extra.get_item(key.bind(py))?,
                None => None,
            };
            let value = value.ok_or_else(|| {
                let message = format!("column {} is missing; pass it in extra", field.name);
                errors::new(py, ErrorClass::Shape, message)
            })?;
            columns.push(incoming::read(&value, &field.name, field, lead)?);
        }
        Ok(columns)
    }
}

fn slices<'a>(bytes: &'a [Bytes<'_>]) -> Vec<&'a [u8]> {
    bytes.iter().map(Bytes::slice).collect()
}
