//! Advantage estimation for Python: the signatures and the checks of which arguments go together.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use rlox_core::advantage::Discount;

use super::ends::{EndArgs, EndArrays};
use super::gae_call::{ArrayPair, FlatCall, FlatLayout, GridCall, GridNextValues, Inputs};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::errors::{self, ErrorClass, OrRaise};

/// GAE of one trajectory: advantages A_t and returns A_t + V(s_t), each `[T]`.
///
/// A_t = delta_t + gamma lam (1 - end_t) A_{t+1},
/// delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t).
///
/// There are two forms. In the first, `dones` are episode ends without bootstrap and `last_value`
/// is V of the state after the last step. In the second, `terminated`, `truncated` and
/// `next_values` treat time limits exactly: `next_values` is V of the state that each step reached,
/// after truncation that of the final observation.
///
/// Args:
///     rewards: r_t, `[T]`.
///     values: V(s_t), `[T]`.
///     dones: episode ends after step t, `[T]`, bool or numbers.
///     last_value: V(s_T); must be 0 if `next_values` is passed.
///     gamma: discount in [0, 1].
///     lam: trace decay in [0, 1].
///     terminated: s_{t+1} is terminal, `[T]`.
///     truncated: the episode was cut after step t, `[T]`; needs `next_values`.
///     next_values: V(s_{t+1}), `[T]`; ignored where terminated.
///
/// Returns:
///     (advantages, returns): float32 if rewards and values are float32 arrays, else float64.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: gamma or lam is out of range, or arguments contradict each other.
///     NonFiniteError: a flag is NaN.
#[pyfunction]
#[pyo3(
    signature = (
        rewards, values, dones=None, last_value=0.0,
        gamma=0.99, lam=0.95, *, terminated=None,
        truncated=None, next_values=None
    )
)]
#[expect(clippy::too_many_arguments, reason = "the public signature")]
pub(crate) fn compute_gae<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    dones: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::number::last_value)] last_value: f64,
    #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    #[pyo3(from_py_with = arg::number::lam)] lam: f64,
    terminated: OptionalArg<'_, 'py>,
    truncated: OptionalArg<'_, 'py>,
    next_values: OptionalArg<'_, 'py>,
) -> PyResult<ArrayPair<'py>> {
    if next_values.is_some() && last_value != 0.0 {
        let message = "last_value and next_values were both given; the last entry of next_values \
                       is last_value";
        return Err(errors::new(py, ErrorClass::Config, message));
    }
    let inputs = Inputs::read(rewards, values, &["T"])?;
    let args = EndArgs { dones, terminated, truncated };
    let ends = EndArrays::read(py, &args, inputs.rollout.rewards.shape(), next_values.is_some())?;
    let next_values =
        next_values.map(|next| inputs.rollout.read_like_rewards(next, "next_values")).transpose()?;
    let (discount, layout) = (make_discount(py, gamma, lam)?, FlatLayout::Single { last_value });
    FlatCall { inputs, next_values, ends, discount, layout }.run(py)
}

/// GAE of N trajectories of T steps, flat in env-major order: env 0's T steps, then env 1's, ...
///
/// The same as `compute_gae`, with arrays `[N * T]`.
///
/// Args:
///     rewards: r_t, `[N * T]`.
///     values: V(s_t), `[N * T]`.
///     dones: episode ends after step t, `[N * T]`, bool or numbers.
///     last_values: V of the state after the last step of each env, `[N]`; None means 0.
///     n_steps: T; may be omitted if `last_values` is passed.
///     gamma: discount in [0, 1].
///     lam: trace decay in [0, 1].
///     terminated: s_{t+1} is terminal, `[N * T]`.
///     truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
///     next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.
///
/// Returns:
///     (advantages, returns), each `[N * T]`: float32 if rewards and values are float32, else
///     float64.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: gamma or lam is out of range, or arguments contradict each other.
///     NonFiniteError: a flag is NaN.
#[pyfunction]
#[pyo3(
    signature = (
        rewards, values, dones=None, last_values=None, n_steps=None,
        gamma=0.99, lam=0.95, *, terminated=None,
        truncated=None, next_values=None
    )
)]
#[expect(clippy::too_many_arguments, reason = "the public signature")]
pub(crate) fn compute_gae_batched<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    dones: OptionalArg<'_, 'py>,
    last_values: OptionalArg<'_, 'py>,
    n_steps: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    #[pyo3(from_py_with = arg::number::lam)] lam: f64,
    terminated: OptionalArg<'_, 'py>,
    truncated: OptionalArg<'_, 'py>,
    next_values: OptionalArg<'_, 'py>,
) -> PyResult<ArrayPair<'py>> {
    let args = EndArgs { dones, terminated, truncated };
    let discount = make_discount(py, gamma, lam)?;
    let inputs = Inputs::read(rewards, values, &["N * T"])?;
    parse_batched(py, inputs, &args, last_values, n_steps, discount, next_values)?.run(py)
}

/// Does the same as `compute_gae_batched`, but reads rewards and values as float32 in any case.
///
/// Args:
///     rewards: r_t, `[N * T]`.
///     values: V(s_t), `[N * T]`.
///     dones: episode ends after step t, `[N * T]`, bool or numbers.
///     last_values: V of the state after the last step of each env, `[N]`; None means 0.
///     n_steps: T; may be omitted if `last_values` is passed.
///     gamma: discount in [0, 1].
///     lam: trace decay in [0, 1].
///     terminated: s_{t+1} is terminal, `[N * T]`.
///     truncated: the episode was cut after step t, `[N * T]`; needs `next_values`.
///     next_values: V(s_{t+1}), `[N * T]`; instead of `last_values`.
///
/// Returns:
///     (advantages, returns), each float32 `[N * T]`.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: gamma or lam is out of range, or arguments contradict each other.
///     NonFiniteError: a flag is NaN.
#[pyfunction]
#[pyo3(
    signature = (
        rewards, values, dones=None, last_values=None, n_steps=None,
        gamma=0.99, lam=0.95, *, terminated=None,
        truncated=None, next_values=None
    )
)]
#[expect(clippy::too_many_arguments, reason = "the public signature")]
pub(crate) fn compute_gae_batched_f32<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    dones: OptionalArg<'_, 'py>,
    last_values: OptionalArg<'_, 'py>,
    n_steps: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    #[pyo3(from_py_with = arg::number::lam)] lam: f64,
    terminated: OptionalArg<'_, 'py>,
    truncated: OptionalArg<'_, 'py>,
    next_values: OptionalArg<'_, 'py>,
) -> PyResult<ArrayPair<'py>> {
    let args = EndArgs { dones, terminated, truncated };
    let discount = make_discount(py, gamma, lam)?;
    let inputs = Inputs { is_single: true, ..Inputs::read(rewards, values, &["N * T"])? };
    parse_batched(py, inputs, &args, last_values, n_steps, discount, next_values)?.run(py)
}

/// Resolves the arguments of an env-major call.
fn parse_batched<'py>(
    py: Python<'py>,
    inputs: Inputs<'py>,
    args: &EndArgs<'_, 'py>,
    last_values: OptionalArg<'_, 'py>,
    n_steps: OptionalArg<'_, 'py>,
    discount: Discount,
    next_values: OptionalArg<'_, 'py>,
) -> PyResult<FlatCall<'py>> {
    let config_error = |message: &str| errors::new(py, ErrorClass::Config, message);
    if next_values.is_some() && last_values.is_some() {
        return Err(config_error("last_values and next_values were both given; pass one"));
    }
    let last_values = last_values.map(|last| coerce::array(last, "last_values")).transpose()?;
    if let Some(last) = &last_values {
        coerce::check_ndim(last, "last_values", &["N"])?;
    }
    let n_steps = n_steps.map(|n_steps| coerce::unsigned(n_steps, "n_steps")).transpose()?;
    let n_steps = match (n_steps, &last_values) {
        (Some(n_steps), _) if n_steps > 0 => usize::try_from(n_steps).unwrap_or(usize::MAX),
        (None, Some(last)) if !last.is_empty() => inputs.rollout.rewards.len() / last.len(),
        _ => return Err(config_error("n_steps is missing or 0, expected at least 1, or last_values")),
    };
    let ends = EndArrays::read(py, args, inputs.rollout.rewards.shape(), next_values.is_some())?;
    let next_values =
        next_values.map(|next| inputs.rollout.read_like_rewards(next, "next_values")).transpose()?;
    let layout = FlatLayout::Batched { last_values, n_steps };
    Ok(FlatCall { inputs, next_values, ends, discount, layout })
}

/// GAE of a `[T, N]` rollout, vectorised over the N environments.
///
/// There are two forms, as in `compute_gae`: `next_values` with `terminated` and `truncated` is
/// exact at time limits; with `last_values` and `dones`, V(s_{t+1}) is the next row of `values`.
/// float32 arrays are summed in float32. The error of such a sum grows with 1 / (1 - gamma lam) and
/// is about 1e-6 of the largest value.
///
/// Args:
///     rewards: r_t, `[T, N]`.
///     values: V(s_t), `[T, N]`.
///     next_values: V(s_{t+1}) of the state that each step reached, `[T, N]`: after truncation that
///         of the final observation; ignored after termination.
///     terminated: s_{t+1} is terminal, `[T, N]`.
///     truncated: the episode was cut after step t, `[T, N]`; needs `next_values`.
///     gamma: discount in [0, 1].
///     lam: trace decay in [0, 1].
///     dones: episode ends after step t, `[T, N]`, bool or numbers; instead of `terminated` and
///         `truncated`.
///     last_values: V of the state after the last step of each env, `[N]`; instead of
///         `next_values`.
///     advantages: output for A_t; C-contiguous, of the result's dtype and shape.
///     returns: output for A_t + V(s_t), likewise.
///
/// Returns:
///     (advantages, returns), each `[T, N]`: the arrays that were passed, or new ones; float32 if
///     rewards and values are float32, else float64.
///
/// Raises:
///     ShapeError: an array has another shape, an output has another dtype or layout, or an output
///         shares memory with another argument.
///     ConfigError: gamma or lam is out of range, or arguments contradict each other.
///     NonFiniteError: a flag is NaN.
#[pyfunction]
#[pyo3(
    signature = (
        rewards, values, next_values=None, terminated=None, truncated=None,
        gamma=0.99, lam=0.95, *, dones=None, last_values=None,
        advantages=None, returns=None
    )
)]
#[expect(clippy::too_many_arguments, reason = "the public signature")]
pub(crate) fn compute_gae_time_major<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    next_values: OptionalArg<'_, 'py>,
    terminated: OptionalArg<'_, 'py>,
    truncated: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    #[pyo3(from_py_with = arg::number::lam)] lam: f64,
    dones: OptionalArg<'_, 'py>,
    last_values: OptionalArg<'_, 'py>,
    advantages: OptionalArg<'_, 'py>,
    returns: OptionalArg<'_, 'py>,
) -> PyResult<ArrayPair<'py>> {
    let inputs = Inputs::read(rewards, values, &["T", "N"])?;
    let args = EndArgs { dones, terminated, truncated };
    let ends = EndArrays::read(py, &args, inputs.rollout.rewards.shape(), next_values.is_some())?;
    let next = match (next_values, last_values) {
        (Some(next), None) => GridNextValues::Values(inputs.rollout.read_like_rewards(next, "next_values")?),
        (None, Some(last)) => {
            let (last, n) = (coerce::array(last, "last_values")?, inputs.rollout.n_envs);
            coerce::check_shape(&last, "last_values", &[n], "one per env")?;
            GridNextValues::Bootstrap(last)
        }
        (next_arg, _) => {
            let message = if next_arg.is_some() {
                "last_values and next_values were both given; pass one"
            } else {
                "neither next_values nor last_values was given; pass one"
            };
            return Err(errors::new(py, ErrorClass::Config, message));
        }
    };
    let discount = make_discount(py, gamma, lam)?;
    GridCall { inputs, next, ends, discount }.run(py, advantages, returns)
}

/// Returns gamma and lambda after a check of their ranges.
pub(crate) fn make_discount(py: Python<'_>, gamma: f64, lam: f64) -> PyResult<Discount> {
    Discount::new(gamma, lam).or_raise(py)
}
