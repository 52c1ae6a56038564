//! The state of a buffer as a flat dict of arrays, integers and strings.

use parking_lot::RwLock;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::buffer::{
    DrawState, PrioritizedReplayBuffer, SavedColumn, SavedQueue, SavedStorage, SavedStream,
};

use super::door;
use super::shared::{Held, LONG};
use crate::coerce;
use crate::errors::{self, Class};
use crate::views::Plain;

/// Version of the dict's fields and their meaning.
const FORMAT: u32 = 1;

/// Writes the dict of a prioritized buffer: also p = priority^alpha of each row, in the order of
/// the records.
pub(super) fn save_prioritized<'py>(
    py: Python<'py>,
    buffer: &RwLock<PrioritizedReplayBuffer>,
) -> PyResult<Bound<'py, PyDict>> {
    let mut own = None;
    let dict = save_with(py, buffer, |buffer| {
        let priorities = buffer.priorities();
        own =
            Some((buffer.row_weights(), priorities.alpha(), priorities.beta(), priorities.most()));
    })?;
    if let Some((weights, alpha, beta, most)) = own {
        dict.set_item("priorities", PyArray1::from_vec(py, weights))?;
        dict.set_item("alpha", alpha)?;
        dict.set_item("beta", beta)?;
        dict.set_item("max_priority", most)?;
    }
    Ok(dict)
}

/// Writes the dict.
pub(super) fn save<'py, B: Held>(
    py: Python<'py>,
    buffer: &RwLock<B>,
) -> PyResult<Bound<'py, PyDict>> {
    save_with(py, buffer, |_| {})
}

fn save_with<'py, B: Held>(
    py: Python<'py>,
    buffer: &RwLock<B>,
    more: impl FnOnce(&B) + Send,
) -> PyResult<Bound<'py, PyDict>> {
    let (saved, seed, drawn) = door::reading(py, buffer, LONG, |buffer| {
        more(buffer);
        Ok((buffer.storage().save(), buffer.draws().seed(), buffer.draws().drawn()))
    })?;
    let dict = PyDict::new(py);
    dict.set_item("format", FORMAT)?;
    dict.set_item("schema", saved.schema)?;
    dict.set_item("capacity", saved.capacity)?;
    dict.set_item("n_obs", saved.obs.len())?;
    dict.set_item("seed", seed)?;
    dict.set_item("drawn", drawn)?;
    let column = |name, read: fn(&SavedStream) -> u64| {
        let values: Vec<u64> = saved.streams.iter().map(read).collect();
        dict.set_item(name, PyArray1::from_vec(py, values))
    };
    column("start", |stream| stream.start)?;
    column("pushed", |stream| stream.pushed)?;
    column("head", |stream| stream.head)?;
    column("open", |stream| u64::from(stream.open))?;
    column("begins", |stream| u64::from(stream.begins))?;
    column("n_episodes", |stream| stream.episodes.len() as u64)?;
    let episodes = saved.streams.iter().flat_map(|stream| &stream.episodes).copied();
    dict.set_item("episodes", PyArray1::from_iter(py, episodes))?;
    dict.set_item("stride", saved.stride)?;
    dict.set_item("records", PyArray1::from_vec(py, saved.records))?;
    for (number, column) in saved.obs.into_iter().enumerate() {
        put(&dict, &format!("obs{number}"), column.items)?;
        if let Some(frames) = column.frames {
            put(&dict, &format!("frames{number}"), frames)?;
        }
    }
    Ok(dict)
}

/// Continues from a dict that [`save_prioritized`] wrote, of the same alpha.
pub(super) fn restore_prioritized(
    py: Python<'_>,
    buffer: &RwLock<PrioritizedReplayBuffer>,
    dict: &Bound<'_, PyDict>,
) -> PyResult<()> {
    let weights = coerce::array(&field(dict, "priorities")?, "priorities")?;
    let weights = coerce::numbers::<f64>(&weights, "priorities")?;
    let weights = weights.slice();
    let real = |name| coerce::real(&field(dict, name)?, name);
    let (alpha, beta, most) = (real("alpha")?, real("beta")?, real("max_priority")?);
    restore_with(py, buffer, dict, |buffer, saved| {
        buffer.restore(saved, weights, (alpha, beta), most)
    })
}

/// Continues from a dict that [`save`] wrote.
pub(super) fn restore<B: Held>(
    py: Python<'_>,
    buffer: &RwLock<B>,
    dict: &Bound<'_, PyDict>,
) -> PyResult<()> {
    restore_with(py, buffer, dict, |buffer, saved| buffer.storage_mut().restore(saved))
}

fn restore_with<B: Held>(
    py: Python<'_>,
    buffer: &RwLock<B>,
    dict: &Bound<'_, PyDict>,
    restore: impl FnOnce(&mut B, &SavedStorage) -> rlox_core::Result<()> + Send,
) -> PyResult<()> {
    let format: u32 = scalar(dict, "format")?;
    if format != FORMAT {
        let message = format!("state field format is {format}, expected {FORMAT}");
        return Err(errors::new(py, Class::Checkpoint, message));
    }
    let (seed, drawn): (u64, u64) = (scalar(dict, "seed")?, scalar(dict, "drawn")?);
    let n_obs: usize = scalar(dict, "n_obs")?;
    let column = |number: usize| -> PyResult<SavedColumn> {
        let frames = format!("frames{number}");
        let frames = if dict.contains(&frames)? { Some(take(dict, &frames)?) } else { None };
        Ok(SavedColumn { items: take(dict, &format!("obs{number}"))?, frames })
    };
    let saved = SavedStorage {
        schema: scalar(dict, "schema")?,
        capacity: scalar(dict, "capacity")?,
        streams: streams(dict)?,
        stride: scalar(dict, "stride")?,
        records: array(dict, "records")?,
        obs: (0..n_obs.min(1 << 16)).map(column).collect::<PyResult<_>>()?,
    };
    door::writing(py, buffer, LONG, |buffer| {
        restore(buffer, &saved)?;
        buffer.set_draws(DrawState::at(seed, drawn));
        Ok(())
    })
}

fn streams(dict: &Bound<'_, PyDict>) -> PyResult<Vec<SavedStream>> {
    let read = |name| array::<u64>(dict, name);
    let (starts, pushed, open) = (read("start")?, read("pushed")?, read("open")?);
    let heads = read("head")?;
    let (begins, counts, episodes) = (read("begins")?, read("n_episodes")?, read("episodes")?);
    let lengths = [pushed.len(), heads.len(), open.len(), begins.len(), counts.len()];
    let mut rest = episodes.as_slice();
    let mut streams = Vec::with_capacity(starts.len());
    let parts = starts.iter().zip(&pushed).zip(&heads).zip(&open).zip(&begins).zip(&counts);
    for (((((&start, &pushed), &head), &open), &begins), &count) in parts {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let Some((episodes, later)) = rest.split_at_checked(count) else { break };
        rest = later;
        let (open, begins) = (open != 0, begins != 0);
        streams.push(SavedStream {
            start,
            pushed,
            head,
            open,
            begins,
            episodes: episodes.to_vec(),
        });
    }
    if lengths != [starts.len(); 5] || streams.len() != starts.len() || !rest.is_empty() {
        let message = "state fields start, pushed, head, open, begins, n_episodes and episodes do not \
                       fit together; pass what state() returned";
        return Err(errors::new(dict.py(), Class::Checkpoint, message));
    }
    Ok(streams)
}

fn put(dict: &Bound<'_, PyDict>, name: &str, queue: SavedQueue) -> PyResult<()> {
    let py = dict.py();
    dict.set_item(format!("{name}.width"), queue.width)?;
    dict.set_item(format!("{name}.start"), PyArray1::from_vec(py, queue.starts))?;
    dict.set_item(format!("{name}.end"), PyArray1::from_vec(py, queue.ends))?;
    dict.set_item(name, PyArray1::from_vec(py, queue.rows))
}

fn take(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<SavedQueue> {
    Ok(SavedQueue {
        width: scalar(dict, &format!("{name}.width"))?,
        starts: array(dict, &format!("{name}.start"))?,
        ends: array(dict, &format!("{name}.end"))?,
        rows: array(dict, name)?,
    })
}

fn array<T: Plain>(dict: &Bound<'_, PyDict>, name: &str) -> PyResult<Vec<T>> {
    let array = coerce::array(&field(dict, name)?, name)?;
    coerce::check_ndim(&array, name, &["n"])?;
    Ok(coerce::elements::<T>(&array, name, "iu")?.slice().to_vec())
}

fn field<'py>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    dict.get_item(name)?.ok_or_else(|| {
        let message = format!("state has no field {name}; pass what state() returned");
        errors::new(dict.py(), Class::Checkpoint, message)
    })
}

fn scalar<'py, T>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py>,
{
    let value = field(dict, name)?;
    value.extract().map_err(|_| {
        let message =
            format!("state field {name} is {}, which has the wrong type", coerce::shown(&value));
        errors::new(dict.py(), Class::Checkpoint, message)
    })
}
