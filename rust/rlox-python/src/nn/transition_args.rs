//! Batches of transitions, as Python passes them.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use rlox_nn::cpu::{Batches, Number, TransitionBatches};

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
}

/// The same columns as slices.
pub(super) struct TransitionViews<'py, F> {
    /// Numbers of batches and of rows per batch.
    pub(super) shape: [usize; 2],
    obs: [View<'py, F>; 2],
    actions: Actions<'py, F>,
    rewards_and_discounts: [View<'py, F>; 2],
    weights: Option<View<'py, F>>,
}

enum Actions<'py, F> {
    Choices(View<'py, i64>),
    Vectors(View<'py, F>),
}

const SHAPE_REASON: &str = "as the engine and the rewards require";

impl<'py> TransitionArgs<'_, 'py> {
    /// Reads the columns. An action is a vector of `action_dim` numbers, or a choice if that is 0.
    pub(super) fn read<F: Number + Plain>(
        &self,
        obs_dim: usize,
        action_dim: usize,
    ) -> PyResult<TransitionViews<'py, F>> {
        let rewards = coerce::array(self.rewards, "rewards")?;
        coerce::check_ndim(&rewards, "rewards", &["k", "rows"])?;
        let [k, rows] = match *rewards.shape() {
            [k, rows] => [k, rows],
            _ => [0, 0],
        };
        let actions = if action_dim == 0 {
            let choices = coerce::array(self.actions, "actions")?;
            coerce::check_shape(&choices, "actions", &[k, rows], SHAPE_REASON)?;
            Actions::Choices(coerce::elements(&choices, "actions", "iu")?)
        } else {
            Actions::Vectors(read_numbers(self.actions, "actions", &[k, rows, action_dim])?)
        };
        Ok(TransitionViews {
            shape: [k, rows],
            obs: [
                read_numbers(self.obs, "obs", &[k, rows, obs_dim])?,
                read_numbers(self.next_obs, "next_obs", &[k, rows, obs_dim])?,
            ],
            actions,
            rewards_and_discounts: [
                read_numbers(self.rewards, "rewards", &[k, rows])?,
                read_numbers(self.discounts, "discounts", &[k, rows])?,
            ],
            weights: self.weights.map(|array| read_numbers(array, "weights", &[k, rows])).transpose()?,
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

impl<F: Plain> TransitionViews<'_, F> {
    pub(super) fn batches(&self) -> TransitionBatches<'_, F> {
        match &self.actions {
            Actions::Choices(choices) => TransitionBatches::Choices(self.batches_with(choices.slice())),
            Actions::Vectors(vectors) => TransitionBatches::Vectors(self.batches_with(vectors.slice())),
        }
    }

    fn batches_with<'a, A>(&'a self, actions: &'a [A]) -> Batches<'a, F, A> {
        let ([obs, next_obs], [rewards, discounts]) = (&self.obs, &self.rewards_and_discounts);
        Batches {
            rows: self.shape[1],
            obs: obs.slice(),
            actions,
            rewards: rewards.slice(),
            next_obs: next_obs.slice(),
            discounts: discounts.slice(),
            weights: self.weights.as_ref().map(View::slice),
        }
    }
}
