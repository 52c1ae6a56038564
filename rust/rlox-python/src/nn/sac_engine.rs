//! The native engine of SAC.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::{Number, SacEngine, SacParameters, SacSettings, SacUpdate, Temperature};

use super::actor_critics::{NetworkArgs, Sizes};
use super::precision::{ByPrecision, make_engine, match_precision};
use super::state::AdamState;
use super::transition_args::TransitionArgs;
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_write_lock};
use crate::memory::views::{Plain, View};

/// Length of the temperature's vector: one number and its padding.
const TEMPERATURE_LEN: usize = 16;

/// Trains a squashed Gaussian policy and its critics without torch (Haarnoja et al. 2018).
///
/// The actor is a multilayer perceptron that gives means and log standard deviations, with
/// parameters `actor.0.weight` `[out, in]`, `actor.0.bias`, `actor.2.weight`, ... The critics are
/// stacked: `weights.0` `[members, out, in]`, `weights.1`, ..., `biases.0` `[members, out]`, ...
/// Each parameter begins at a multiple of 16 numbers of its vector, in the layout of
/// `rlox.optim.FlatParameters`.
///
/// Args:
///     actor_parameters: names and shapes in the order of the actor's vector.
///     critic_parameters: names and shapes in the order of the critics' vector.
///     obs_dim: numbers per observation.
///     size: numbers per action.
///     members: number of critics.
///     actor: widths of the actor's hidden layers.
///     critic: widths of the critics' hidden layers.
///     activation: `tanh`, `relu`, `elu` or `silu`.
///     precision: `f32`, or `f64` for comparisons.
///
/// Raises:
///     UnknownNameError: a parameter or activation does not exist.
///     ShapeError: a parameter has another shape.
///     ConfigError: a precision does not exist, or the parameters have more layers than the
///         widths say.
#[pyclass(name = "SACEngine", module = "rlox._core", frozen)]
pub(crate) struct PySacEngine {
    pub(super) sizes: Sizes,
    pub(super) engine: Engine,
}

type Engine = ByPrecision<Shared<SacEngine<f32>>, Shared<SacEngine<f64>>>;

/// The vectors of the networks and of the target, as Python passes them.
struct Vectors<'a, 'py> {
    actor: &'a Bound<'py, PyAny>,
    critic: &'a Bound<'py, PyAny>,
    target: &'a Bound<'py, PyAny>,
    temperature: OptionalArg<'a, 'py>,
    noise: &'a Bound<'py, PyAny>,
}

/// Settings that are the same in both precisions.
#[derive(Clone, Copy)]
struct LearnArgs {
    settings: SacSettings,
    first: u64,
    eps: f64,
    /// Alpha, or the target entropy if the temperature is learned.
    alpha_or_entropy: f64,
}

#[pymethods]
impl PySacEngine {
    #[new]
    #[pyo3(
        signature = (
            actor_parameters, critic_parameters, *, obs_dim, size, members, actor, critic, activation="relu",
            precision="f32"
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn new(
        py: Python<'_>,
        actor_parameters: &Bound<'_, PyAny>,
        critic_parameters: &Bound<'_, PyAny>,
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
            sizes: [size, size.saturating_mul(2)],
            members,
            hidden: [actor, critic],
            activation,
        };
        let (sizes, (actor, critics)) = network_args.make_nets(py, &[])?;
        let engine = make_engine!(py, precision, SacEngine::new(actor, critics))?;
        Ok(Self { sizes, engine })
    }

    /// Takes one step of the temperature, the critics and the actor for each of k batches.
    ///
    /// With the target critics Q' and y = R + gamma^m (min_i Q'_i(s', a') - alpha log pi(a' | s')),
    /// the losses are -log alpha E[log pi + H] of the temperature, sum_i E[w (Q_i(s, a) - y)^2] / 2
    /// of the critics, and E[alpha log pi - min_i Q_i] of the actor.
    ///
    /// Args:
    ///     actor: four arrays, changed in place: the actor's vector, Adam's first and second
    ///         moments, and the number of steps, int64 `[1]`, which also counts the steps of a call
    ///         that fails.
    ///     critic: the same four arrays of the critics.
    ///     target: the vector of the target critics, changed in place.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: `[k, rows, size]`, in [-1, 1].
    ///     rewards: R, `[k, rows]`.
    ///     next_obs: `[k, rows, obs_dim]`.
    ///     discounts: gamma^m, 0 after a termination, `[k, rows]`.
    ///     errors: output, mean over the critics of |Q_i(s, a) - y|, `[k, rows]`.
    ///     noise: standard normal, `[k, 2, rows, size]`, for the actions in s and in s'.
    ///     weights: w, `[k, rows]`; None: 1.
    ///     temperature: four arrays like the actor's. The vector has 16 numbers, of which the first
    ///         is log alpha. None: alpha is fixed.
    ///     entropy_or_alpha: H with a learned temperature, alpha without.
    ///     first: number of the first batch in the run.
    ///     learning_rate: Adam's step size for all networks.
    ///     tau: step size of the target critics towards the critics.
    ///     target_update_interval: number of batches per step of the target critics.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     adam_eps: Adam's epsilon.
    ///
    /// Returns:
    ///     Means over the batches: losses `critic`, `actor`, `temperature`; `q_mean`, `entropy`,
    ///     `alpha`, `grad_norm` (of the critics, before clipping).
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the
    ///         engine.
    ///     ConfigError: a setting is out of range.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            actor, critic, target, obs, actions, rewards, next_obs, discounts, errors, noise, weights=None,
            temperature=None, *, entropy_or_alpha, first, learning_rate, tau, target_update_interval,
            max_grad_norm=None, adam_eps=1e-8
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        actor: &Bound<'py, PyAny>,
        critic: &Bound<'py, PyAny>,
        target: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        discounts: &Bound<'py, PyAny>,
        errors: &Bound<'py, PyAny>,
        noise: &Bound<'py, PyAny>,
        weights: OptionalArg<'_, 'py>,
        temperature: OptionalArg<'_, 'py>,
        #[pyo3(from_py_with = arg::number::entropy_or_alpha)] entropy_or_alpha: f64,
        #[pyo3(from_py_with = arg::integer::first)] first: u64,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        #[pyo3(from_py_with = arg::number::tau)] tau: f64,
        #[pyo3(from_py_with = arg::integer::target_update_interval)] target_update_interval: u64,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings = SacSettings { learning_rate, max_grad_norm, tau, target_update_interval };
        let columns = TransitionArgs { obs, actions, rewards, next_obs, discounts, weights, errors };
        let vectors = Vectors { actor, critic, target, temperature, noise };
        let args = LearnArgs { settings, first, eps: adam_eps, alpha_or_entropy: entropy_or_alpha };
        let update =
            match_precision!(&self.engine, |engine| self.learn_as(py, engine, &vectors, &columns, args))?;
        let dict = PyDict::new(py);
        for (name, value) in [
            ("critic", update.critic),
            ("actor", update.actor),
            ("temperature", update.temperature),
            ("q_mean", update.q_mean),
            ("entropy", update.entropy),
            ("alpha", update.alpha),
            ("grad_norm", update.grad_norm),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }
}

impl PySacEngine {
    fn learn_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<SacEngine<F>>,
        vectors: &Vectors<'_, 'py>,
        columns: &TransitionArgs<'_, 'py>,
        args: LearnArgs,
    ) -> PyResult<SacUpdate> {
        let views = self.sizes.views::<F>(columns)?;
        let [k, rows] = views.shape;
        let noise: View<'_, F> = self.sizes.read_noise(vectors.noise, &[k, 2, rows])?;
        let mut errors = coerce::output(columns.errors, "errors", &views.shape)?;
        let [mut actor, mut critic] = self.sizes.adam_states::<F>(vectors.actor, vectors.critic)?;
        let mut target = coerce::output(vectors.target, "target", &[self.sizes.lens[1]])?;
        let temperature = vectors.temperature;
        let log_alpha_state =
            temperature.map(|given| AdamState::<F>::read(given, "temperature", TEMPERATURE_LEN));
        let mut log_alpha = log_alpha_state.transpose()?;
        let (batches, errors, noise) = (views.batches(), errors.slice_mut(), noise.slice());
        let mut parameters = SacParameters {
            actor: actor.for_engine(args.eps),
            critic: critic.for_engine(args.eps),
            target: target.slice_mut(),
            temperature: match &mut log_alpha {
                Some(log) => Temperature::Learned {
                    log_alpha: log.for_engine(args.eps),
                    target_entropy: args.alpha_or_entropy,
                },
                None => Temperature::Fixed(args.alpha_or_entropy),
            },
        };
        let update = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| {
            engine.learn(&mut parameters, batches, noise, (&args.settings, args.first), errors)
        });
        actor.write_steps();
        critic.write_steps();
        if let Some(log) = log_alpha {
            log.write_steps();
        }
        update
    }
}
