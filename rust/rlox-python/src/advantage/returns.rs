//! n-step and lambda-returns for Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::Result as CoreResult;
use rlox_core::advantage::returns::{self, Input};
use rlox_core::advantage::{Discount, Ends, Flag};
use rlox_core::math::Float;

use super::ends::{EndArgs, EndArrays, with_ends};
use super::gae::make_discount;
use super::rollout::Rollout;
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::detached;
use crate::memory::views::{Plain, ViewMut};

/// n-step returns G_t = r_t + ... + gamma^(m-1) r_{t+m-1} + gamma^m V(s_{t+m}).
///
/// m is n, or less where the episode or the array ends first: no window crosses the end of an
/// episode. V(s_{t+m}) is the value of the state that the window's last step reached: 0 after
/// termination, the value of the final observation after truncation. Source: Sutton and Barto 2018,
/// eq. 7.1. The time is proportional to T and does not depend on n. A NaN makes every window that
/// contains it NaN.
///
/// Args:
///     rewards: r_t, `[T]` or `[T, N]`.
///     next_values: V(s_{t+1}) of the state that each step reached, shape of rewards; ignored after
///         termination.
///     n: number of rewards in a window, at least 1.
///     gamma: discount in [0, 1].
///     dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
///     terminated: s_{t+1} is terminal, shape of rewards.
///     truncated: the episode was cut after step t, shape of rewards.
///
/// Returns:
///     The returns, shape of rewards: float32 if rewards and next_values are float32, else float64.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: n or gamma is out of range, or arguments contradict each other.
#[pyfunction]
#[pyo3(
    signature = (
        rewards, next_values, n, gamma=0.99, *, dones=None,
        terminated=None, truncated=None
    )
)]
#[expect(clippy::too_many_arguments, reason = "the public signature")]
pub(crate) fn compute_n_step_returns<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    next_values: &Bound<'py, PyAny>,
    n: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    dones: OptionalArg<'_, 'py>,
    terminated: OptionalArg<'_, 'py>,
    truncated: OptionalArg<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let n = usize::try_from(coerce::unsigned(n, "n")?).unwrap_or(usize::MAX);
    let args = EndArgs { dones, terminated, truncated };
    ReturnsCall::read(py, rewards, next_values, &args)?.run(py, ReturnsKind::NStep { n, gamma })
}

/// lambda-returns G_t = r_t + gamma ((1 - lam) V(s_{t+1}) + lam G_{t+1}).
///
/// After termination V(s_{t+1}) and G_{t+1} are 0. After truncation and after the last step G_{t+1} is
/// V(s_{t+1}). The result equals GAE's advantages plus V(s_t) where V(s_{t+1}) is the next step's
/// value. Sources: Sutton and Barto 2018, eq. 12.3; the recursion is eq. 6 of Hafner et al. 2020
/// (Dreamer). A NaN makes the return of its step NaN, and the returns of earlier steps of the same
/// episode.
///
/// Args:
///     rewards: r_t, `[T]` or `[T, N]`.
///     next_values: V(s_{t+1}) of the state that each step reached, shape of rewards; ignored after
///         termination.
///     gamma: discount in [0, 1].
///     lam: weight of longer returns in [0, 1].
///     dones: episode ends after step t without bootstrap, shape of rewards, bool or numbers.
///     terminated: s_{t+1} is terminal, shape of rewards.
///     truncated: the episode was cut after step t, shape of rewards.
///
/// Returns:
///     The returns, shape of rewards: float32 if rewards and next_values are float32, else float64.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: gamma or lam is out of range, or arguments contradict each other.
#[pyfunction]
#[pyo3(
    signature = (
        rewards, next_values, gamma=0.99, lam=0.95, *,
        dones=None, terminated=None, truncated=None
    )
)]
#[expect(clippy::too_many_arguments, reason = "the public signature")]
pub(crate) fn compute_lambda_returns<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    next_values: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    #[pyo3(from_py_with = arg::number::lam)] lam: f64,
    dones: OptionalArg<'_, 'py>,
    terminated: OptionalArg<'_, 'py>,
    truncated: OptionalArg<'_, 'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let args = EndArgs { dones, terminated, truncated };
    let call = ReturnsCall::read(py, rewards, next_values, &args)?;
    call.run(py, ReturnsKind::Lambda(make_discount(py, gamma, lam)?))
}

/// The kind of returns.
#[derive(Clone, Copy)]
enum ReturnsKind {
    NStep { n: usize, gamma: f64 },
    Lambda(Discount),
}

/// A call with parsed arrays.
struct ReturnsCall<'py> {
    rollout: Rollout<'py>,
    next_values: Bound<'py, PyUntypedArray>,
    ends: EndArrays<'py>,
}

impl<'py> ReturnsCall<'py> {
    fn read(
        py: Python<'py>,
        rewards: &Bound<'py, PyAny>,
        next_values: &Bound<'py, PyAny>,
        ends: &EndArgs<'_, 'py>,
    ) -> PyResult<Self> {
        let rollout = Rollout::read(rewards)?;
        let next_values = rollout.read_like_rewards(next_values, "next_values")?;
        let ends = EndArrays::read(py, ends, rollout.rewards.shape(), true)?;
        Ok(Self { rollout, next_values, ends })
    }

    fn run(&self, py: Python<'py>, kind: ReturnsKind) -> PyResult<Bound<'py, PyAny>> {
        if self.rollout.is_single(&[&self.next_values]) {
            self.run_as::<f32>(py, kind)
        } else {
            self.run_as::<f64>(py, kind)
        }
    }

    fn run_as<F: Plain + Float>(&self, py: Python<'py>, kind: ReturnsKind) -> PyResult<Bound<'py, PyAny>> {
        with_ends!(&self.ends, pair => self.run_kernel::<F, _>(py, kind, pair.ends()))
    }

    fn run_kernel<F: Plain + Float, G: Flag>(
        &self,
        py: Python<'py>,
        kind: ReturnsKind,
        ends: Ends<'_, G>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let rewards = coerce::numbers::<F>(&self.rollout.rewards, "rewards")?;
        let next_values = coerce::numbers::<F>(&self.next_values, "next_values")?;
        let (rewards, next_values) = (rewards.slice(), next_values.slice());
        let input = Input { rewards, next_values, ends, n_envs: self.rollout.n_envs };
        let mut out = ViewMut::<F>::fresh(py, self.rollout.rewards.shape())?;
        let target = out.slice_mut();
        let work = || -> CoreResult<()> {
            match kind {
                ReturnsKind::NStep { n, gamma } => returns::n_step_returns(input, n, gamma, target),
                ReturnsKind::Lambda(discount) => returns::lambda_returns(input, discount, target),
            }
        };
        detached(py, rewards.len() * 5, work)?;
        Ok(out.into_array().into_any())
    }
}
