//! The output arrays of steps for a replay buffer.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::policy::ActionsMut;
use rlox_core::rollout::{RunningEpisodes, TransitionChunk};

use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::errors::{self, ErrorClass, ReplaceRefusal};
use crate::memory::views::{View, ViewMut};

/// The columns of collected steps, and the running episodes.
pub(super) struct StepsOut<'py> {
    obs: ViewMut<'py, f32>,
    next_obs: ViewMut<'py, f32>,
    actions: Actions<'py>,
    rewards: ViewMut<'py, f64>,
    terminated: ViewMut<'py, bool>,
    truncated: ViewMut<'py, bool>,
    totals: ViewMut<'py, f64>,
    lengths: ViewMut<'py, i64>,
    /// The lengths, as the core counts them.
    core_lengths: Vec<u64>,
    steps: usize,
}

impl<'py> StepsOut<'py> {
    /// Views the arrays, in the order of the fields, for `n` environments of these sizes. The
    /// length of the rewards is the number of steps.
    pub(super) fn from_arrays(arrays: [&Bound<'py, PyAny>; 8], sizes: Sizes, n: usize) -> PyResult<Self> {
        let [obs, next_obs, actions, rewards, terminated, truncated, totals, lengths] = arrays;
        let rows = coerce::array(rewards, "rewards")?;
        coerce::check_ndim(&rows, "rewards", &["T", "n"])?;
        let t = rows.shape().first().copied().unwrap_or(0);
        let mut lengths: ViewMut<'_, i64> = coerce::output(lengths, "lengths", &[n])?;
        let core_lengths = lengths.slice_mut().iter().map(|steps| steps.unsigned_abs()).collect();
        Ok(Self {
            obs: coerce::output(obs, "obs", &[t + 1, n, sizes.obs_dim])?,
            next_obs: coerce::output(next_obs, "next_obs", &[t, n, sizes.obs_dim])?,
            actions: Actions::view(actions, sizes.size, &[t, n])?,
            rewards: coerce::output(rewards, "rewards", &[t, n])?,
            terminated: coerce::output(terminated, "terminated", &[t, n])?,
            truncated: coerce::output(truncated, "truncated", &[t, n])?,
            totals: coerce::output(totals, "totals", &[n])?,
            lengths,
            core_lengths,
            steps: t,
        })
    }

    /// Returns T, the number of steps.
    pub(super) const fn steps(&self) -> usize {
        self.steps
    }

    pub(super) fn parts(&mut self) -> (TransitionChunk<'_>, RunningEpisodes<'_>) {
        let columns = TransitionChunk {
            obs: self.obs.slice_mut(),
            next_obs: self.next_obs.slice_mut(),
            actions: self.actions.slice_mut(),
            rewards: self.rewards.slice_mut(),
            terminated: self.terminated.slice_mut(),
            truncated: self.truncated.slice_mut(),
        };
        (columns, RunningEpisodes { totals: self.totals.slice_mut(), steps: &mut self.core_lengths })
    }

    /// Writes the lengths of the running episodes.
    pub(super) fn write_lengths(mut self) {
        for (place, &steps) in self.lengths.slice_mut().iter_mut().zip(&self.core_lengths) {
            *place = i64::try_from(steps).unwrap_or(i64::MAX);
        }
    }
}

/// The sizes that the arrays of acting must have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    pub(super) obs_dim: usize,
    /// Numbers per action; 0 for choices.
    pub(super) size: usize,
    /// Length of the parameter vector.
    pub(super) len: usize,
}

impl Sizes {
    pub(super) fn read_parameters<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<View<'py, f32>> {
        let array = coerce::array(value, "parameters")?;
        coerce::check_shape(&array, "parameters", &[self.len], "the engine's vector")?;
        coerce::numbers(&array, "parameters")
    }

    /// Reads the noise, which has the leading axes `rows`. Choices need no noise.
    pub(super) fn read_noise<'py>(
        &self,
        py: Python<'py>,
        noise_arg: OptionalArg<'_, 'py>,
        rows: &[usize],
    ) -> PyResult<Option<View<'py, f32>>> {
        let Some(array) = noise_arg else {
            if self.size == 0 || rows.contains(&0) {
                return Ok(None);
            }
            let message = "noise is missing, expected standard normal numbers for these actions";
            return Err(errors::new(py, ErrorClass::Shape, message));
        };
        let noise = coerce::array(array, "noise")?;
        let why = "one for each number of an action; choices have none";
        coerce::check_shape(&noise, "noise", &[rows, &[self.size]].concat(), why)?;
        coerce::numbers(&noise, "noise").map(Some)
    }

    /// Reads the bounds to which -1 and 1 are scaled.
    pub(super) fn read_bounds<'py>(&self, value: &Bound<'py, PyAny>) -> PyResult<[View<'py, f32>; 2]> {
        let py = value.py();
        let [low, high] = value.extract::<[Bound<'py, PyAny>; 2]>().replace_refusal(py, |_| {
            let message = format!("bounds is {}, expected two arrays", coerce::short_repr(value));
            errors::new(py, ErrorClass::Config, message)
        })?;
        let read = |bound: &Bound<'py, PyAny>| {
            let array: Bound<'py, PyUntypedArray> = coerce::array(bound, "bounds")?;
            coerce::check_shape(&array, "bounds", &[self.size], "one for each number of an action")?;
            coerce::numbers(&array, "bounds")
        };
        let (low, high): (View<'py, f32>, View<'py, f32>) = (read(&low)?, read(&high)?);
        let mut pairs = low.slice().iter().zip(high.slice());
        match pairs.find(|(low, high)| !(low.is_finite() && high.is_finite() && low <= high)) {
            None => Ok([low, high]),
            Some((low, high)) => {
                let message = format!("bounds has {low} to {high}, expected finite low <= high");
                Err(errors::new(py, ErrorClass::Config, message))
            }
        }
    }

    /// Estimated nanoseconds of acting for n observations, at 20 multiplications and additions per
    /// nanosecond.
    pub(super) const fn acting_nanoseconds(&self, n: usize) -> usize {
        n.saturating_mul(self.len) / 20
    }
}

/// The output array for actions.
pub(super) enum Actions<'py> {
    Choices(ViewMut<'py, i64>),
    Vectors(ViewMut<'py, f32>),
}

impl<'py> Actions<'py> {
    /// Views an array of actions with the leading axes `rows`: vectors of `size` numbers, or
    /// choices.
    pub(super) fn view(value: &Bound<'py, PyAny>, size: usize, rows: &[usize]) -> PyResult<Self> {
        if size == 0 {
            return coerce::output(value, "actions", rows).map(Self::Choices);
        }
        coerce::output(value, "actions", &[rows, &[size]].concat()).map(Self::Vectors)
    }

    pub(super) fn slice_mut(&mut self) -> ActionsMut<'_> {
        match self {
            Self::Choices(view) => ActionsMut::Discrete(view.slice_mut()),
            Self::Vectors(view) => ActionsMut::Box(view.slice_mut()),
        }
    }
}
