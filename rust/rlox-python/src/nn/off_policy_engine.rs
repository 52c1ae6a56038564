//! The native engine that learns from batches of transitions.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyList, PyString, PyTuple};
use rlox_core::{Layout, Shared};
use rlox_nn::cpu::{LearnCall, Metrics, Number, OffPolicyEngine, Value, Values, make_off_policy_engine};

use super::precision::{ByPrecision, match_precision, parse_precision};
use super::rollout_args;
use super::state::AdamState;
use super::transition_args::{TransitionArgs, read_numbers};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::{ALWAYS_RELEASE, with_write_lock};
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{Plain, View};

/// Learns from batches of transitions without torch. Gradients, clipping and optimizer steps work on
/// one vector of parameters for each network, which belongs to the caller.
///
/// Parameters have the names and shapes of torch's modules. Each begins at a multiple of 16 numbers of
/// its vector, in the layout of `rlox.optim.FlatParameters`.
///
/// | algorithm | networks (parameters) | architecture |
/// |---|---|---|
/// | `dqn` (Mnih et al. 2015) | `q` (`q.0.weight` `[out, in]`, `q.0.bias`, `q.2.weight`, ...; dueling: `q.shared. ...`, `q.value. ...`, `q.advantage. ...`) | `hidden`, `dueling` |
/// | `sac` (Haarnoja et al. 2018) | `actor` (`actor.0.weight`, ..., gives means and log standard deviations), `critic` (stacked: `weights.0` `[members, out, in]`, `weights.1`, ..., `biases.0` `[members, out]`, ...) | `members`, `actor`, `critic` |
/// | `td3` (Fujimoto et al. 2018; also DDPG and TD3+BC) | `actor` (a tanh follows its output), `critic` | as `sac` |
/// | `iql` (Kostrikov et al. 2022) | `actor` (gives means before a tanh; with `log_std` `[size]`), `critic`, `value` (`value.0.weight`, ...) | as `sac` |
/// | `bc` (Pomerleau 1991) | `policy` (`net.0.weight`, ..., gives logits, or means with `log_std` `[size]`) | `hidden`, `gaussian` |
///
/// Args:
///     algorithm: its name in the table.
///     parameters: names and shapes of each network's parameters, in the order of its vector.
///     precision: `f32`, or `f64` for comparisons.
///     architecture: `obs_dim`, numbers per observation; `size`, numbers per action or number of choices;
///         `activation`, `tanh`, `relu`, `elu` or `silu`; and those of the table: `members`, number of
///         critics; `hidden`, `actor`, `critic`, widths of hidden layers; `dueling`, compute value and
///         advantage in separate streams (Wang et al. 2016); `gaussian`, outputs are means.
///
/// Raises:
///     UnknownNameError: an algorithm, activation, parameter or setting does not exist.
///     ShapeError: a parameter has another shape.
///     ConfigError: a precision does not exist, a setting or network is missing or of another type, or
///         the parameters have more layers than the widths say.
#[pyclass(name = "OffPolicyEngine", module = "rlox._core", frozen)]
pub(crate) struct PyOffPolicyEngine {
    /// Length of an observation.
    pub(super) obs_dim: usize,
    /// Length of an action; 0 for choices.
    action_dim: usize,
    /// Number of random draws for each transition, if there are any.
    noise_draws: Option<usize>,
    /// Names of the networks that learn, with the lengths of their vectors.
    vector_lens: Vec<(&'static str, usize)>,
    pub(super) engine: Engine,
}

type SharedEngine<F> = Shared<Box<dyn OffPolicyEngine<F>>>;
type Engine = ByPrecision<SharedEngine<f32>, SharedEngine<f64>>;

/// The arguments of `learn` besides the batches.
struct LearnArgs<'a, 'py> {
    errors: &'a Bound<'py, PyAny>,
    learned: &'a Bound<'py, PyDict>,
    targets: &'a Bound<'py, PyDict>,
    noise: OptionalArg<'a, 'py>,
    settings: Values,
    first: u64,
    adam_eps: f64,
}

#[pymethods]
impl PyOffPolicyEngine {
    #[new]
    #[pyo3(signature = (algorithm, parameters, *, precision="f32", **architecture))]
    fn new(
        py: Python<'_>,
        #[pyo3(from_py_with = arg::text::algorithm)] algorithm: &str,
        parameters: &Bound<'_, PyDict>,
        #[pyo3(from_py_with = arg::text::precision)] precision: &str,
        architecture: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let layouts: Vec<(String, Layout)> = entries(parameters)
            .into_iter()
            .map(|(name, shapes)| {
                Ok((coerce::text(&name, "parameters")?.to_owned(), rollout_args::read_layout(&shapes)?))
            })
            .collect::<PyResult<_>>()?;
        let (layouts, architecture) = (layouts.into_iter().collect(), read_values(architecture)?);
        match parse_precision(py, precision)? {
            ByPrecision::Single(()) => {
                let engine = make_off_policy_engine(algorithm, layouts, architecture).or_raise(py)?;
                Ok(Self::from_engine(engine, ByPrecision::Single))
            }
            ByPrecision::Double(()) => {
                let engine = make_off_policy_engine(algorithm, layouts, architecture).or_raise(py)?;
                Ok(Self::from_engine(engine, ByPrecision::Double))
            }
        }
    }

    /// Lengths of the vectors of the networks that learn, by name.
    #[getter]
    fn vector_lengths<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (network, len) in &self.vector_lens {
            dict.set_item(network, len)?;
        }
        Ok(dict)
    }

    /// Takes a step for each of k batches.
    ///
    /// | algorithm | loss, with y = R + gamma^m V'(s') and Q' of the target networks | settings |
    /// |---|---|---|
    /// | `dqn` | E[w loss(Q(s, a) - y)], V' = Q'(s', argmax Q'(s', .)) | `double`: the argmax is that of Q (van Hasselt et al. 2016); `loss`: `huber` (quadratic up to 1) or `mse` |
    /// | `sac` | sum_i E[w (Q_i(s, a) - y)^2] / 2, V' = min_i Q'_i(s', a') - alpha log pi(a' \| s'); E[alpha log pi - min_i Q_i] of the actor; -log alpha E[log pi + H] of the temperature | `tau`, `target_update_interval`: batches per step of the targets; `alpha`, or `target_entropy` H if `temperature` is among the networks that learn |
    /// | `td3` | sum_i E[w (Q_i(s, a) - y)^2], V' = min_i Q'_i(s', clip(mu'(s') + clip(noise))); -E[Q_1(s, mu(s))] of the actor, every `policy_delay` batches, before the targets move; with `alpha` E[(mu(s) - a)^2] - alpha / E\|Q_1\| E[Q_1] (TD3+BC, Fujimoto & Gu 2021) | `tau`, `policy_delay`, `target_noise`: standard deviation, `noise_clip`, `alpha` (None) |
    /// | `iql` | u = min_i Q'_i(s, a) - V(s): E[\|expectile - 1(u < 0)\| u^2] of V; -E[min(e^(temperature u), max_weight) log pi(a \| s)] of the actor; sum_i E[(Q_i(s, a) - y)^2], V' = V after its step | `actor_learning_rate`, `tau`, `expectile`, `temperature`, `max_weight` |
    /// | `bc` | -E[log pi(a \| s)] | `squared`: E[(mean - a)^2] in its place |
    ///
    /// Every algorithm has the settings `learning_rate`, Adam's step size, and `max_grad_norm`, the largest
    /// norm of a network's gradient (None: no clipping). Adam's betas are 0.9 and 0.999. `tau` is the step
    /// size of the targets towards the networks.
    ///
    /// Args:
    ///     learned: for each network that learns four arrays, changed in place: its vector, Adam's first
    ///         and second moments, and the number of steps, int64 `[1]`, which also counts the steps of a
    ///         call that fails. `temperature` of `sac` has a vector of 16 numbers, of which the first is
    ///         log alpha.
    ///     targets: the vector of the target network of `q`; of `critic`; or of `actor` and `critic`
    ///         (`td3`); changed in place, but for that of `q`.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: choices `[k, rows]`, or vectors `[k, rows, size]`, in [-1, 1] but for `bc`.
    ///     rewards: R, `[k, rows]`.
    ///     next_obs: `[k, rows, obs_dim]`.
    ///     discounts: gamma^m, 0 after a termination, `[k, rows]`.
    ///     errors: output, Q(s, a) - y, or the mean over the critics of |Q_i(s, a) - y|, `[k, rows]`; `bc`
    ///         leaves it unchanged.
    ///     noise: standard normal, `[k, 2, rows, size]` of `sac`, for the actions in s and in s';
    ///         `[k, rows, size]` of `td3`, None where `target_noise` is 0.
    ///     weights: w, `[k, rows]`; None: 1.
    ///     first: number of the first batch in the run.
    ///     adam_eps: Adam's epsilon.
    ///     settings: see the table.
    ///
    /// Returns:
    ///     Means over the batches, losses by the name of the network: `loss`, `q_mean`, `grad_norm` before
    ///     clipping (`dqn`); `critic`, `actor`, `temperature`, `q_mean`, `entropy`, `alpha`, `grad_norm` of
    ///     the critics (`sac`); `critic`, `q_mean`, `grad_norm`, and `actor` if the actor learned (`td3`);
    ///     `critic`, `value`, `actor`, `q_mean`, `v_mean`, `weight`, `grad_norm` (`iql`); `loss`, `fit` (of
    ///     choices the share that are the policy's likeliest; of vectors E|mean - a|), `grad_norm` (`bc`).
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the engine.
    ///     ConfigError: a setting is missing, of another type or out of range, an action does not exist,
    ///         or a network is missing.
    ///     UnknownNameError: the algorithm has no such network or setting.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            learned, targets, obs, actions, rewards, next_obs, discounts, errors, noise=None, weights=None, *,
            first=0, adam_eps=1e-8, **settings
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    pub(super) fn learn<'py>(
        &self,
        py: Python<'py>,
        learned: &Bound<'py, PyDict>,
        targets: &Bound<'py, PyDict>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        rewards: &Bound<'py, PyAny>,
        next_obs: &Bound<'py, PyAny>,
        discounts: &Bound<'py, PyAny>,
        errors: &Bound<'py, PyAny>,
        noise: OptionalArg<'_, 'py>,
        weights: OptionalArg<'_, 'py>,
        #[pyo3(from_py_with = arg::integer::first)] first: u64,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
        settings: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let columns = TransitionArgs { obs, actions, rewards, next_obs, discounts, weights };
        let settings = read_values(settings)?;
        let args = LearnArgs { errors, learned, targets, noise, settings, first, adam_eps };
        let metrics = match_precision!(&self.engine, |engine| self.learn_as(py, engine, &columns, args))?;
        let dict = PyDict::new(py);
        for (name, number) in metrics {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }
}

impl PyOffPolicyEngine {
    fn from_engine<F>(
        engine: Box<dyn OffPolicyEngine<F>>,
        by_precision: impl FnOnce(SharedEngine<F>) -> Engine,
    ) -> Self {
        Self {
            obs_dim: engine.obs_dim(),
            action_dim: engine.action_dim(),
            noise_draws: engine.noise_draws(),
            vector_lens: engine.vector_lens(),
            engine: by_precision(Shared::new(engine)),
        }
    }

    /// Returns the length of the vector of a network that learns.
    pub(super) fn vector_len(&self, network: &str) -> Option<usize> {
        self.vector_lens.iter().find(|(known, _)| *known == network).map(|&(_, len)| len)
    }

    /// Reads the arrays, takes the steps and writes the numbers of steps.
    fn learn_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &SharedEngine<F>,
        columns: &TransitionArgs<'_, 'py>,
        args: LearnArgs<'_, 'py>,
    ) -> PyResult<Metrics> {
        let views = columns.read::<F>(self.obs_dim, self.action_dim)?;
        let noise = args.noise.map(|noise| self.read_noise::<F>(noise, views.shape)).transpose()?;
        let mut errors = coerce::output(args.errors, "errors", &views.shape)?;
        let mut states = self.by_network(args.learned, "learned", AdamState::<F>::read)?;
        let mut targets = self.by_network(args.targets, "targets", |vector, name, len| {
            coerce::output::<F>(vector, &format!("target of {name}"), &[len])
        })?;
        let call = LearnCall {
            learned: states.iter_mut().map(|(name, s)| (*name, s.for_engine(args.adam_eps))).collect(),
            targets: targets.iter_mut().map(|(name, t)| (*name, t.slice_mut())).collect(),
            batches: views.batches(),
            noise: noise.as_ref().map_or(&[][..], View::slice),
            settings: args.settings,
            first: args.first,
            errors: errors.slice_mut(),
        };
        let metrics = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| engine.learn(call));
        for (_, state) in states {
            state.write_steps();
        }
        metrics
    }

    /// Reads noise `[k, rows, size]`, or `[k, draws, rows, size]` of several draws.
    fn read_noise<'py, F: Plain>(
        &self,
        noise: &Bound<'py, PyAny>,
        [k, rows]: [usize; 2],
    ) -> PyResult<View<'py, F>> {
        match self.noise_draws {
            None => {
                let message = "noise is an array, expected None: this algorithm draws no actions";
                Err(errors::new(noise.py(), ErrorClass::Config, message))
            }
            Some(1) => read_numbers(noise, "noise", &[k, rows, self.action_dim]),
            Some(draws) => read_numbers(noise, "noise", &[k, draws, rows, self.action_dim]),
        }
    }

    /// Reads what `dict` has for each network, with the length of the network's vector.
    fn by_network<'py, T>(
        &self,
        dict: &Bound<'py, PyDict>,
        what: &str,
        read: impl Fn(&Bound<'py, PyAny>, &str, usize) -> PyResult<T>,
    ) -> PyResult<Vec<(&'static str, T)>> {
        let read_entry = |(name, value): (Bound<'py, PyAny>, Bound<'py, PyAny>)| {
            let network = coerce::text(&name, what)?;
            let known = self.vector_lens.iter().find(|(known, _)| *known == network);
            let Some(&(known, len)) = known else {
                let known: Vec<&str> = self.vector_lens.iter().map(|(known, _)| *known).collect();
                let message =
                    format!("{what} has the network {network:?}, expected only {}", known.join(", "));
                return Err(errors::new(dict.py(), ErrorClass::UnknownName, message));
            };
            Ok((known, read(&value, known, len)?))
        };
        entries(dict).into_iter().map(read_entry).collect()
    }
}

/// Returns the entries of a dict. Reading an entry may run Python code that changes the dict.
fn entries<'py>(dict: &Bound<'py, PyDict>) -> Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    dict.iter().collect()
}

/// Reads settings by name.
fn read_values(settings: Option<&Bound<'_, PyDict>>) -> PyResult<Values> {
    let Some(settings) = settings else { return Ok(Values::default()) };
    let read_entry = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let name = coerce::text(&name, "setting")?;
        Ok((name.to_owned(), read_value(&value, name)?))
    };
    entries(settings).into_iter().map(read_entry).collect()
}

fn read_value(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Value> {
    // By type, because a failed conversion takes longer than all settings of an update.
    if value.is_none() {
        return Ok(Value::None);
    }
    if let Ok(number) = value.cast::<PyFloat>() {
        return Ok(Value::Number(number.value()));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(Value::Text(coerce::text(value, name)?.to_owned()));
    }
    if let Ok(flag) = value.cast::<PyBool>() {
        return Ok(Value::Flag(flag.is_true()));
    }
    if let Ok(integer) = value.extract() {
        return Ok(Value::Integer(integer));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        return rollout_args::read_widths(value, name).map(Value::Widths);
    }
    coerce::real(value, name).map(Value::Number)
}
