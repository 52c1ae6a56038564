//! The vectors that an update changes, and what it tells.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_nn::cpu::PpoUpdate;
use rlox_nn::cpu::losses::Terms;

use crate::convert::coerce;
use crate::convert::coerce::Given;
use crate::errors::{self, Class};
use crate::memory::views::{Plain, ViewMut};

/// The vectors that an update changes.
pub(super) struct State<'a, 'py> {
    pub(super) parameters: &'a Bound<'py, PyAny>,
    pub(super) first: &'a Bound<'py, PyAny>,
    pub(super) second: Given<'a, 'py>,
    pub(super) steps: &'a Bound<'py, PyAny>,
}

pub(super) type Vectors<'py, F> = (ViewMut<'py, F>, ViewMut<'py, F>, Option<ViewMut<'py, F>>);

impl<'py> State<'_, 'py> {
    /// Parameters, first moments, and second ones where there are some.
    pub(super) fn views<F: Plain>(
        &self,
        names: [&str; 2],
        len: usize,
    ) -> PyResult<Vectors<'py, F>> {
        let second = self.second.map(|second| coerce::output(second, names[1], &[len]));
        Ok((
            coerce::output(self.parameters, "parameters", &[len])?,
            coerce::output(self.first, names[0], &[len])?,
            second.transpose()?,
        ))
    }

    /// Where steps are counted, and how many there are.
    pub(super) fn counted(&self) -> PyResult<(ViewMut<'py, i64>, u64)> {
        let mut counted: ViewMut<'py, i64> = coerce::output(self.steps, "steps", &[1])?;
        let steps = counted.slice_mut().first().copied().unwrap_or(0);
        let Ok(steps) = u64::try_from(steps) else {
            let message = format!("steps is {steps}, expected at least 0");
            return Err(errors::new(self.steps.py(), Class::Config, message));
        };
        Ok((counted, steps))
    }
}

/// Writes how many steps there are now.
pub(super) fn count(counted: &mut ViewMut<'_, i64>, steps: u64) {
    if let [place] = counted.slice_mut() {
        *place = i64::try_from(steps).unwrap_or(i64::MAX);
    }
}

pub(super) fn told<'py>(py: Python<'py>, update: &PpoUpdate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    put_loss(&dict, &update.terms.terms)?;
    for (name, value) in [
        ("approx_kl", update.terms.approx_kl),
        ("clip_fraction", update.terms.clip_fraction),
        ("grad_norm", update.grad_norm),
    ] {
        dict.set_item(name, value)?;
    }
    for (name, count) in
        [("epochs", update.epochs), ("steps", update.steps), ("samples", update.samples)]
    {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}

pub(super) fn put_loss(dict: &Bound<'_, PyDict>, terms: &Terms) -> PyResult<()> {
    dict.set_item("policy", terms.policy)?;
    dict.set_item("value", terms.value)?;
    dict.set_item("entropy", terms.entropy)?;
    dict.set_item("total", terms.total)
}
