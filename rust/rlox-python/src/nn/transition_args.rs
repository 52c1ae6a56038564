//! Batches of transitions, as Python passes them.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use rlox_nn::cpu::{Batches, Number};

use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::memory::views::{Plain, View};

/// Columns `[k, rows, ...]`.
pub(super) struct TransitionArgs<'a, 'py> {
    pub(super) obs: &'a Bound<'py, PyAny>,
    pub(super) actions: &'a Bound<'py, PyAny>,
    pub(super) rewards: &'a Bound<'py, PyAny>,
    pub(super) next_obs: &'a Bound<'py, PyAny>,
    pub(super) discounts: &'a Bound<'py, PyAny>,
    pub(super) weights: OptionalArg<'a, 'py>,
    pub(super) errors: &'a Bound<'py, PyAny>,
}

/// The same columns as slices.
pub(super) struct TransitionViews<'py, F, A> {
    /// Numbers of batches and of rows per batch.
    pub(super) shape: [usize; 2],
    obs: [View<'py, F>; 2],
    actions: View<'py, A>,
    rewards_and_discounts: [View<'py, F>; 2],
    weights: Option<View<'py, F>>,
}

const SHAPE_REASON: &str = "as the engine and the rewards require";

impl<'py> TransitionArgs<'_, 'py> {
    /// Reads the columns with choices as actions.
    pub(super) fn choices<F: Number + Plain>(
        &self,
        obs_dim: usize,
    ) -> PyResult<TransitionViews<'py, F, i64>> {
        self.read(obs_dim, |shape| {
            let actions = coerce::array(self.actions, "actions")?;
            coerce::check_shape(&actions, "actions", &shape, SHAPE_REASON)?;
            coerce::elements(&actions, "actions", "iu")
        })
    }

    /// Reads the columns with vectors of `size` numbers as actions.
    pub(super) fn vectors<F: Number + Plain>(
        &self,
        obs_dim: usize,
        size: usize,
    ) -> PyResult<TransitionViews<'py, F, F>> {
        self.read(obs_dim, |[k, rows]| read_numbers(self.actions, "actions", &[k, rows, size]))
    }

    fn read<F: Number + Plain, A>(
        &self,
        obs_dim: usize,
        actions: impl FnOnce([usize; 2]) -> PyResult<View<'py, A>>,
    ) -> PyResult<TransitionViews<'py, F, A>> {
        let rewards = coerce::array(self.rewards, "rewards")?;
        coerce::check_ndim(&rewards, "rewards", &["k", "rows"])?;
        let shape = match *rewards.shape() {
            [k, rows] => [k, rows],
            _ => [0, 0],
        };
        let obs_shape = [shape[0], shape[1], obs_dim];
        Ok(TransitionViews {
            shape,
            obs: [
                read_numbers(self.obs, "obs", &obs_shape)?,
                read_numbers(self.next_obs, "next_obs", &obs_shape)?,
            ],
            actions: actions(shape)?,
            rewards_and_discounts: [
                read_numbers(self.rewards, "rewards", &shape)?,
                read_numbers(self.discounts, "discounts", &shape)?,
            ],
            weights: self.weights.map(|array| read_numbers(array, "weights", &shape)).transpose()?,
        })
    }
}

/// Reads numbers of this shape.
pub(super) fn read_numbers<'py, F: Plain>(
    value: &Bound<'py, PyAny>,
    name: &str,
    shape: &[usize],
) -> PyResult<View<'py, F>> {
    let array = coerce::array(value, name)?;
    coerce::check_shape(&array, name, shape, SHAPE_REASON)?;
    coerce::numbers(&array, name)
}

impl<F: Plain, A: Plain> TransitionViews<'_, F, A> {
    pub(super) fn batches(&self) -> Batches<'_, F, A> {
        let ([obs, next_obs], [rewards, discounts]) = (&self.obs, &self.rewards_and_discounts);
        Batches {
            rows: self.shape[1],
            obs: obs.slice(),
            actions: self.actions.slice(),
            rewards: rewards.slice(),
            next_obs: next_obs.slice(),
            discounts: discounts.slice(),
            weights: self.weights.as_ref().map(View::slice),
        }
    }
}
