//! The output arrays of a rollout.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use rlox_core::rollout::{Columns, RunningEpisodes};
use rlox_nn::cpu::Architecture;

use super::acting_out::ActionsOut;
use crate::convert::coerce;
use crate::memory::views::ViewMut;

/// The columns of a rollout, and the running episodes.
pub(super) struct RolloutOut<'py> {
    obs: ViewMut<'py, f32>,
    actions: ActionsOut<'py>,
    rewards: ViewMut<'py, f32>,
    terminated: ViewMut<'py, bool>,
    truncated: ViewMut<'py, bool>,
    log_probs: ViewMut<'py, f32>,
    values: ViewMut<'py, f32>,
    next_values: ViewMut<'py, f32>,
    totals: ViewMut<'py, f64>,
    lengths: ViewMut<'py, i64>,
    /// The lengths, as the core counts them.
    core_lengths: Vec<u64>,
    steps: usize,
}

/// The arrays in the order of [`RolloutOut`]'s views.
pub(super) type RolloutArrays<'a, 'py> = [&'a Bound<'py, PyAny>; 10];

impl<'py> RolloutOut<'py> {
    /// Views the arrays for `n` environments with the spaces of these networks. The length of the
    /// rewards is the number of steps.
    pub(super) fn from_arrays(
        arrays: RolloutArrays<'_, 'py>,
        architecture: &Architecture,
        n: usize,
    ) -> PyResult<Self> {
        let [obs, actions, rewards, terminated, truncated, log_probs, values, next_values, totals, lengths] =
            arrays;
        let rows = coerce::array(rewards, "rewards")?;
        coerce::check_ndim(&rows, "rewards", &["T", "n"])?;
        let t = rows.shape().first().copied().unwrap_or(0);
        let mut lengths: ViewMut<'_, i64> = coerce::output(lengths, "lengths", &[n])?;
        let core_lengths = lengths.slice_mut().iter().map(|steps| steps.unsigned_abs()).collect();
        Ok(Self {
            obs: coerce::output(obs, "obs", &[t + 1, n, architecture.obs_dim])?,
            actions: ActionsOut::view(actions, architecture.kind, &[t, n])?,
            rewards: coerce::output(rewards, "rewards", &[t, n])?,
            terminated: coerce::output(terminated, "terminated", &[t, n])?,
            truncated: coerce::output(truncated, "truncated", &[t, n])?,
            log_probs: coerce::output(log_probs, "log_probs", &[t, n])?,
            values: coerce::output(values, "values", &[t + 1, n])?,
            next_values: coerce::output(next_values, "next_values", &[t, n])?,
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

    pub(super) fn parts(&mut self) -> (Columns<'_>, RunningEpisodes<'_>) {
        let columns = Columns {
            obs: self.obs.slice_mut(),
            actions: self.actions.slice_mut(),
            rewards: self.rewards.slice_mut(),
            terminated: self.terminated.slice_mut(),
            truncated: self.truncated.slice_mut(),
            log_probs: self.log_probs.slice_mut(),
            values: self.values.slice_mut(),
            next_values: self.next_values.slice_mut(),
        };
        (columns, RunningEpisodes { totals: self.totals.slice_mut(), steps: &mut self.core_lengths })
    }

    /// Writes the lengths of the running episodes, also after an interrupted rollout.
    pub(super) fn write_lengths(mut self) {
        for (place, &steps) in self.lengths.slice_mut().iter_mut().zip(&self.core_lengths) {
            *place = i64::try_from(steps).unwrap_or(i64::MAX);
        }
    }
}
