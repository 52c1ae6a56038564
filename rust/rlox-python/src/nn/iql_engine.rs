//! The native engine of implicit Q-learning.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::{Activation, IqlEngine, IqlParameters, IqlSettings, IqlUpdate, Mlp, Number};

use super::actor_critics::{NetworkArgs, Sizes};
use super::precision::{ByPrecision, make_engine, match_precision};
use super::rollout_args;
use super::state::AdamState;
use super::transition_args::TransitionArgs;
use crate::convert::arg;
use crate::convert::coerce;
use crate::detach::{ALWAYS_RELEASE, with_write_lock};
use crate::errors::OrRaise;
use crate::memory::views::Plain;

/// Trains the networks of implicit Q-learning without torch (Kostrikov et al. 2022).
///
/// The actor is a multilayer perceptron with a tanh at its output, which gives the means of normal
/// distributions in [-1, 1]. Its parameters are `log_std` `[size]`, clipped to [-5, 2],
/// `actor.0.weight` `[out, in]`, `actor.0.bias`, ... The critics are stacked like those of a
/// `TD3Engine`. The value network is `value.0.weight`, ... Each parameter begins at a multiple of
/// 16 numbers of its vector, in the layout of `rlox.optim.FlatParameters`.
///
/// Args:
///     actor_parameters: names and shapes in the order of the actor's vector.
///     critic_parameters: names and shapes in the order of the critics' vector.
///     value_parameters: names and shapes in the order of the value network's vector.
///     obs_dim: numbers per observation.
///     size: numbers per action.
///     members: number of critics.
///     actor: widths of the actor's hidden layers.
///     critic: widths of the hidden layers of the critics and the value network.
///     activation: `tanh`, `relu`, `elu` or `silu`.
///     precision: `f32`, or `f64` for comparisons.
///
/// Raises:
///     UnknownNameError: a parameter or activation does not exist.
///     ShapeError: a parameter has another shape.
///     ConfigError: a precision does not exist, or the parameters have more layers than the
///         widths say.
#[pyclass(name = "IQLEngine", module = "rlox._core", frozen)]
pub(crate) struct PyIqlEngine {
    pub(super) sizes: Sizes,
    /// Length of the value network's vector.
    value_len: usize,
    pub(super) engine: Engine,
}

type Engine = ByPrecision<Shared<IqlEngine<f32>>, Shared<IqlEngine<f64>>>;

/// The vectors of the networks and of the target, as Python passes them.
struct Vectors<'a, 'py> {
    actor: &'a Bound<'py, PyAny>,
    critic: &'a Bound<'py, PyAny>,
    value: &'a Bound<'py, PyAny>,
    target: &'a Bound<'py, PyAny>,
}

#[pymethods]
impl PyIqlEngine {
    #[new]
    #[pyo3(
        signature = (
            actor_parameters, critic_parameters, value_parameters, *, obs_dim, size, members, actor, critic,
            activation="relu", precision="f32"
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn new(
        py: Python<'_>,
        actor_parameters: &Bound<'_, PyAny>,
        critic_parameters: &Bound<'_, PyAny>,
        value_parameters: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::size::obs_dim)] obs_dim: usize,
        #[pyo3(from_py_with = arg::size::size)] size: usize,
        #[pyo3(from_py_with = arg::size::members)] members: usize,
        actor: &Bound<'_, PyAny>,
        critic: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::text::activation)] activation: &str,
        #[pyo3(from_py_with = arg::text::precision)] precision: &str,
    ) -> PyResult<Self> {
        let network_args = NetworkArgs {
            parameters: [actor_parameters, critic_parameters],
            obs_dim,
            sizes: [size, size],
            members,
            hidden: [actor, critic],
            activation,
        };
        let (sizes, (actor, critics)) = network_args.make_nets(py, &["log_std"])?;
        let layout = rollout_args::read_layout(value_parameters)?;
        let hidden = rollout_args::read_widths(critic, "critic")?;
        let widths = [&[obs_dim], hidden.as_slice(), &[1]].concat();
        let activation = Activation::from_name(activation).or_raise(py)?;
        let value = Mlp::new(&layout, "value", &widths, activation).or_raise(py)?;
        let value_len = layout.len();
        let engine = make_engine!(py, precision, IqlEngine::new(actor, critics, (value, layout)))?;
        Ok(Self { sizes, value_len, engine })
    }

    /// Takes one step of V, then of the actor, the critics and the target critics, for each of k batches
    /// (algorithm 1 of the paper).
    ///
    /// Q' are the target critics. With u = min_i Q'_i(s, a) - V(s), w = min(e^(temperature u),
    /// max_weight) and y = R + gamma^m V(s'), the losses are E[|expectile - 1(u < 0)| u^2] of V,
    /// -E[w log pi(a | s)] of the actor, and sum_i E[(Q_i(s, a) - y)^2] of the critics. w and y use V
    /// after its step.
    ///
    /// Args:
    ///     actor: four arrays, changed in place: the actor's vector, Adam's first and second
    ///         moments, and the number of steps, int64 `[1]`, which also counts the steps of a call
    ///         that fails.
    ///     critic: the same four arrays of the critics.
    ///     value: the same four arrays of V.
    ///     target: the vector of the target critics, changed in place.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: `[k, rows, size]`.
    ///     rewards: R, `[k, rows]`.
    ///     next_obs: `[k, rows, obs_dim]`.
    ///     discounts: gamma^m, 0 after a termination, `[k, rows]`.
    ///     errors: output, mean over the critics of |Q_i(s, a) - y|, `[k, rows]`.
    ///     learning_rate: Adam's step size for the critics and the value network.
    ///     actor_learning_rate: Adam's step size for the actor.
    ///     tau: step size of the target critics towards the critics.
    ///     expectile: the expectile that V estimates.
    ///     temperature: factor of u in w.
    ///     max_weight: upper limit of w.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     adam_eps: Adam's epsilon.
    ///
    /// Returns:
    ///     Means over the batches: `critic`, `value` and `actor` (losses), `q_mean`, `v_mean`,
    ///     `weight` (w), `grad_norm` (of the critics, before clipping).
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the
    ///         engine.
    ///     ConfigError: a setting is out of range.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            actor, critic, value, target, obs, actions, rewards, next_obs, discounts, errors, *, learning_rate,
            actor_learning_rate, tau, expectile, temperature, max_weight, max_grad_norm=None, adam_eps=1e-8
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        actor: &Bound<'py, PyAny>,
        critic: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        target: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        discounts: &Bound<'py, PyAny>,
        errors: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        #[pyo3(from_py_with = arg::number::actor_learning_rate)] actor_learning_rate: f64,
        #[pyo3(from_py_with = arg::number::tau)] tau: f64,
        #[pyo3(from_py_with = arg::number::expectile)] expectile: f64,
        #[pyo3(from_py_with = arg::number::temperature)] temperature: f64,
        #[pyo3(from_py_with = arg::number::max_weight)] max_weight: f64,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings = IqlSettings {
            learning_rate,
            actor_learning_rate,
            max_grad_norm,
            tau,
            expectile,
            temperature,
            max_weight,
        };
        let weights = None;
        let columns = TransitionArgs { obs, actions, rewards, next_obs, discounts, weights, errors };
        let vectors = Vectors { actor, critic, value, target };
        let args = (settings, adam_eps);
        let update =
            match_precision!(&self.engine, |engine| self.learn_as(py, engine, &vectors, &columns, args))?;
        let dict = PyDict::new(py);
        let IqlUpdate { critic, value, actor, q_mean, v_mean, weight, grad_norm, .. } = update;
        for (name, number) in [
            ("critic", critic),
            ("value", value),
            ("actor", actor),
            ("q_mean", q_mean),
            ("v_mean", v_mean),
            ("weight", weight),
            ("grad_norm", grad_norm),
        ] {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }
}

impl PyIqlEngine {
    fn learn_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<IqlEngine<F>>,
        vectors: &Vectors<'_, 'py>,
        columns: &TransitionArgs<'_, 'py>,
        (settings, eps): (IqlSettings, f64),
    ) -> PyResult<IqlUpdate> {
        let views = self.sizes.views::<F>(columns)?;
        let mut errors = coerce::output(columns.errors, "errors", &views.shape)?;
        let [mut actor, mut critic] = self.sizes.adam_states::<F>(vectors.actor, vectors.critic)?;
        let mut value = AdamState::read(vectors.value, "value", self.value_len)?;
        let mut target = coerce::output(vectors.target, "target", &[self.sizes.lens[1]])?;
        let (batches, errors) = (views.batches(), errors.slice_mut());
        let mut parameters = IqlParameters {
            actor: actor.for_engine(eps),
            critic: critic.for_engine(eps),
            value: value.for_engine(eps),
            target: target.slice_mut(),
        };
        let update = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| {
            engine.learn(&mut parameters, batches, &settings, errors)
        });
        actor.write_steps();
        critic.write_steps();
        value.write_steps();
        update
    }
}
