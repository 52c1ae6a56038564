//! Group-relative advantages for Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::llm::group::{self, Scale, Scaling};
use rlox_core::math::Float;

use super::rows::row_len;
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::detached;
use crate::errors::OrRaise;
use crate::memory::views::{Plain, ViewMut, has_dtype};

/// Advantages of one group of completions: each reward relative to the others of its group.
///
/// (r - mean) / (std + eps), as in GRPO (Shao et al. 2024). A group whose population standard
/// deviation is at most 4 units of rounding of its first reward has no spread; its advantages are
/// exactly 0. Advantages are also 0 if the divisor is the standard deviation of at most `ddof`
/// rewards. TRL 1.16 uses `ddof=1, eps=1e-4`, and divides the rounding error of a group without
/// spread by 1e-4.
///
/// Args:
///     rewards: one per completion, `[G]`, finite.
///     scale: "group" divides by the standard deviation; "none" does not (Dr. GRPO, Liu et al.
///         2025); "batch" is "group", since one group is the batch.
///     ddof: the divisor of the variance is G - ddof; 0 or more.
///     eps: added to the standard deviation; 0 or more; unused if `scale` is "none".
///
/// Returns:
///     `[G]`: float32 if rewards is a float32 array, else float64.
///
/// Raises:
///     ShapeError: rewards is not `[G]` or not numeric.
///     NonFiniteError: a reward is NaN or infinite.
///     ConfigError: ddof or eps is out of range.
///     UnknownNameError: the scale does not exist.
#[pyfunction]
#[pyo3(
    signature = (rewards, *, scale="group", ddof=0, eps=0.0)
)]
pub(crate) fn compute_group_advantages<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arg::text::scale)] scale: &str,
    #[pyo3(from_py_with = arg::size::ddof)] ddof: usize,
    #[pyo3(from_py_with = arg::number::eps)] eps: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let scaling = parse_scaling(py, scale, ddof, eps)?;
    let rewards = coerce::array(rewards, "rewards")?;
    coerce::check_ndim(&rewards, "rewards", &["G"])?;
    // An empty group is an empty batch of groups of one.
    run(py, &rewards, rewards.len().max(1), scaling)
}

/// Advantages of several groups of the same number of completions.
///
/// The same as `compute_group_advantages`, group by group. `scale="batch"` centres by group and
/// divides by the standard deviation of all rewards of the batch, as TRL does with
/// `scale_rewards="batch"`; `ddof=1, eps=1e-4` gives TRL's numbers.
///
/// Args:
///     rewards: group after group, `[n_groups * group_size]` or `[n_groups, group_size]`, finite.
///     group_size: completions per group; may be omitted if rewards is `[n_groups, group_size]`.
///     scale: "group", "batch" or "none".
///     ddof: the divisor of the variance of n rewards is n - ddof; 0 or more.
///     eps: added to the standard deviation; 0 or more; unused if `scale` is "none".
///
/// Returns:
///     The advantages, shape of rewards: float32 if rewards is a float32 array, else float64.
///
/// Raises:
///     ShapeError: rewards has another shape or is not numeric.
///     NonFiniteError: a reward is NaN or infinite.
///     ConfigError: group_size, ddof or eps is out of range.
///     UnknownNameError: the scale does not exist.
#[pyfunction]
#[pyo3(
    signature = (rewards, group_size=None, *, scale="group", ddof=0, eps=0.0)
)]
pub(crate) fn compute_batch_group_advantages<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyAny>,
    group_size: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::text::scale)] scale: &str,
    #[pyo3(from_py_with = arg::size::ddof)] ddof: usize,
    #[pyo3(from_py_with = arg::number::eps)] eps: f64,
) -> PyResult<Bound<'py, PyAny>> {
    let scaling = parse_scaling(py, scale, ddof, eps)?;
    let rewards = coerce::array(rewards, "rewards")?;
    let group_size = row_len(&rewards, "rewards", group_size, "group_size", "n_groups")?;
    run(py, &rewards, group_size, scaling)
}

fn parse_scaling(py: Python<'_>, scale: &str, ddof: usize, eps: f64) -> PyResult<Scaling> {
    Scale::from_name(scale).and_then(|scale| Scaling::new(scale, ddof, eps)).or_raise(py)
}

fn run<'py>(
    py: Python<'py>,
    rewards: &Bound<'py, PyUntypedArray>,
    group_size: usize,
    scaling: Scaling,
) -> PyResult<Bound<'py, PyAny>> {
    if has_dtype::<f32>(rewards) {
        run_as::<f32>(py, rewards, group_size, scaling)
    } else {
        run_as::<f64>(py, rewards, group_size, scaling)
    }
}

fn run_as<'py, F: Plain + Float>(
    py: Python<'py>,
    rewards: &Bound<'py, PyUntypedArray>,
    group_size: usize,
    scaling: Scaling,
) -> PyResult<Bound<'py, PyAny>> {
    let view = coerce::numbers::<F>(rewards, "rewards")?;
    let mut out = ViewMut::<F>::fresh(py, rewards.shape())?;
    let (values, output) = (view.slice(), out.slice_mut());
    detached(py, values.len(), || group::group_advantages(values, group_size, scaling, output))?;
    Ok(out.into_array().into_any())
}
