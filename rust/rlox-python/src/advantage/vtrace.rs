//! V-trace for Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::advantage::gae::NextValueSource;
use rlox_core::advantage::vtrace::{self, Clip, Input, Out};
use rlox_core::advantage::{Discount, Ends, Flag};
use rlox_core::math::Float;

use super::ends::{EndArgs, EndArrays, with_ends};
use super::gae::make_discount;
use super::gae_call::ArrayPair;
use super::rollout::Rollout;
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::detached;
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{Plain, View, ViewMut};

/// V-trace targets and policy-gradient advantages of off-policy steps.
///
/// With rho_t = min(rho_bar, exp(log_rho_t)) and c_t = lam min(c_bar, exp(log_rho_t)):
/// delta_t = rho_t (r_t + gamma V(s_{t+1}) - V(s_t)), vs_t = V(s_t) + delta_t + gamma c_t (vs_{t+1}
/// - V(s_{t+1})), pg_t = rho_t (r_t + gamma vs_{t+1} - V(s_t)).
/// Nothing follows a termination; after a truncation and after the last step vs_{t+1} is
/// V(s_{t+1}). Source: Espeholt et al. 2018 (IMPALA), eq. 1 and section 4.2, lambda as in remark 2.
///
/// There are two forms, as in `compute_gae`: `dones` and `bootstrap_value`, or `terminated`,
/// `truncated` and `next_values`. A NaN makes the results of its step NaN, and those of earlier
/// steps of the same episode; nothing after an episode's end is read. An infinite ratio that is not
/// clipped spreads infinities or NaN in the same way.
///
/// Args:
///     log_rhos: log of the ratio of target to behaviour probability of the actions, `[T]` or
///         `[T, N]`.
///     rewards: r_t, `[T]` or `[T, N]`.
///     values: V(s_t), likewise.
///     dones: episode ends after step t, likewise, bool or numbers.
///     bootstrap_value: V of the state after the last step, a number for `[T]`, else `[N]`.
///     gamma: discount in [0, 1].
///     rho_bar: largest ratio in delta and pg, at least 0; may be infinite.
///     c_bar: largest ratio in the trace, at least 0; may be infinite.
///     lam: trace decay in [0, 1].
///     terminated: s_{t+1} is terminal, shape of rewards.
///     truncated: the episode was cut after step t, shape of rewards; needs `next_values`.
///     next_values: V(s_{t+1}) of the state that each step reached, shape of rewards; instead of
///         `bootstrap_value`; ignored where terminated.
///
/// Returns:
///     (vs, pg_advantages), each of the shape of rewards: float32 if log_rhos, rewards and values
///     are float32 arrays, else float64.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: a setting is out of range, or arguments contradict each other.
#[pyfunction]
#[pyo3(
    signature = (
        log_rhos, rewards, values, dones=None, bootstrap_value=None,
        gamma=0.99, rho_bar=1.0,
        c_bar=1.0, *, lam=1.0, terminated=None,
        truncated=None, next_values=None
    )
)]
#[expect(clippy::too_many_arguments, reason = "the public signature")]
pub(crate) fn compute_vtrace<'py>(
    py: Python<'py>,
    log_rhos: &Bound<'py, PyAny>,
    rewards: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    dones: OptionalArg<'_, 'py>,
    bootstrap_value: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
    #[pyo3(from_py_with = arg::number::rho_bar)] rho_bar: f64,
    #[pyo3(from_py_with = arg::number::c_bar)] c_bar: f64,
    #[pyo3(from_py_with = arg::number::lam)] lam: f64,
    terminated: OptionalArg<'_, 'py>,
    truncated: OptionalArg<'_, 'py>,
    next_values: OptionalArg<'_, 'py>,
) -> PyResult<ArrayPair<'py>> {
    let rollout = Rollout::read(rewards)?;
    let log_rhos = rollout.read_like_rewards(log_rhos, "log_rhos")?;
    let values = rollout.read_like_rewards(values, "values")?;
    let args = EndArgs { dones, terminated, truncated };
    let ends = EndArrays::read(py, &args, rollout.rewards.shape(), next_values.is_some())?;
    let next = match (next_values, bootstrap_value) {
        (Some(next), None) => NextValues::Values(rollout.read_like_rewards(next, "next_values")?),
        (None, Some(last)) => read_bootstrap(&rollout, last)?,
        (next_arg, _) => {
            let message = if next_arg.is_some() {
                "bootstrap_value and next_values were both given; the last entry of next_values \
                 is bootstrap_value"
            } else {
                "neither bootstrap_value nor next_values was given; pass one"
            };
            return Err(errors::new(py, ErrorClass::Config, message));
        }
    };
    let clip = Clip::new(rho_bar, c_bar).or_raise(py)?;
    let discount = make_discount(py, gamma, lam)?;
    VtraceCall { rollout, log_rhos, values, next, ends, discount, clip }.run(py)
}

/// The source of V(s_{t+1}).
enum NextValues<'py> {
    Values(Bound<'py, PyUntypedArray>),
    Number(f64),
    Row(Bound<'py, PyUntypedArray>),
}

/// Reads one number for `[T]`, or one per environment.
fn read_bootstrap<'py>(rollout: &Rollout<'py>, last: &Bound<'py, PyAny>) -> PyResult<NextValues<'py>> {
    if rollout.rewards.ndim() == 1
        && let Some(number) = coerce::try_real(last)?
    {
        return Ok(NextValues::Number(number));
    }
    let last = coerce::array(last, "bootstrap_value")?;
    coerce::check_shape(&last, "bootstrap_value", &[rollout.n_envs], "one per env")?;
    Ok(NextValues::Row(last))
}

/// A call with parsed arguments.
struct VtraceCall<'py> {
    rollout: Rollout<'py>,
    log_rhos: Bound<'py, PyUntypedArray>,
    values: Bound<'py, PyUntypedArray>,
    next: NextValues<'py>,
    ends: EndArrays<'py>,
    discount: Discount,
    clip: Clip,
}

impl<'py> VtraceCall<'py> {
    fn run(&self, py: Python<'py>) -> PyResult<ArrayPair<'py>> {
        if self.rollout.is_single(&[&self.log_rhos, &self.values]) {
            self.run_as::<f32>(py)
        } else {
            self.run_as::<f64>(py)
        }
    }

    fn run_as<F: Plain + Float>(&self, py: Python<'py>) -> PyResult<ArrayPair<'py>> {
        with_ends!(&self.ends, pair => self.run_kernel::<F, _>(py, pair.ends()))
    }

    fn run_kernel<F: Plain + Float, G: Flag>(
        &self,
        py: Python<'py>,
        ends: Ends<'_, G>,
    ) -> PyResult<ArrayPair<'py>> {
        let log_rhos = coerce::numbers::<F>(&self.log_rhos, "log_rhos")?;
        let rewards = coerce::numbers::<F>(&self.rollout.rewards, "rewards")?;
        let values = coerce::numbers::<F>(&self.values, "values")?;
        let (row, number): (Option<View<'py, F>>, F);
        let next = match &self.next {
            NextValues::Values(next) => {
                row = Some(coerce::numbers(next, "next_values")?);
                NextValueSource::Values(row.as_ref().map_or(&[][..], View::slice))
            }
            NextValues::Row(last) => {
                row = Some(coerce::numbers(last, "bootstrap_value")?);
                NextValueSource::Bootstrap(row.as_ref().map_or(&[][..], View::slice))
            }
            NextValues::Number(last) => {
                number = F::from_f64(*last);
                NextValueSource::Bootstrap(std::slice::from_ref(&number))
            }
        };
        let input = Input {
            log_rhos: log_rhos.slice(),
            rewards: rewards.slice(),
            values: values.slice(),
            next,
            ends,
            n_envs: self.rollout.n_envs,
        };
        let shape = self.rollout.rewards.shape();
        let mut vs = ViewMut::<F>::fresh(py, shape)?;
        let mut pg_advantages = ViewMut::<F>::fresh(py, shape)?;
        let out = Out { value_targets: vs.slice_mut(), pg_advantages: pg_advantages.slice_mut() };
        let (discount, clip) = (self.discount, self.clip);
        detached(py, input.rewards.len() * 3, || vtrace::vtrace(input, discount, clip, out))?;
        Ok((vs.into_array().into_any(), pg_advantages.into_array().into_any()))
    }
}
