//! Trainings of TD3 and DDPG.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::{Number, Td3Engine, Td3Parameters, Td3Settings, Td3Update};

use super::precision::{Either, either, engine};
use super::replayed::Columns;
use super::vectors::{Made, Sizes};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::Given;
use crate::detach::{LONG, writing};
use crate::memory::views::{Plain, View};

/// Trainings of a deterministic policy and its critics without torch (Fujimoto et al. 2018).
///
/// The actor is a multilayer perceptron whose output tanh takes to [-1, 1], with parameters `actor.0.weight`
/// `[out, in]`, `actor.0.bias`, `actor.2.weight`, ...; the critics are stacked: `weights.0` `[members, out,
/// in]`, `weights.1`, ..., `biases.0` `[members, out]`, ... Each lies at a multiple of 16 numbers of its
/// vector, as `rlox.optim.FlatParameters` lays them out.
///
/// Args:
///     actor_parameters: names and shapes in the order of the actor's vector.
///     critic_parameters: of the critics'.
///     obs_dim: numbers of an observation.
///     size: numbers of an action.
///     members: critics.
///     actor: widths of the actor's hidden layers.
///     critic: widths of the critics'.
///     activation: `tanh`, `relu`, `elu` or `silu`.
///     precision: `f32`, or `f64` for comparisons.
///
/// Raises:
///     UnknownNameError: a parameter or activation that there is not.
///     ShapeError: a parameter of another shape.
///     ConfigError: a precision that there is not, or layers beyond those of the widths.
#[pyclass(name = "TD3Engine", module = "rlox._core", frozen)]
pub(crate) struct PyTd3Engine {
    pub(super) sizes: Sizes,
    pub(super) engine: Engine,
}

type Engine = Either<Shared<Td3Engine<f32>>, Shared<Td3Engine<f64>>>;

/// What learns and what follows it, as Python gives it.
struct Vectors<'a, 'py> {
    actor: &'a Bound<'py, PyAny>,
    critic: &'a Bound<'py, PyAny>,
    targets: [&'a Bound<'py, PyAny>; 2],
    noise: Given<'a, 'py>,
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
        let made = Made {
            parameters: [actor_parameters, critic_parameters],
            obs_dim,
            sizes: [size, size],
            members,
            hidden: [actor, critic],
            activation,
        };
        let (sizes, (actor, critics)) = made.nets(py, &[])?;
        let engine = engine!(py, precision, Td3Engine::new(actor, critics))?;
        Ok(Self { sizes, engine })
    }

    /// One step of the critics for each of k batches, along the gradient of sum_i E[w (Q_i(s, a) - y)^2] with
    /// y = R + gamma^m min_i Q'_i(s', clip(mu'(s') + clip(noise))); at every `policy_delay` one of the actor
    /// along that of -E[Q_1(s, mu(s))], and the targets follow.
    ///
    /// Args:
    ///     actor: four arrays, changed in place: the actor's vector, Adam's first and second moments, steps int64
    ///         `[1]`, counted also where a training fails.
    ///     critic: the same of the critics.
    ///     target_actor: the target's vector, changed in place.
    ///     target_critic: that of the critics' target.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: `[k, rows, size]`, in [-1, 1].
    ///     rewards: R, `[k, rows]`.
    ///     next_obs: `[k, rows, obs_dim]`.
    ///     discounts: gamma^m, 0 after a termination, `[k, rows]`.
    ///     errors: written: E_i |Q_i(s, a) - y|, `[k, rows]`.
    ///     noise: standard normal, `[k, rows, size]`; None where target_noise is 0.
    ///     weights: w, `[k, rows]`; None: 1.
    ///     first: number of the first batch in the run.
    ///     learning_rate: Adam's step size, of both.
    ///     tau: how far the targets move.
    ///     policy_delay: batches for each step of the actor.
    ///     target_noise: deviation of the noise on the target's actions.
    ///     noise_clip: at which it is cut off.
    ///     max_grad_norm: None: gradients are not cut.
    ///     adam_eps: Adam's epsilon.
    ///     alpha: of TD3+BC (Fujimoto & Gu 2021): the actor's loss is E[(mu(s) - a)^2] - alpha / E|Q_1| E[Q_1];
    ///         None: TD3's.
    ///
    /// Returns:
    ///     Means over the batches: `critic` (the loss), `q_mean`, `grad_norm` (of the critics, before it was
    ///     cut), and `actor` (its loss), where it learned.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape; an output is not of the engine's precision.
    ///     ConfigError: a setting that there is not.
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
        noise: Given<'_, 'py>,
        weights: Given<'_, 'py>,
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
        let settings = Td3Settings {
            learning_rate,
            max_grad_norm,
            tau,
            policy_delay,
            target_noise,
            noise_clip,
            alpha,
        };
        let columns = Columns { obs, actions, rewards, next_obs, discounts, weights, errors };
        let vectors = Vectors { actor, critic, targets: [target_actor, target_critic], noise };
        let by = (settings, first, adam_eps);
        let update = either!(&self.engine, |engine| self.by(py, engine, &vectors, &columns, by))?;
        let dict = PyDict::new(py);
        dict.set_item("critic", update.critic)?;
        dict.set_item("q_mean", update.q_mean)?;
        dict.set_item("grad_norm", update.grad_norm)?;
        update.actor.map_or(Ok(()), |loss| dict.set_item("actor", loss))?;
        Ok(dict)
    }
}

impl PyTd3Engine {
    fn by<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<Td3Engine<F>>,
        vectors: &Vectors<'_, 'py>,
        columns: &Columns<'_, 'py>,
        (settings, first, eps): (Td3Settings, u64, f64),
    ) -> PyResult<Td3Update> {
        let views = self.sizes.views::<F>(columns)?;
        let noise = vectors.noise.map(|given| self.sizes.noise(given, &views.shape));
        let noise: Option<View<'_, F>> = noise.transpose()?;
        let mut errors = coerce::output(columns.errors, "errors", &views.shape)?;
        let [mut actor, mut critic] = self.sizes.learned::<F>(vectors.actor, vectors.critic)?;
        let mut target_actor =
            coerce::output(vectors.targets[0], "target_actor", &[self.sizes.lens[0]])?;
        let mut target_critic =
            coerce::output(vectors.targets[1], "target_critic", &[self.sizes.lens[1]])?;
        let (batches, errors) = (views.batches(), errors.slice_mut());
        let noise = noise.as_ref().map_or(&[][..], View::slice);
        let mut of = Td3Parameters {
            actor: actor.learned(eps),
            critic: critic.learned(eps),
            target_actor: target_actor.slice_mut(),
            target_critic: target_critic.slice_mut(),
        };
        let update = writing(py, engine, LONG, |engine| {
            engine.learn(&mut of, batches, noise, (&settings, first), errors)
        });
        actor.count();
        critic.count();
        update
    }
}
