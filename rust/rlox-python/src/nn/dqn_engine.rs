//! The native engine of DQN.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::losses::TdLoss;
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{Activation, DqnEngine, DqnSettings, DqnUpdate, Number, QArchitecture, QNetwork};

use super::precision::{ByPrecision, make_engine, match_precision};
use super::rollout_args;
use super::state::{TrainStateArgs, write_step_counter};
use super::transition_args::{TransitionArgs, read_numbers};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_write_lock};
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{Plain, View, ViewMut};

/// Trains a network of action values without torch. Gradients, clipping and optimizer steps work on
/// one vector of parameters, which belongs to the caller.
///
/// The network is a multilayer perceptron with the names and shapes of torch's modules
/// (`q.0.weight` `[out, in]`, `q.0.bias`, `q.2.weight`, ...; dueling `q.shared. ...`,
/// `q.value. ...`, `q.advantage. ...`). Each parameter begins at a multiple of 16 numbers of the
/// vector, in the layout of `rlox.optim.FlatParameters`.
///
/// Args:
///     parameters: names and shapes in the order of the vector.
///     size: number of choices.
///     obs_dim: numbers per observation.
///     hidden: widths of the hidden layers.
///     activation: `tanh`, `relu`, `elu` or `silu`.
///     dueling: compute value and advantage in separate streams (Wang et al. 2016).
///     precision: `f32`, or `f64` for comparisons.
///
/// Raises:
///     UnknownNameError: a parameter or activation does not exist.
///     ShapeError: a parameter has another shape.
///     ConfigError: a precision does not exist, or the parameters have more layers than the
///         widths say.
#[pyclass(name = "DQNEngine", module = "rlox._core", frozen)]
pub(crate) struct PyDqnEngine {
    pub(super) obs_dim: usize,
    /// Length of the parameter vector.
    pub(super) len: usize,
    pub(super) engine: Engine,
}

type Engine = ByPrecision<Shared<DqnEngine<f32>>, Shared<DqnEngine<f64>>>;

#[pymethods]
impl PyDqnEngine {
    #[new]
    #[pyo3(
        signature = (
            parameters, *, size, obs_dim, hidden, activation="relu", dueling=false, precision="f32"
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn new(
        py: Python<'_>,
        parameters: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::size::size)] size: usize,
        #[pyo3(from_py_with = arg::size::obs_dim)] obs_dim: usize,
        hidden: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::text::activation)] activation: &str,
        dueling: bool,
        #[pyo3(from_py_with = arg::text::precision)] precision: &str,
    ) -> PyResult<Self> {
        let layout = rollout_args::read_layout(parameters)?;
        let hidden = rollout_args::read_widths(hidden, "hidden")?;
        let activation = Activation::from_name(activation).or_raise(py)?;
        let architecture = QArchitecture { obs_dim, choices: size, hidden, activation, dueling };
        let net = QNetwork::new(&layout, &architecture).or_raise(py)?;
        let len = layout.len();
        let engine = make_engine!(py, precision, DqnEngine::new(net, layout))?;
        Ok(Self { obs_dim, len, engine })
    }

    /// Takes one step of Adam for each of k batches, along the gradient of E[w loss(Q(s, a) - y)]
    /// with y = R + gamma^m Q'(s', argmax Q'(s', .)) (Mnih et al. 2015), clipped to
    /// `max_grad_norm`.
    ///
    /// Args:
    ///     parameters: the parameter vector, changed in place, like the moments.
    ///     target: the parameters of Q', a vector of the same layout.
    ///     exp_avg: Adam's first moments.
    ///     exp_avg_sq: Adam's second moments.
    ///     steps: number of Adam's steps so far, int64 `[1]`, updated in place, also if the call
    ///         fails.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: choices `[k, rows]`.
    ///     rewards: R, `[k, rows]`.
    ///     next_obs: `[k, rows, obs_dim]`.
    ///     discounts: gamma^m, 0 after a termination, `[k, rows]`.
    ///     errors: output, Q(s, a) - y, `[k, rows]`.
    ///     weights: w, `[k, rows]`; None: 1.
    ///     learning_rate: Adam's step size; its betas are 0.9 and 0.999.
    ///     double: take the argmax of Q(s', .) (van Hasselt et al. 2016).
    ///     loss: `huber` (quadratic up to 1) or `mse`.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     adam_eps: Adam's epsilon.
    ///
    /// Returns:
    ///     Means over the batches: `loss`, `q_mean`, `grad_norm` (before clipping).
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the
    ///         engine.
    ///     ConfigError: an action or a loss does not exist, or a setting is out of range.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, target, exp_avg, exp_avg_sq, steps, obs, actions, rewards, next_obs, discounts, errors,
            weights=None, *, learning_rate, double=false, loss="huber", max_grad_norm=None, adam_eps=1e-8
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        target: &Bound<'py, PyAny>,
        exp_avg: &Bound<'py, PyAny>,
        exp_avg_sq: &Bound<'py, PyAny>,
        steps: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        discounts: &Bound<'py, PyAny>,
        errors: &Bound<'py, PyAny>,
        weights: OptionalArg<'_, 'py>,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        double: bool,
        #[pyo3(from_py_with = arg::text::loss)] loss: &str,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let loss = match loss {
            "huber" => TdLoss::Huber,
            "mse" => TdLoss::Squared,
            _ => {
                let message = format!("loss is {loss:?}, expected huber or mse");
                return Err(errors::new(py, ErrorClass::Config, message));
            }
        };
        let settings = DqnSettings { loss, double, learning_rate, max_grad_norm };
        let columns = TransitionArgs { obs, actions, rewards, next_obs, discounts, weights, errors };
        let state = TrainStateArgs { parameters, first: exp_avg, second: Some(exp_avg_sq), steps };
        let args = (settings, adam_eps);
        let update = match_precision!(&self.engine, |engine| self.learn_as(
            py,
            engine,
            (state, target),
            &columns,
            args
        ))?;
        let dict = PyDict::new(py);
        dict.set_item("loss", update.loss)?;
        dict.set_item("q_mean", update.q_mean)?;
        dict.set_item("grad_norm", update.grad_norm)?;
        Ok(dict)
    }

    /// Length of the parameter vector.
    fn __len__(&self) -> usize {
        self.len
    }
}

impl PyDqnEngine {
    fn learn_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<DqnEngine<F>>,
        (state, target): (TrainStateArgs<'_, 'py>, &Bound<'py, PyAny>),
        columns: &TransitionArgs<'_, 'py>,
        (settings, adam_eps): (DqnSettings, f64),
    ) -> PyResult<DqnUpdate> {
        let views = columns.choices::<F>(self.obs_dim)?;
        let target: View<'_, F> = read_numbers(target, "target", &[self.len])?;
        let mut errors = coerce::output(columns.errors, "errors", &views.shape)?;
        let (mut parameters, mut first, mut second) =
            state.views::<F>(["exp_avg", "exp_avg_sq"], self.len)?;
        let (parameters, exp_avg) = (parameters.slice_mut(), first.slice_mut());
        let exp_avg_sq = second.as_mut().map_or(&mut [][..], ViewMut::slice_mut);
        let (mut counter, mut steps) = state.step_counter()?;
        let (target, batches, errors) = (target.slice(), views.batches(), errors.slice_mut());
        let update = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| {
            let rule = Adam::new(adam_eps);
            let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut steps };
            engine.learn(parameters, target, &mut adam, batches, &settings, errors)
        });
        // The counter is also written after a failure or an interrupt, because the completed steps
        // stay.
        write_step_counter(&mut counter, steps);
        update
    }
}
