//! The native engine of TD3 and DDPG.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::{Number, Td3Engine, Td3Parameters, Td3Settings, Td3Update};

use super::actor_critics::{NetworkArgs, Sizes};
use super::precision::{ByPrecision, make_engine, match_precision};
use super::transition_args::TransitionArgs;
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_write_lock};
use crate::memory::views::{Plain, View};

/// Trains a deterministic policy and its critics without torch (Fujimoto et al. 2018).
///
/// The actor is a multilayer perceptron with a tanh at its output, which limits actions to [-1, 1],
/// with parameters `actor.0.weight` `[out, in]`, `actor.0.bias`, `actor.2.weight`, ... The critics
/// are stacked: `weights.0` `[members, out, in]`, `weights.1`, ..., `biases.0` `[members, out]`,
/// ... Each parameter begins at a multiple of 16 numbers of its vector, in the layout of
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
#[pyclass(name = "TD3Engine", module = "rlox._core", frozen)]
pub(crate) struct PyTd3Engine {
    pub(super) sizes: Sizes,
    pub(super) engine: Engine,
}

type Engine = ByPrecision<Shared<Td3Engine<f32>>, Shared<Td3Engine<f64>>>;

/// The vectors of the networks and of the targets, as Python passes them.
struct Vectors<'a, 'py> {
    actor: &'a Bound<'py, PyAny>,
    critic: &'a Bound<'py, PyAny>,
    targets: [&'a Bound<'py, PyAny>; 2],
    noise: OptionalArg<'a, 'py>,
}

#[pymethods]
impl PyTd3Engine {
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
            sizes: [size, size],
            members,
            hidden: [actor, critic],
            activation,
        };
        let (sizes, (actor, critics)) = network_args.make_nets(py, &[])?;
        let engine = make_engine!(py, precision, Td3Engine::new(actor, critics))?;
        Ok(Self { sizes, engine })
    }

    /// Takes one step of the critics for each of k batches, along the gradient of sum_i E[w (Q_i(s,
    /// a) - y)^2] with y = R + gamma^m min_i Q'_i(s', clip(mu'(s') + clip(noise))). Every
    /// `policy_delay` batches it also takes one step of the actor, along the gradient of -E[Q_1(s,
    /// mu(s))], and moves the targets.
    ///
    /// Args:
    ///     actor: four arrays, changed in place: the actor's vector, Adam's first and second
    ///         moments, and the number of steps, int64 `[1]`, which also counts the steps of a call
    ///         that fails.
    ///     critic: the same four arrays of the critics.
    ///     target_actor: the vector of the target actor, changed in place.
    ///     target_critic: the vector of the target critics, changed in place.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: `[k, rows, size]`, in [-1, 1].
    ///     rewards: R, `[k, rows]`.
    ///     next_obs: `[k, rows, obs_dim]`.
    ///     discounts: gamma^m, 0 after a termination, `[k, rows]`.
    ///     errors: output, mean over the critics of |Q_i(s, a) - y|, `[k, rows]`.
    ///     noise: standard normal, `[k, rows, size]`; None where target_noise is 0.
    ///     weights: w, `[k, rows]`; None: 1.
    ///     first: number of the first batch in the run.
    ///     learning_rate: Adam's step size for actor and critics.
    ///     tau: step size of the targets towards the networks.
    ///     policy_delay: number of batches per step of the actor.
    ///     target_noise: standard deviation of the noise on the target actor's actions.
    ///     noise_clip: limit at which the noise is clipped.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     adam_eps: Adam's epsilon.
    ///     alpha: coefficient of TD3+BC (Fujimoto & Gu 2021), whose actor loss is E[(mu(s) - a)^2]
    ///         - alpha / E|Q_1| E[Q_1]; None: the loss of TD3.
    ///
    /// Returns:
    ///     Means over the batches: `critic` (the loss), `q_mean`, `grad_norm` (of the critics,
    ///     before clipping), and `actor` (its loss) if the actor learned.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the
    ///         engine.
    ///     ConfigError: a setting is out of range.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            actor, critic, target_actor, target_critic, obs, actions, rewards, next_obs, discounts, errors,
            noise=None, weights=None, *, first, learning_rate, tau, policy_delay, target_noise, noise_clip,
            max_grad_norm=None, adam_eps=1e-8, alpha=None
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        actor: &Bound<'py, PyAny>,
        critic: &Bound<'py, PyAny>,
        target_actor: &Bound<'py, PyAny>,
        target_critic: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        discounts: &Bound<'py, PyAny>,
        errors: &Bound<'py, PyAny>,
        noise: OptionalArg<'_, 'py>,
        weights: OptionalArg<'_, 'py>,
        #[pyo3(from_py_with = arg::integer::first)] first: u64,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        #[pyo3(from_py_with = arg::number::tau)] tau: f64,
        #[pyo3(from_py_with = arg::integer::policy_delay)] policy_delay: u64,
        #[pyo3(from_py_with = arg::number::target_noise)] target_noise: f64,
        #[pyo3(from_py_with = arg::number::noise_clip)] noise_clip: f64,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
        #[pyo3(from_py_with = arg::optional_number::alpha)] alpha: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings =
            Td3Settings { learning_rate, max_grad_norm, tau, policy_delay, target_noise, noise_clip, alpha };
        let columns = TransitionArgs { obs, actions, rewards, next_obs, discounts, weights, errors };
        let vectors = Vectors { actor, critic, targets: [target_actor, target_critic], noise };
        let args = (settings, first, adam_eps);
        let update =
            match_precision!(&self.engine, |engine| self.learn_as(py, engine, &vectors, &columns, args))?;
        let dict = PyDict::new(py);
        dict.set_item("critic", update.critic)?;
        dict.set_item("q_mean", update.q_mean)?;
        dict.set_item("grad_norm", update.grad_norm)?;
        update.actor.map_or(Ok(()), |loss| dict.set_item("actor", loss))?;
        Ok(dict)
    }
}

impl PyTd3Engine {
    fn learn_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<Td3Engine<F>>,
        vectors: &Vectors<'_, 'py>,
        columns: &TransitionArgs<'_, 'py>,
        (settings, first, eps): (Td3Settings, u64, f64),
    ) -> PyResult<Td3Update> {
        let views = self.sizes.views::<F>(columns)?;
        let noise = vectors.noise.map(|noise_arg| self.sizes.read_noise(noise_arg, &views.shape));
        let noise: Option<View<'_, F>> = noise.transpose()?;
        let mut errors = coerce::output(columns.errors, "errors", &views.shape)?;
        let [mut actor, mut critic] = self.sizes.adam_states::<F>(vectors.actor, vectors.critic)?;
        let mut target_actor = coerce::output(vectors.targets[0], "target_actor", &[self.sizes.lens[0]])?;
        let mut target_critic = coerce::output(vectors.targets[1], "target_critic", &[self.sizes.lens[1]])?;
        let (batches, errors) = (views.batches(), errors.slice_mut());
        let noise = noise.as_ref().map_or(&[][..], View::slice);
        let mut parameters = Td3Parameters {
            actor: actor.for_engine(eps),
            critic: critic.for_engine(eps),
            target_actor: target_actor.slice_mut(),
            target_critic: target_critic.slice_mut(),
        };
        let update = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| {
            engine.learn(&mut parameters, batches, noise, (&settings, first), errors)
        });
        actor.write_steps();
        critic.write_steps();
        update
    }
}
