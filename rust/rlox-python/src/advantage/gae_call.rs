//! GAE calls from Python with parsed arguments: they choose the precision and run the kernel.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::Result as CoreResult;
use rlox_core::advantage::gae::{self, NextValueSource, Out, TimeMajor};
use rlox_core::advantage::{Discount, Ends, Flag};
use rlox_core::math::Float;

use super::ends::{EndArrays, with_ends};
use super::rollout::Rollout;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::detached;
use crate::memory::views::{OutputElement, Plain, View, ViewMut};

/// (advantages, returns).
pub(crate) type ArrayPair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// Rewards and values as arrays, and whether the kernel computes in float32.
pub(crate) struct Inputs<'py> {
    pub(crate) rollout: Rollout<'py>,
    pub(crate) values: Bound<'py, PyUntypedArray>,
    pub(crate) is_single: bool,
}

impl<'py> Inputs<'py> {
    pub(crate) fn read(
        rewards: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        dims: &[&str],
    ) -> PyResult<Self> {
        let rollout = Rollout::read_with_dims(rewards, dims)?;
        let values = rollout.read_like_rewards(values, "values")?;
        let is_single = rollout.is_single(&[&values]);
        Ok(Self { rollout, values, is_single })
    }
}

/// A flat call with parsed arguments.
pub(crate) struct FlatCall<'py> {
    pub(crate) inputs: Inputs<'py>,
    pub(crate) next_values: Option<Bound<'py, PyUntypedArray>>,
    pub(crate) ends: EndArrays<'py>,
    pub(crate) discount: Discount,
    pub(crate) layout: FlatLayout<'py>,
}

/// How a flat array splits into trajectories.
pub(crate) enum FlatLayout<'py> {
    Single { last_value: f64 },
    Batched { last_values: Option<Bound<'py, PyUntypedArray>>, n_steps: usize },
}

impl<'py> FlatCall<'py> {
    pub(crate) fn run(&self, py: Python<'py>) -> PyResult<ArrayPair<'py>> {
        if self.inputs.is_single { self.run_as::<f32>(py) } else { self.run_as::<f64>(py) }
    }

    fn run_as<F: Plain + Float>(&self, py: Python<'py>) -> PyResult<ArrayPair<'py>> {
        with_ends!(&self.ends, pair => self.run_kernel::<F, _>(py, pair.ends()))
    }

    fn run_kernel<F: Plain + Float, G: Flag>(
        &self,
        py: Python<'py>,
        ends: Ends<'_, G>,
    ) -> PyResult<ArrayPair<'py>> {
        let rewards = coerce::numbers::<F>(&self.inputs.rollout.rewards, "rewards")?;
        let values = coerce::numbers::<F>(&self.inputs.values, "values")?;
        let (rewards, values) = (rewards.slice(), values.slice());
        let next = optional_view::<F>(self.next_values.as_ref(), "next_values")?;
        let next = next.as_ref().map(View::slice);
        let discount = self.discount;
        match &self.layout {
            FlatLayout::Single { last_value } => {
                let next = next.map_or(NextValueSource::Bootstrap(*last_value), NextValueSource::Values);
                fill(py, rewards.len(), |out| gae::trajectory(rewards, values, next, ends, discount, out))
            }
            FlatLayout::Batched { last_values, n_steps } => {
                let last = optional_view::<F>(last_values.as_ref(), "last_values")?;
                let zeros = vec![F::from_f64(0.0); rewards.len() / n_steps.max(&1)];
                let last = last.as_ref().map_or(zeros.as_slice(), View::slice);
                let next = next.map_or(NextValueSource::Bootstrap(last), NextValueSource::Values);
                fill(py, rewards.len(), |out| {
                    gae::env_major(rewards, values, next, ends, *n_steps, discount, out)
                })
            }
        }
    }
}

fn optional_view<'py, F: Plain>(
    array: Option<&Bound<'py, PyUntypedArray>>,
    name: &str,
) -> PyResult<Option<View<'py, F>>> {
    array.map(|array| coerce::numbers(array, name)).transpose()
}

/// Allocates advantages and returns, `[len]`, and runs `kernel`, which fills them.
fn fill<F: Plain + Float>(
    py: Python<'_>,
    len: usize,
    kernel: impl FnOnce(Out<'_, F>) -> CoreResult<()> + Send,
) -> PyResult<ArrayPair<'_>> {
    let mut advantages = ViewMut::<F>::fresh(py, &[len])?;
    let mut returns = ViewMut::<F>::fresh(py, &[len])?;
    let out = Out { advantages: advantages.slice_mut(), returns: returns.slice_mut() };
    detached(py, len * 2, || kernel(out))?;
    Ok((advantages.into_array().into_any(), returns.into_array().into_any()))
}

/// A `[T, N]` call with parsed arguments.
pub(crate) struct GridCall<'py> {
    pub(crate) inputs: Inputs<'py>,
    pub(crate) next: GridNextValues<'py>,
    pub(crate) ends: EndArrays<'py>,
    pub(crate) discount: Discount,
}

/// The source of V(s_{t+1}) in a `[T, N]` call.
pub(crate) enum GridNextValues<'py> {
    /// V(s_{t+1}) of each step, `[T, N]`.
    Values(Bound<'py, PyUntypedArray>),
    /// V after the last row of the values, `[N]`.
    Bootstrap(Bound<'py, PyUntypedArray>),
}

impl<'py> GridCall<'py> {
    /// Runs the kernel. It writes into the caller's outputs, or into new ones.
    pub(crate) fn run(
        &self,
        py: Python<'py>,
        advantages: OptionalArg<'_, 'py>,
        returns: OptionalArg<'_, 'py>,
    ) -> PyResult<ArrayPair<'py>> {
        if self.inputs.is_single {
            self.run_as::<f32>(py, advantages, returns)
        } else {
            self.run_as::<f64>(py, advantages, returns)
        }
    }

    fn run_as<F: Plain + Float>(
        &self,
        py: Python<'py>,
        advantages: OptionalArg<'_, 'py>,
        returns: OptionalArg<'_, 'py>,
    ) -> PyResult<ArrayPair<'py>> {
        let rewards = coerce::numbers::<F>(&self.inputs.rollout.rewards, "rewards")?;
        let values = coerce::numbers::<F>(&self.inputs.values, "values")?;
        let next = match &self.next {
            GridNextValues::Values(next) => coerce::numbers::<F>(next, "next_values")?,
            GridNextValues::Bootstrap(last) => coerce::numbers::<F>(last, "last_values")?,
        };
        let mut advantages = self.output::<F>(py, advantages, "advantages")?;
        let mut returns = self.output::<F>(py, returns, "returns")?;
        let next = match &self.next {
            GridNextValues::Values(_) => NextValueSource::Values(next.slice()),
            GridNextValues::Bootstrap(_) => NextValueSource::Bootstrap(next.slice()),
        };
        let slices = (rewards.slice(), values.slice(), next);
        let out = Out { advantages: advantages.slice_mut(), returns: returns.slice_mut() };
        with_ends!(&self.ends, pair => self.run_kernel(py, slices, pair.ends(), out))?;
        Ok((advantages.into_array().into_any(), returns.into_array().into_any()))
    }

    fn run_kernel<F: Plain + Float, G: Flag>(
        &self,
        py: Python<'py>,
        (rewards, values, next): (&[F], &[F], NextValueSource<'_, F, &[F]>),
        ends: Ends<'_, G>,
        out: Out<'_, F>,
    ) -> PyResult<()> {
        let n_envs = self.inputs.rollout.n_envs;
        let input = TimeMajor { rewards, values, next, ends, n_envs };
        let discount = self.discount;
        detached(py, input.rewards.len(), || gae::time_major(input, discount, out))
    }

    fn output<F: OutputElement>(
        &self,
        py: Python<'py>,
        requested: OptionalArg<'_, 'py>,
        name: &str,
    ) -> PyResult<ViewMut<'py, F>> {
        let shape = self.inputs.rollout.rewards.shape();
        match requested {
            Some(array) => coerce::output(array, name, shape),
            None => ViewMut::fresh(py, shape),
        }
    }
}
