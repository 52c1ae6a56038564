//! Fused updates of PPO and A2C.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Result;
use rlox_core::advantage::Discount;
use rlox_core::advantage::gae::Out;
use rlox_core::rollout::{RolloutEnds, RolloutKey};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss};
use rlox_nn::cpu::optim::{Optimizer, RmsProp};
use rlox_nn::cpu::{A2cSettings, Iteration, IterationResult, OnPolicyEngine, PpoSettings};

use super::acting_out::{Episodes, episode_arrays};
use super::policy::PyRolloutPolicy;
use super::precision::ByPrecision;
use super::rollout_args::Order;
use super::rollout_out::RolloutOut;
use super::state::{TrainStateArgs, make_optimizer, ppo_update_dict, set_loss_terms, write_step_counter};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_write_locks};
use crate::env::PyVecEnv;
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::ViewMut;

/// Collects a rollout and learns from it in one call. The results equal those of
/// `RolloutPolicy.collect`, `compute_gae_time_major` and `OnPolicyEngine.ppo` or `.a2c` in
/// sequence, bit for bit.
///
/// Args:
///     policy: the policy that acts; its engine, of precision `f32`, learns.
///     envs: a `VecEnv` with the spaces of the engine.
///     obs: this and the next seven arrays are outputs, as for `RolloutPolicy.collect`.
///     actions: int64 `[T, n]`, or float32 `[T, n, size]`.
///     rewards: float32 `[T, n]`.
///     terminated: bool `[T, n]`.
///     truncated: bool `[T, n]`.
///     log_probs: float32 `[T, n]`.
///     values: float32 `[T + 1, n]`.
///     next_values: float32 `[T, n]`.
///     advantages: output, generalised advantage estimates, float32 `[T, n]`.
///     returns: output, advantages + values, float32 `[T, n]`.
///     totals: sum of the rewards of each running episode so far, float64 `[n]`, updated in place.
///     lengths: number of steps of each running episode so far, int64 `[n]`, updated in place.
///     seed: seed of the run.
///     rollout: number of the rollout in the run.
///     gamma: discount, in [0, 1].
///     lam: lambda of generalised advantage estimation, in [0, 1].
///
/// Raises:
///     ConfigError: `gamma` or `lam` is out of range.
#[pyclass(name = "Iteration", module = "rlox._core", frozen)]
pub(crate) struct PyIteration {
    policy: Py<PyRolloutPolicy>,
    envs: Py<PyVecEnv>,
    /// The arrays that [`RolloutOut`] takes.
    rollout_arrays: [Py<PyAny>; 10],
    /// Advantages and returns.
    estimates: [Py<PyAny>; 2],
    key: RolloutKey,
    discount: Discount,
    /// The ended episodes of a complete rollout.
    ended: Mutex<Option<RolloutEnds>>,
}

#[pymethods]
impl PyIteration {
    #[new]
    #[pyo3(
        signature = (
            policy, envs, obs, actions, rewards, terminated, truncated, log_probs, values, next_values,
            advantages, returns, totals, lengths, *, seed, rollout, gamma, lam
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn new(
        py: Python<'_>,
        policy: Py<PyRolloutPolicy>,
        envs: Py<PyVecEnv>,
        obs: Py<PyAny>,
        actions: Py<PyAny>,
        rewards: Py<PyAny>,
        terminated: Py<PyAny>,
        truncated: Py<PyAny>,
        log_probs: Py<PyAny>,
        values: Py<PyAny>,
        next_values: Py<PyAny>,
        advantages: Py<PyAny>,
        returns: Py<PyAny>,
        totals: Py<PyAny>,
        lengths: Py<PyAny>,
        #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
        #[pyo3(from_py_with = arg::integer::rollout)] rollout: u64,
        #[pyo3(from_py_with = arg::number::gamma)] gamma: f64,
        #[pyo3(from_py_with = arg::number::lam)] lam: f64,
    ) -> PyResult<Self> {
        let discount = Discount::new(gamma, lam).or_raise(py)?;
        let rollout_arrays =
            [obs, actions, rewards, terminated, truncated, log_probs, values, next_values, totals, lengths];
        let (estimates, key) = ([advantages, returns], RolloutKey { seed, rollout });
        Ok(Self { policy, envs, rollout_arrays, estimates, key, discount, ended: Mutex::default() })
    }

    /// Collects a rollout and learns from it with PPO, with one pass for each row of `order`.
    ///
    /// Args:
    ///     parameters: the parameter vector, changed in place, like the next two.
    ///     exp_avg: Adam's first moments.
    ///     exp_avg_sq: Adam's second moments.
    ///     steps: number of Adam's steps so far, int64 `[1]`, updated in place, also if the call
    ///         fails.
    ///     order: indices of rows, `[passes, rows]`; row t * n + i is step t of environment i.
    ///     batch_size: rows of a minibatch; the last of a pass may have fewer.
    ///     learning_rate: Adam's step size; its betas are 0.9 and 0.999.
    ///     clip_eps: limit on how far the ratio of new to old probabilities may move from 1.
    ///     vf_coef: weight of the value loss.
    ///     ent_coef: weight of the entropy.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     clip_vloss: clip the change of values to [-clip_eps, clip_eps].
    ///     normalize_advantages: normalize the advantages of each minibatch.
    ///     target_kl: the passes end at a minibatch whose KL estimate exceeds 1.5 times this value.
    ///     adam_eps: Adam's epsilon.
    ///
    /// Returns:
    ///     The dict of `OnPolicyEngine.ppo`, with `explained_variance` of the returns by the
    ///     values, and `seconds`, the time that the advantages and learning took.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape or dtype, or shares memory with another argument.
    ///     ConfigError: a row does not exist, the batch size is out of range, or the engine has
    ///         another precision.
    ///     NonFiniteError: a column, loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, exp_avg, exp_avg_sq, steps, order, *, batch_size, learning_rate, clip_eps, vf_coef,
            ent_coef, max_grad_norm=None, clip_vloss=false, normalize_advantages=true, target_kl=None,
            adam_eps=1e-5
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn ppo<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        exp_avg: &Bound<'py, PyAny>,
        exp_avg_sq: &Bound<'py, PyAny>,
        steps: &Bound<'py, PyAny>,
        order: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::size::batch_size)] batch_size: usize,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        #[pyo3(from_py_with = arg::number::clip_eps)] clip_eps: f64,
        #[pyo3(from_py_with = arg::number::vf_coef)] vf_coef: f64,
        #[pyo3(from_py_with = arg::number::ent_coef)] ent_coef: f64,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        clip_vloss: bool,
        normalize_advantages: bool,
        #[pyo3(from_py_with = arg::optional_number::target_kl)] target_kl: Option<f64>,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let order = Order::read(order)?;
        let settings = PpoSettings {
            loss: PpoLoss { coefficients: ActorCriticLoss { vf_coef, ent_coef }, clip_eps, clip_vloss },
            learning_rate,
            n_epochs: order.passes,
            batch_size,
            max_grad_norm,
            normalize_advantages,
            target_kl,
        };
        let state = TrainStateArgs { parameters, first: exp_avg, second: Some(exp_avg_sq), steps };
        let (rule, places) = (rule_with_eps(adam_eps), order.pass_rows());
        let iterated = self.run(py, &state, rule, |iteration, engine, parameters, adam| {
            iteration.ppo(engine, parameters, adam, &settings, places)
        })?;
        add_iteration_entries(ppo_update_dict(py, &iterated.update)?, &iterated)
    }

    /// Collects a rollout and learns from it with A2C: one step along the gradient of all rows.
    ///
    /// Args:
    ///     parameters: the parameter vector, changed in place, like the moments.
    ///     first: RMSprop's running means of squared gradients (in TensorFlow's form they begin at
    ///         1), or Adam's first moments.
    ///     second: Adam's second moments; without them the optimizer is RMSprop.
    ///     steps: number of steps so far, int64 `[1]`, updated in place, also if the call fails.
    ///     learning_rate: the step size.
    ///     vf_coef: weight of the value loss.
    ///     ent_coef: weight of the entropy.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     normalize_advantages: normalize the advantages over all rows.
    ///     alpha: decay of RMSprop's running means.
    ///     eps: epsilon of RMSprop or Adam; Adam's betas are 0.9 and 0.999.
    ///     tf_like: put epsilon inside RMSprop's square root.
    ///
    /// Returns:
    ///     The dict of `OnPolicyEngine.a2c`, with `explained_variance` of the returns by the
    ///     values, and `seconds`, the time that the advantages and learning took.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape or dtype, or shares memory with another argument.
    ///     ConfigError: the engine has another precision.
    ///     NonFiniteError: a column, loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, first, second, steps, *, learning_rate, vf_coef, ent_coef, max_grad_norm=None,
            normalize_advantages=false, alpha=0.99, eps=1e-5, tf_like=false
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn a2c<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        first: &Bound<'py, PyAny>,
        second: OptionalArg<'_, 'py>,
        steps: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        #[pyo3(from_py_with = arg::number::vf_coef)] vf_coef: f64,
        #[pyo3(from_py_with = arg::number::ent_coef)] ent_coef: f64,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        normalize_advantages: bool,
        #[pyo3(from_py_with = arg::number::alpha)] alpha: f64,
        #[pyo3(from_py_with = arg::number::eps)] eps: f64,
        tf_like: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let loss = ActorCriticLoss { vf_coef, ent_coef };
        let settings = A2cSettings { loss, learning_rate, max_grad_norm, normalize_advantages };
        let state = TrainStateArgs { parameters, first, second, steps };
        let rule = RmsProp { alpha, eps, tf_like };
        let iterated = self.run(py, &state, rule, |iteration, engine, parameters, optimizer| {
            iteration.a2c(engine, parameters, optimizer, &settings)
        })?;
        let dict = PyDict::new(py);
        set_loss_terms(&dict, &iterated.update.terms)?;
        dict.set_item("grad_norm", iterated.update.grad_norm)?;
        add_iteration_entries(dict, &iterated)
    }

    /// Whether the last call completed its rollout. If it did, an error of that call came from
    /// learning.
    #[getter]
    fn collected(&self) -> bool {
        self.lock_ended().is_some()
    }

    /// The ended episodes of the last call's rollout, in the form that `RolloutPolicy.collect`
    /// returns.
    fn episodes<'py>(&self, py: Python<'py>) -> PyResult<Option<Episodes<'py>>> {
        let ended = self.lock_ended().clone().unwrap_or_default();
        episode_arrays(py, ended)
    }
}

/// Returns a rule that only carries Adam's epsilon.
const fn rule_with_eps(eps: f64) -> RmsProp {
    RmsProp { alpha: 0.0, eps, tf_like: false }
}

impl PyIteration {
    fn lock_ended(&self) -> MutexGuard<'_, Option<RolloutEnds>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Collects and then learns, while nobody else uses the environments or the engine.
    fn run<U: Send>(
        &self,
        py: Python<'_>,
        state: &TrainStateArgs<'_, '_>,
        rule: RmsProp,
        learn: impl FnOnce(
            &mut Iteration<'_>,
            &mut OnPolicyEngine<f32>,
            &mut [f32],
            &mut Optimizer<'_, f32>,
        ) -> Result<IterationResult<U>>
        + Send,
    ) -> PyResult<IterationResult<U>> {
        *self.lock_ended() = None;
        let policy = self.policy.get();
        let (engine, noise_kept) = (policy.engine.get(), policy.noise_kept);
        let ByPrecision::Single(shared_engine) = &engine.engine else {
            let message = "the engine's precision is f64, expected f32";
            return Err(errors::new(py, ErrorClass::Config, message));
        };
        let (shared_envs, n, _) = self.envs.get().parts();
        let mut out = RolloutOut::from_arrays(
            self.rollout_arrays.each_ref().map(|a| a.bind(py)),
            &engine.architecture,
            n,
        )?;
        let rows = [out.steps(), n];
        let [advantages, returns] = self.estimates.each_ref().map(|array| array.bind(py));
        let mut advantages: ViewMut<'_, f32> = coerce::output(advantages, "advantages", &rows)?;
        let mut returns: ViewMut<'_, f32> = coerce::output(returns, "returns", &rows)?;
        let (mut parameters, mut first, mut second) =
            state.views::<f32>(["first moments", "second moments"], engine.len)?;
        let (mut counter, mut steps) = state.step_counter()?;
        let (columns, mut running) = out.parts();
        let estimates = Out { advantages: advantages.slice_mut(), returns: returns.slice_mut() };
        let (key, discount) = (self.key, self.discount);
        let mut iteration = Iteration { columns, estimates, key, noise_kept, discount };
        let (parameters, first) = (parameters.slice_mut(), first.slice_mut());
        let (second, counting) = (second.as_mut().map(ViewMut::slice_mut), &mut steps);
        let iterated = with_write_locks(py, shared_envs, shared_engine, ALWAYS_RELEASE, |envs, engine| {
            let ended = iteration.collect(engine, parameters, envs, &mut running)?;
            *self.lock_ended() = Some(ended);
            let mut optimizer_state = make_optimizer(rule, first, second, counting);
            learn(&mut iteration, engine, parameters, &mut optimizer_state)
        });
        // The counters are also written after a failure or an interrupt, because completed steps
        // stay.
        out.write_lengths();
        write_step_counter(&mut counter, steps);
        iterated
    }
}

/// Adds the fused update's own entries to the dict of an update.
fn add_iteration_entries<'py, U>(
    dict: Bound<'py, PyDict>,
    iterated: &IterationResult<U>,
) -> PyResult<Bound<'py, PyDict>> {
    dict.set_item("explained_variance", iterated.explained_variance)?;
    dict.set_item("seconds", iterated.learning_time.as_secs_f64())?;
    Ok(dict)
}
