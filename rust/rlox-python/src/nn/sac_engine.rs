//! Trainings of SAC.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::{Number, SacEngine, SacParameters, SacSettings, SacUpdate, Temperature};

use super::precision::{Either, either, engine};
use super::replayed::Columns;
use super::state::Adams;
use super::vectors::{Made, Sizes};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::Given;
use crate::detach::{LONG, writing};
use crate::memory::views::{Plain, View};

/// Numbers of the temperature's vector: one, and what fills it.
const FILLED: usize = 16;

/// Trainings of a squashed Gaussian policy and its critics without torch (Haarnoja et al. 2018).
///
/// The actor is a multilayer perceptron that gives means and log standard deviations, with parameters
/// `actor.0.weight` `[out, in]`, `actor.0.bias`, `actor.2.weight`, ...; the critics are stacked: `weights.0`
/// `[members, out, in]`, `weights.1`, ..., `biases.0` `[members, out]`, ... Each lies at a multiple of 16
/// numbers of its vector, as `rlox.optim.FlatParameters` lays them out.
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
#[pyclass(name = "SACEngine", module = "rlox._core", frozen)]
pub(crate) struct PySacEngine {
    pub(super) sizes: Sizes,
    pub(super) engine: Engine,
}

type Engine = Either<Shared<SacEngine<f32>>, Shared<SacEngine<f64>>>;

/// What learns and what follows it, as Python gives it.
struct Vectors<'a, 'py> {
    actor: &'a Bound<'py, PyAny>,
    critic: &'a Bound<'py, PyAny>,
    target: &'a Bound<'py, PyAny>,
    temperature: Given<'a, 'py>,
    noise: &'a Bound<'py, PyAny>,
}

/// Settings that are not of one precision.
#[derive(Clone, Copy)]
struct By {
    settings: SacSettings,
    first: u64,
    eps: f64,
    /// Of the temperature: what it is, or what the entropy is to be.
    goal: f64,
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
        let made = Made {
            parameters: [actor_parameters, critic_parameters],
            obs_dim,
            sizes: [size, size.saturating_mul(2)],
            members,
            hidden: [actor, critic],
            activation,
        };
        let (sizes, (actor, critics)) = made.nets(py, &[])?;
        let engine = engine!(py, precision, SacEngine::new(actor, critics))?;
        Ok(Self { sizes, engine })
    }

    /// One step of temperature, critics and actor for each of k batches: along the gradients of
    /// -log alpha E[log pi + H], of sum_i E[w (Q_i(s, a) - y)^2] / 2 with
    /// y = R + gamma^m (min_i Q'_i(s', a') - alpha log pi(a' | s')), and of E[alpha log pi - min_i Q_i].
    ///
    /// Args:
    ///     actor: four arrays, changed in place: the actor's vector, Adam's first and second moments, steps int64
    ///         `[1]`, counted also where a training fails.
    ///     critic: the same of the critics.
    ///     target: the vector of the critics' target, changed in place.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: `[k, rows, size]`, in [-1, 1].
    ///     rewards: R, `[k, rows]`.
    ///     next_obs: `[k, rows, obs_dim]`.
    ///     discounts: gamma^m, 0 after a termination, `[k, rows]`.
    ///     errors: written: E_i |Q_i(s, a) - y|, `[k, rows]`.
    ///     noise: standard normal, `[k, 2, rows, size]`: of what is done in s, and in s'.
    ///     weights: w, `[k, rows]`; None: 1.
    ///     temperature: four arrays as the actor's, of 16 numbers, the first of which is log alpha; None: alpha
    ///         stays.
    ///     entropy_or_alpha: H with a temperature that is learned, alpha without.
    ///     first: number of the first batch in the run.
    ///     learning_rate: Adam's step size, of all.
    ///     tau: how far the target moves.
    ///     target_update_interval: batches for each of its moves.
    ///     max_grad_norm: None: gradients are not cut.
    ///     adam_eps: Adam's epsilon.
    ///
    /// Returns:
    ///     Means over the batches: losses `critic`, `actor`, `temperature`; `q_mean`, `entropy`, `alpha`,
    ///     `grad_norm` (of the critics, before it was cut).
    ///
    /// Raises:
    ///     ShapeError: an array has another shape; an output is not of the engine's precision.
    ///     ConfigError: a setting that there is not.
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
        weights: Given<'_, 'py>,
        temperature: Given<'_, 'py>,
        #[pyo3(from_py_with = arg::number::entropy_or_alpha)] entropy_or_alpha: f64,
        #[pyo3(from_py_with = arg::integer::first)] first: u64,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        #[pyo3(from_py_with = arg::number::tau)] tau: f64,
        #[pyo3(from_py_with = arg::integer::target_update_interval)] target_update_interval: u64,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings = SacSettings { learning_rate, max_grad_norm, tau, target_update_interval };
        let columns = Columns { obs, actions, rewards, next_obs, discounts, weights, errors };
        let vectors = Vectors { actor, critic, target, temperature, noise };
        let by = By { settings, first, eps: adam_eps, goal: entropy_or_alpha };
        let update = either!(&self.engine, |engine| self.by(py, engine, &vectors, &columns, by))?;
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
    fn by<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<SacEngine<F>>,
        vectors: &Vectors<'_, 'py>,
        columns: &Columns<'_, 'py>,
        by: By,
    ) -> PyResult<SacUpdate> {
        let views = self.sizes.views::<F>(columns)?;
        let [k, rows] = views.shape;
        let noise: View<'_, F> = self.sizes.noise(vectors.noise, &[k, 2, rows])?;
        let mut errors = coerce::output(columns.errors, "errors", &views.shape)?;
        let [mut actor, mut critic] = self.sizes.learned::<F>(vectors.actor, vectors.critic)?;
        let mut target = coerce::output(vectors.target, "target", &[self.sizes.lens[1]])?;
        let temperature = vectors.temperature;
        let log = temperature.map(|given| Adams::<F>::of(given, "temperature", FILLED));
        let mut log = log.transpose()?;
        let (batches, errors, noise) = (views.batches(), errors.slice_mut(), noise.slice());
        let mut of = SacParameters {
            actor: actor.learned(by.eps),
            critic: critic.learned(by.eps),
            target: target.slice_mut(),
            temperature: match &mut log {
                Some(log) => {
                    Temperature::Learned { log: log.learned(by.eps), target_entropy: by.goal }
                }
                None => Temperature::Fixed(by.goal),
            },
        };
        let update = writing(py, engine, LONG, |engine| {
            engine.learn(&mut of, batches, noise, (&by.settings, by.first), errors)
        });
        actor.count();
        critic.count();
        if let Some(log) = log {
            log.count();
        }
        update
    }
}
