//! Outputs of acting: actions in Python's arrays, and the episodes that ended.

use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use rlox_core::policy::ActionsMut;
use rlox_core::rollout::Ended;
use rlox_nn::cpu::Kind;

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
    pub(super) fn of(given: &Bound<'py, PyAny>, kind: Kind, rows: &[usize]) -> PyResult<Self> {
        match kind {
            Kind::Choices(_) => coerce::output(given, "actions", rows).map(Self::Choices),
            Kind::Numbers(size) | Kind::Sde(size) => {
                coerce::output(given, "actions", &[rows, &[size]].concat()).map(Self::Vectors)
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
pub(super) fn episodes(py: Python<'_>, ended: Ended) -> PyResult<Option<Episodes<'_>>> {
    let Ended { finals, obs, episodes } = ended;
    if finals.is_empty() {
        return Ok(None);
    }
    let shape = [finals.len(), obs.len() / finals.len()];
    let steps = finals.iter().map(|end| count(end.step as u64));
    let envs = finals.iter().map(|end| count(end.env as u64));
    let lengths = episodes.iter().map(|episode| count(episode.steps));
    let totals = episodes.iter().map(|episode| episode.total);
    Ok(Some((
        PyArray1::from_vec(py, steps.collect()),
        PyArray1::from_vec(py, envs.collect()),
        PyArray1::from_vec(py, obs).reshape(shape)?,
        PyArray1::from_vec(py, totals.collect()),
        PyArray1::from_vec(py, lengths.collect()),
    )))
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
