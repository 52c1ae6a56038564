//! The native engine of PPO and A2C.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer, RmsProp};
use rlox_nn::cpu::{A2cSettings, ActorCritic, Architecture, Number, OnPolicyEngine, PpoSettings, PpoUpdate};

use super::precision::{ByPrecision, make_engine, match_precision};
use super::rollout_args::{self, Order, RolloutArgs};
use super::state::{TrainStateArgs, make_optimizer, ppo_update_dict, set_loss_terms, write_step_counter};
use crate::convert::arg;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_read_lock, with_write_lock};
use crate::errors::OrRaise;
use crate::memory::views::{Plain, ViewMut};

/// Updates an actor and a critic without torch. Gradients, clipping and optimizer steps work on one
/// vector of parameters, which belongs to the caller.
///
/// Networks are multilayer perceptrons with the names and shapes of torch's modules
/// (`actor.0.weight` `[out, in]`, `actor.0.bias`, `actor.2.weight`, ..., `critic. ...`, `log_std`).
/// Each parameter begins at a multiple of 16 numbers of the vector, in the layout of
/// `rlox.optim.FlatParameters`.
///
/// Args:
///     parameters: names and shapes in the order of the vector.
///     kind: `choices` (a softmax), `numbers` (normal, `log_std` `[size]`) or `sde` (gSDE,
///         `log_std` `[features, size]`).
///     size: number of choices, or of numbers per action.
///     obs_dim: numbers per observation.
///     actor: widths of the actor's hidden layers.
///     critic: widths of the critic's hidden layers.
///     activation: `tanh`, `relu`, `elu` or `silu`.
///     precision: `f32`, or `f64` for comparisons.
///
/// Raises:
///     UnknownNameError: a parameter or activation does not exist.
///     ShapeError: a parameter has another shape.
///     ConfigError: a kind or precision does not exist, or the parameters have more layers than the
///         widths say.
#[pyclass(name = "OnPolicyEngine", module = "rlox._core", frozen)]
pub(crate) struct PyOnPolicyEngine {
    pub(super) architecture: Architecture,
    pub(super) net: ActorCritic,
    /// Length of the parameter vector.
    pub(super) len: usize,
    pub(super) engine: Engine,
}

type Engine = ByPrecision<Shared<OnPolicyEngine<f32>>, Shared<OnPolicyEngine<f64>>>;

#[pymethods]
impl PyOnPolicyEngine {
    #[new]
    #[pyo3(
        signature = (
            parameters, *, kind, size, obs_dim, actor, critic, activation="tanh", precision="f32"
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn new(
        py: Python<'_>,
        parameters: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::text::kind)] kind: &str,
        #[pyo3(from_py_with = arg::size::size)] size: usize,
        #[pyo3(from_py_with = arg::size::obs_dim)] obs_dim: usize,
        actor: &Bound<'_, PyAny>,
        critic: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::text::activation)] activation: &str,
        #[pyo3(from_py_with = arg::text::precision)] precision: &str,
    ) -> PyResult<Self> {
        let layout = rollout_args::read_layout(parameters)?;
        let sizes = (kind, size, obs_dim);
        let architecture = rollout_args::read_architecture(py, sizes, (actor, critic), activation)?;
        let net = ActorCritic::new(&layout, &architecture).or_raise(py)?;
        let len = layout.len();
        let engine = make_engine!(py, precision, OnPolicyEngine::new(net.clone(), layout))?;
        Ok(Self { architecture, net, len, engine })
    }

    /// Learns from the rows of a rollout in minibatches, with one pass for each row of `order`.
    ///
    /// With the ratio r of new to old probabilities and the entropy H, it takes one step of Adam for
    /// each minibatch, along the gradient of E[-min(r A, clip(r, 1 - e, 1 + e) A)] + vf_coef
    /// E[(V - R)^2] - ent_coef E[H] (Schulman et al. 2017, eq. 9), clipped to `max_grad_norm`.
    ///
    /// Args:
    ///     parameters: the parameter vector, changed in place, like the next two.
    ///     exp_avg: Adam's first moments.
    ///     exp_avg_sq: Adam's second moments.
    ///     steps: number of Adam's steps so far, int64 `[1]`, updated in place, also if the call
    ///         fails.
    ///     obs: `[rows, obs_dim]`.
    ///     actions: choices `[rows]`, or `[rows, size]`.
    ///     log_probs: log probabilities under the policy that acted, `[rows]`.
    ///     values: V(o) at the time of the action, `[rows]`.
    ///     advantages: `[rows]`.
    ///     returns: targets of V, `[rows]`.
    ///     order: indices of rows, `[passes, n]`.
    ///     batch_size: rows of a minibatch; the last of a pass may have fewer.
    ///     learning_rate: Adam's step size; its betas are 0.9 and 0.999.
    ///     clip_eps: e.
    ///     vf_coef: weight of the value loss.
    ///     ent_coef: weight of the entropy.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     clip_vloss: clip the change of values to [-e, e].
    ///     normalize_advantages: normalize the advantages of each minibatch.
    ///     target_kl: the passes end at a minibatch whose KL estimate exceeds 1.5 times this value.
    ///     adam_eps: Adam's epsilon.
    ///     mask: which choices were allowed, `[rows, size]`.
    ///
    /// Returns:
    ///     Means over the minibatches: `policy`, `value`, `entropy`, `total`, `approx_kl`,
    ///     `clip_fraction`, `grad_norm` (before clipping); and counts: `epochs` (whole passes),
    ///     `steps`, `samples`.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the
    ///         engine.
    ///     ConfigError: an action or a row does not exist, or the batch size is out of range.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, exp_avg, exp_avg_sq, steps, obs, actions, log_probs, values, advantages, returns,
            order, *, batch_size, learning_rate, clip_eps, vf_coef, ent_coef, max_grad_norm=None,
            clip_vloss=false, normalize_advantages=true, target_kl=None, adam_eps=1e-5, mask=None
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
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        log_probs: &Bound<'py, PyAny>,
        values: &Bound<'py, PyAny>,
        advantages: &Bound<'py, PyAny>,
        returns: &Bound<'py, PyAny>,
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
        mask: OptionalArg<'_, 'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings = PpoSettings {
            loss: PpoLoss { coefficients: ActorCriticLoss { vf_coef, ent_coef }, clip_eps, clip_vloss },
            learning_rate,
            n_epochs: 0,
            batch_size,
            max_grad_norm,
            normalize_advantages,
            target_kl,
        };
        let old_policy = Some([log_probs, values]);
        let columns = RolloutArgs { obs, actions, old_policy, advantages, returns, mask };
        let state = TrainStateArgs { parameters, first: exp_avg, second: Some(exp_avg_sq), steps };
        let args = (settings, adam_eps);
        let update =
            match_precision!(&self.engine, |engine| self.ppo_as(py, engine, state, &columns, order, args))?;
        ppo_update_dict(py, &update)
    }

    /// Takes one step along the gradient of -E[log pi(a | o) A] + vf_coef E[(V - R)^2] - ent_coef
    /// E[H] (Mnih et al. 2016, sec. 4) over all rows, clipped to `max_grad_norm`.
    ///
    /// Args:
    ///     parameters: the parameter vector, changed in place, like the moments.
    ///     first: RMSprop's running means of squared gradients (in TensorFlow's form they begin at
    ///         1), or Adam's first moments.
    ///     second: Adam's second moments; without them the optimizer is RMSprop.
    ///     steps: number of steps so far, int64 `[1]`, updated in place, also if the call fails.
    ///     obs: `[rows, obs_dim]`.
    ///     actions: choices `[rows]`, or `[rows, size]`.
    ///     advantages: `[rows]`.
    ///     returns: targets of V, `[rows]`.
    ///     learning_rate: the step size.
    ///     vf_coef: weight of the value loss.
    ///     ent_coef: weight of the entropy.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     normalize_advantages: normalize the advantages over all rows.
    ///     alpha: decay of RMSprop's running means.
    ///     eps: epsilon of RMSprop or Adam; Adam's betas are 0.9 and 0.999.
    ///     tf_like: put epsilon inside RMSprop's square root.
    ///     mask: which choices were allowed, `[rows, size]`.
    ///
    /// Returns:
    ///     `policy`, `value`, `entropy`, `total`, `grad_norm` (before clipping).
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the
    ///         engine.
    ///     ConfigError: an action does not exist.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, first, second, steps, obs, actions, advantages, returns, *, learning_rate, vf_coef,
            ent_coef, max_grad_norm=None, normalize_advantages=false, alpha=0.99, eps=1e-5, tf_like=false,
            mask=None
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
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        advantages: &Bound<'py, PyAny>,
        returns: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        #[pyo3(from_py_with = arg::number::vf_coef)] vf_coef: f64,
        #[pyo3(from_py_with = arg::number::ent_coef)] ent_coef: f64,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        normalize_advantages: bool,
        #[pyo3(from_py_with = arg::number::alpha)] alpha: f64,
        #[pyo3(from_py_with = arg::number::eps)] eps: f64,
        tf_like: bool,
        mask: OptionalArg<'_, 'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let loss = ActorCriticLoss { vf_coef, ent_coef };
        let settings = A2cSettings { loss, learning_rate, max_grad_norm, normalize_advantages };
        let columns = RolloutArgs { obs, actions, old_policy: None, advantages, returns, mask };
        let state = TrainStateArgs { parameters, first, second, steps };
        let rule = RmsProp { alpha, eps, tf_like };
        match_precision!(&self.engine, |engine| self.a2c_as(py, engine, state, &columns, (settings, rule)))
    }

    /// A copy of the clipped gradient of the last minibatch's loss; zeros before the first
    /// minibatch.
    #[getter]
    fn gradient<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match_precision!(&self.engine, |engine| copy_gradient(py, engine, self.len))
    }

    /// Length of the parameter vector.
    fn __len__(&self) -> usize {
        self.len
    }
}

impl PyOnPolicyEngine {
    fn ppo_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<OnPolicyEngine<F>>,
        state: TrainStateArgs<'_, 'py>,
        columns: &RolloutArgs<'_, 'py>,
        order: &Bound<'py, PyAny>,
        (mut settings, adam_eps): (PpoSettings, f64),
    ) -> PyResult<PpoUpdate> {
        let views = columns.read::<F>(&self.architecture)?;
        let order = Order::read(order)?;
        settings.n_epochs = order.passes;
        let (mut parameters, mut first, mut second) =
            state.views::<F>(["exp_avg", "exp_avg_sq"], self.len)?;
        let (parameters, exp_avg) = (parameters.slice_mut(), first.slice_mut());
        let exp_avg_sq = second.as_mut().map_or(&mut [][..], ViewMut::slice_mut);
        let (rows, places) = (views.rows(), order.pass_rows());
        let (mut counter, mut steps) = state.step_counter()?;
        let update = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| {
            let rule = Adam::new(adam_eps);
            let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut steps };
            engine.ppo(parameters, &mut adam, rows, &settings, places)
        });
        // The counter is also written after a failure or an interrupt, because the completed steps
        // stay.
        write_step_counter(&mut counter, steps);
        update
    }

    fn a2c_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<OnPolicyEngine<F>>,
        state: TrainStateArgs<'_, 'py>,
        columns: &RolloutArgs<'_, 'py>,
        (settings, rule): (A2cSettings, RmsProp),
    ) -> PyResult<Bound<'py, PyDict>> {
        let views = columns.read::<F>(&self.architecture)?;
        let (mut parameters, mut first, mut second) = state.views::<F>(["first", "second"], self.len)?;
        let (parameters, first) = (parameters.slice_mut(), first.slice_mut());
        let second = second.as_mut().map(ViewMut::slice_mut);
        let rows = views.rows();
        let (mut counter, mut steps) = state.step_counter()?;
        let update = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| {
            let mut optimizer = make_optimizer(rule, first, second, &mut steps);
            engine.a2c(parameters, &mut optimizer, rows, &settings)
        });
        write_step_counter(&mut counter, steps);
        let update = update?;
        let dict = PyDict::new(py);
        set_loss_terms(&dict, &update.terms)?;
        dict.set_item("grad_norm", update.grad_norm)?;
        Ok(dict)
    }
}

fn copy_gradient<'py, F: Number + Plain>(
    py: Python<'py>,
    engine: &Shared<OnPolicyEngine<F>>,
    len: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut out = ViewMut::<F>::fresh(py, &[len])?;
    let place = out.slice_mut();
    with_read_lock(py, engine, len, |engine| {
        place.copy_from_slice(engine.gradient());
        Ok(())
    })?;
    Ok(out.into_array().into_any())
}
