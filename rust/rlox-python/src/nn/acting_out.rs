//! Outputs of acting: actions in Python's arrays, and the episodes that ended.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use rlox_core::policy::ActionsMut;
use rlox_core::rollout::RolloutEnds;
use rlox_nn::cpu::ActionKind;

use crate::convert::coerce;
use crate::memory::views::ViewMut;

/// Steps and environments `[k]`, last observations `[k, obs_dim]`, returns and lengths `[k]`.
pub(super) type Episodes<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray2<f32>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<i64>>,
);

/// The output array for actions.
pub(super) enum ActionsOut<'py> {
    Choices(ViewMut<'py, i64>),
    Vectors(ViewMut<'py, f32>),
}

impl<'py> ActionsOut<'py> {
    /// Views an array for actions of this kind, with the leading axes `rows`.
    pub(super) fn view(value: &Bound<'py, PyAny>, kind: ActionKind, rows: &[usize]) -> PyResult<Self> {
        match kind {
            ActionKind::Choices(_) => coerce::output(value, "actions", rows).map(Self::Choices),
            ActionKind::Gaussian(size) | ActionKind::Sde(size) => {
                coerce::output(value, "actions", &[rows, &[size]].concat()).map(Self::Vectors)
            }
        }
    }

    pub(super) fn slice_mut(&mut self) -> ActionsMut<'_> {
        match self {
            Self::Choices(view) => ActionsMut::Discrete(view.slice_mut()),
            Self::Vectors(view) => ActionsMut::Box(view.slice_mut()),
        }
    }
}

/// Returns the episodes as arrays, None if there are none.
pub(super) fn episode_arrays(py: Python<'_>, ended: RolloutEnds) -> PyResult<Option<Episodes<'_>>> {
    let RolloutEnds { positions: finals, obs, episodes } = ended;
    if finals.is_empty() {
        return Ok(None);
    }
    let shape = [finals.len(), obs.len() / finals.len()];
    let steps = finals.iter().map(|end| to_i64(end.step as u64));
    let envs = finals.iter().map(|end| to_i64(end.env as u64));
    let lengths = episodes.iter().map(|episode| to_i64(episode.steps));
    let totals = episodes.iter().map(|episode| episode.total);
    Ok(Some((
        PyArray1::from_vec(py, steps.collect()),
        PyArray1::from_vec(py, envs.collect()),
        PyArray1::from_vec(py, obs).reshape(shape)?,
        PyArray1::from_vec(py, totals.collect()),
        PyArray1::from_vec(py, lengths.collect()),
    )))
}

fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
