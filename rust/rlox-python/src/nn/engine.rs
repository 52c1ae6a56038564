//! PPO's updates.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::{Layout, Shared};
use rlox_nn::cpu::losses::{ActorCriticLoss, Ppo};
use rlox_nn::cpu::optim::{Adam, Moving};
use rlox_nn::cpu::{ActorCritic, Architecture, Kind, Number, PpoEngine, PpoSettings, PpoUpdate};

use super::incoming::{self, Columns};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::Given;
use crate::detach::{LONG, reading, writing};
use crate::errors::{self, Class, OrRaise};
use crate::memory::views::{Plain, ViewMut};

/// PPO's update of an actor and a critic without torch: gradients, clipping and Adam over one vector
/// of parameters, which are the caller's.
///
/// Networks are multilayer perceptrons with the names and shapes of torch's modules (`actor.0.weight`
/// `[out, in]`, `actor.0.bias`, `actor.2.weight`, ..., `critic. ...`, `log_std`), each parameter at a multiple
/// of 16 numbers of the vector, as `rlox.optim.FlatParameters` lays them out.
///
/// Args:
///     parameters: names and shapes in the order of the vector.
///     kind: `choices` (a softmax), `numbers` (normal, `log_std` `[size]`) or `sde` (gSDE, `log_std`
///         `[features, size]`).
///     size: how many choices, or numbers of an action.
///     obs_dim: numbers of an observation.
///     actor: widths of the actor's hidden layers.
///     critic: widths of the critic's.
///     activation: `tanh`, `relu`, `elu` or `silu`.
///     precision: `f32`, or `f64` for comparisons.
///
/// Raises:
///     UnknownNameError: a parameter or activation that there is not.
///     ShapeError: a parameter of another shape.
///     ConfigError: a kind or precision that there is not, or layers beyond those of the widths.
#[pyclass(name = "PpoEngine", module = "rlox._core", frozen)]
pub(crate) struct PyPpoEngine {
    of: Architecture,
    /// Numbers of the vector.
    len: usize,
    engine: Engine,
}

enum Engine {
    Single(Shared<PpoEngine<f32>>),
    Double(Shared<PpoEngine<f64>>),
}

#[pymethods]
impl PyPpoEngine {
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
        let layout = incoming::layout(parameters)?;
        let sizes = (kind, size, obs_dim);
        let of = incoming::architecture(py, sizes, (actor, critic), activation)?;
        let net = ActorCritic::new(&layout, &of).or_raise(py)?;
        let len = layout.len();
        let engine = match precision {
            "f32" => Engine::Single(shared(net, layout)),
            "f64" => Engine::Double(shared(net, layout)),
            _ => {
                let message = format!("precision is {precision:?}, expected f32 or f64");
                return Err(errors::new(py, Class::Config, message));
            }
        };
        Ok(Self { of, len, engine })
    }

    /// Learns from the rows of a rollout in minibatches, one pass for each row of `order`.
    ///
    /// Each minibatch takes one step of Adam along the gradient of
    /// E[-min(r A, clip(r, 1 - e, 1 + e) A)] + vf_coef E[(V - R)^2] - ent_coef E[H] (Schulman et al.
    /// 2017, eq. 9), cut to `max_grad_norm`.
    ///
    /// Args:
    ///     parameters: the vector, changed in place, as the next two are.
    ///     exp_avg: Adam's first moments.
    ///     exp_avg_sq: Adam's second moments.
    ///     steps: steps of Adam so far.
    ///     obs: `[rows, obs_dim]`.
    ///     actions: choices `[rows]`, or `[rows, size]`.
    ///     log_probs: of the policy that acted, `[rows]`.
    ///     values: V(o) when it acted, `[rows]`.
    ///     advantages: `[rows]`.
    ///     returns: what V is to become, `[rows]`.
    ///     order: numbers of rows, `[passes, n]`.
    ///     batch_size: rows of a minibatch; the last of a pass may have fewer.
    ///     learning_rate: Adam's step size; its betas are 0.9 and 0.999.
    ///     clip_eps: e.
    ///     vf_coef: weight of the value loss.
    ///     ent_coef: weight of the entropy.
    ///     max_grad_norm: None: gradients are not cut.
    ///     clip_vloss: values learn within e of what they were.
    ///     normalize_advantages: of each minibatch.
    ///     target_kl: the passes end at a minibatch whose KL estimate is more than 1.5 times this.
    ///     adam_eps: Adam's epsilon.
    ///     mask: which choices were allowed, `[rows, size]`.
    ///
    /// Returns:
    ///     Means over the minibatches: `policy`, `value`, `entropy`, `total`, `approx_kl`,
    ///     `clip_fraction`, `grad_norm` (before it was cut); and counts: `epochs` (whole passes),
    ///     `steps`, `samples`.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape; an output is not of the engine's precision.
    ///     ConfigError: an action, a row or a batch size that there is not.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            parameters, exp_avg, exp_avg_sq, steps, obs, actions, log_probs, values, advantages, returns,
            order, *, batch_size, learning_rate, clip_eps, vf_coef, ent_coef, max_grad_norm=None,
            clip_vloss=false, normalize_advantages=true, target_kl=None, adam_eps=1e-5, mask=None
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn update<'py>(
        &self,
        py: Python<'py>,
        parameters: &Bound<'py, PyAny>,
        exp_avg: &Bound<'py, PyAny>,
        exp_avg_sq: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::integer::steps)] steps: u64,
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
        mask: Given<'_, 'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings = PpoSettings {
            loss: Ppo { weights: ActorCriticLoss { vf_coef, ent_coef }, clip_eps, clip_vloss },
            adam: Adam::new(adam_eps),
            learning_rate,
            n_epochs: 0,
            batch_size,
            max_grad_norm,
            normalize_advantages,
            target_kl,
        };
        let columns = Columns { obs, actions, log_probs, values, advantages, returns, mask };
        let state = State { vectors: [parameters, exp_avg, exp_avg_sq], steps };
        let update = match &self.engine {
            Engine::Single(engine) => self.learn(py, engine, state, &columns, order, settings),
            Engine::Double(engine) => self.learn(py, engine, state, &columns, order, settings),
        }?;
        told(py, &update)
    }

    /// A copy of the gradient of the last minibatch's loss, cut to `max_grad_norm`: zeros before there was one.
    #[getter]
    fn gradient<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.engine {
            Engine::Single(engine) => copied(py, engine, self.len),
            Engine::Double(engine) => copied(py, engine, self.len),
        }
    }

    /// Numbers of the vector of parameters.
    fn __len__(&self) -> usize {
        self.len
    }
}

/// The vectors that an update changes.
struct State<'a, 'py> {
    vectors: [&'a Bound<'py, PyAny>; 3],
    steps: u64,
}

impl PyPpoEngine {
    fn learn<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<PpoEngine<F>>,
        state: State<'_, 'py>,
        columns: &Columns<'_, 'py>,
        order: &Bound<'py, PyAny>,
        mut settings: PpoSettings,
    ) -> PyResult<PpoUpdate> {
        let choices = matches!(self.of.kind, Kind::Choices(_));
        let views = columns.read::<F>(choices, self.of.obs_dim)?;
        let order = coerce::array(order, "order")?;
        coerce::check_ndim(&order, "order", &["passes", "n"])?;
        let (passes, n) = match *order.shape() {
            [passes, n] => (passes, n),
            _ => (0, 0),
        };
        settings.n_epochs = passes;
        let order = coerce::elements::<i64>(&order, "order", "iu")?;
        let [parameters, exp_avg, exp_avg_sq] = state.vectors;
        let mut vectors: [ViewMut<'py, F>; 3] = [
            coerce::output(parameters, "parameters", &[self.len])?,
            coerce::output(exp_avg, "exp_avg", &[self.len])?,
            coerce::output(exp_avg_sq, "exp_avg_sq", &[self.len])?,
        ];
        let [parameters, exp_avg, exp_avg_sq] = vectors.each_mut().map(ViewMut::slice_mut);
        let (rows, order, mut steps) = (views.rows(), order.slice(), state.steps);
        writing(py, engine, LONG, |engine| {
            let mut moving = Moving { parameters, exp_avg, exp_avg_sq, steps: &mut steps };
            engine.update(&mut moving, rows, &settings, |pass, places| {
                places.clear();
                let pass = order.get(pass * n..(pass + 1) * n).unwrap_or_default();
                // A negative number is no row, as is the largest size.
                places.extend(pass.iter().map(|&row| usize::try_from(row).unwrap_or(usize::MAX)));
            })
        })
    }
}

fn shared<F: Number>(net: ActorCritic, layout: Layout) -> Shared<PpoEngine<F>> {
    Shared::new(PpoEngine::new(net, layout))
}

fn copied<'py, F: Number + Plain>(
    py: Python<'py>,
    engine: &Shared<PpoEngine<F>>,
    len: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut out = ViewMut::<F>::fresh(py, &[len])?;
    let place = out.slice_mut();
    reading(py, engine, len, |engine| {
        place.copy_from_slice(engine.gradient());
        Ok(())
    })?;
    Ok(out.into_array().into_any())
}

fn told<'py>(py: Python<'py>, update: &PpoUpdate) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let (moved, loss) = (update.terms, update.terms.terms);
    for (name, value) in [
        ("policy", loss.policy),
        ("value", loss.value),
        ("entropy", loss.entropy),
        ("total", loss.total),
        ("approx_kl", moved.approx_kl),
        ("clip_fraction", moved.clip_fraction),
        ("grad_norm", update.grad_norm),
    ] {
        dict.set_item(name, value)?;
    }
    for (name, count) in
        [("epochs", update.epochs), ("steps", update.steps), ("samples", update.samples)]
    {
        dict.set_item(name, count)?;
    }
    Ok(dict)
}
