//! The vectors that an update changes, and its results.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_nn::cpu::losses::Terms;
use rlox_nn::cpu::optim::{Adam, Optimizer, RmsProp};
use rlox_nn::cpu::{Number, PpoUpdate, TrainState};

use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::errors::{self, ErrorClass, ReplaceRefusal};
use crate::memory::views::{Plain, ViewMut};

/// The vectors that an update changes.
pub(super) struct TrainStateArgs<'a, 'py> {
    pub(super) parameters: &'a Bound<'py, PyAny>,
    pub(super) first: &'a Bound<'py, PyAny>,
    pub(super) second: OptionalArg<'a, 'py>,
    pub(super) steps: &'a Bound<'py, PyAny>,
}

pub(super) type Vectors<'py, F> = (ViewMut<'py, F>, ViewMut<'py, F>, Option<ViewMut<'py, F>>);

impl<'py> TrainStateArgs<'_, 'py> {
    /// Views the parameters, the first moments, and the second moments if there are any.
    pub(super) fn views<F: Plain>(&self, names: [&str; 2], len: usize) -> PyResult<Vectors<'py, F>> {
        let second = self.second.map(|second| coerce::output(second, names[1], &[len]));
        Ok((
            coerce::output(self.parameters, "parameters", &[len])?,
            coerce::output(self.first, names[0], &[len])?,
            second.transpose()?,
        ))
    }

    /// Returns the counter of steps, and the number in it.
    pub(super) fn step_counter(&self) -> PyResult<(ViewMut<'py, i64>, u64)> {
        read_step_counter(self.steps)
    }
}

/// A parameter vector and its Adam state, as Python passes them: parameters, first and second
/// moments, `[len]`, and the number of steps so far, int64 `[1]`.
pub(super) struct AdamState<'py, F> {
    parameters: ViewMut<'py, F>,
    moments: [ViewMut<'py, F>; 2],
    counter: ViewMut<'py, i64>,
    steps: u64,
}

impl<'py, F: Number + Plain> AdamState<'py, F> {
    /// Reads the four arrays, which messages call `name`.
    pub(super) fn read(value: &Bound<'py, PyAny>, name: &str, len: usize) -> PyResult<Self> {
        let py = value.py();
        let [parameters, first, second, steps] =
            value.extract::<[Bound<'py, PyAny>; 4]>().replace_refusal(py, |_| {
                let message = format!(
                    "{name} is {}, expected four arrays: parameters, exp_avg, exp_avg_sq, steps",
                    coerce::short_repr(value)
                );
                errors::new(py, ErrorClass::Config, message)
            })?;
        let vector =
            |array: &Bound<'py, PyAny>, of: &str| coerce::output(array, &format!("{of} of {name}"), &[len]);
        let (vectors, second) = (
            [vector(&parameters, "parameters")?, vector(&first, "exp_avg")?],
            vector(&second, "exp_avg_sq")?,
        );
        let [parameters, first] = vectors;
        let (counter, steps) = read_step_counter(&steps)?;
        Ok(Self { parameters, moments: [first, second], counter, steps })
    }

    /// Returns the state for an engine, with Adam's epsilon `eps`.
    pub(super) fn for_engine(&mut self, eps: f64) -> TrainState<'_, F> {
        let [exp_avg, exp_avg_sq] = &mut self.moments;
        let (exp_avg, exp_avg_sq) = (exp_avg.slice_mut(), exp_avg_sq.slice_mut());
        let (rule, steps) = (Adam::new(eps), &mut self.steps);
        let optimizer = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps };
        TrainState { parameters: self.parameters.slice_mut(), optimizer }
    }

    /// Writes the number of steps, also after a failure or an interrupt, because the completed
    /// steps stay.
    pub(super) fn write_steps(mut self) {
        write_step_counter(&mut self.counter, self.steps);
    }
}

/// Returns A2C's optimizer: Adam if there are second moments, else RMSprop. Both use the epsilon of
/// `rule`.
pub(super) fn make_optimizer<'a, F>(
    rule: RmsProp,
    first: &'a mut [F],
    second: Option<&'a mut [F]>,
    steps: &'a mut u64,
) -> Optimizer<'a, F> {
    match second {
        Some(exp_avg_sq) => Optimizer::Adam { rule: Adam::new(rule.eps), exp_avg: first, exp_avg_sq, steps },
        None => Optimizer::RmsProp { rule, square_avg: first, steps },
    }
}

/// Returns the counter of steps, and the number in it.
fn read_step_counter<'py>(steps: &Bound<'py, PyAny>) -> PyResult<(ViewMut<'py, i64>, u64)> {
    let mut counter: ViewMut<'py, i64> = coerce::output(steps, "steps", &[1])?;
    let so_far = counter.slice_mut().first().copied().unwrap_or(0);
    let Ok(so_far) = u64::try_from(so_far) else {
        let message = format!("steps is {so_far}, expected at least 0");
        return Err(errors::new(steps.py(), ErrorClass::Config, message));
    };
    Ok((counter, so_far))
}

/// Writes the number of steps.
pub(super) fn write_step_counter(counter: &mut ViewMut<'_, i64>, steps: u64) {
    if let [place] = counter.slice_mut() {
        *place = i64::try_from(steps).unwrap_or(i64::MAX);
    }
}

pub(super) fn ppo_update_dict<'py>(py: Python<'py>, update: &PpoUpdate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    set_loss_terms(&dict, &update.terms.terms)?;
    for (name, value) in [
        ("approx_kl", update.terms.approx_kl),
        ("clip_fraction", update.terms.clip_fraction),
        ("grad_norm", update.grad_norm),
    ] {
        dict.set_item(name, value)?;
    }
    for (name, count) in [("epochs", update.epochs), ("steps", update.steps), ("samples", update.samples)] {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}

pub(super) fn set_loss_terms(dict: &Bound<'_, PyDict>, terms: &Terms) -> PyResult<()> {
    dict.set_item("policy", terms.policy)?;
    dict.set_item("value", terms.value)?;
    dict.set_item("entropy", terms.entropy)?;
    dict.set_item("total", terms.total)
}
