//! The native engine of behavioural cloning.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Shared;
use rlox_nn::cpu::{
    ActionKind, ActionsTaken, Activation, CloningEngine, CloningSettings, CloningUpdate, Memory, Mlp, Number,
};

use super::precision::{ByPrecision, make_engine, match_precision};
use super::rollout_args;
use super::state::AdamState;
use super::transition_args::read_numbers;
use crate::convert::arg;
use crate::convert::coerce;
use crate::detach::{ALWAYS_RELEASE, detached, with_write_lock};
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{Plain, View};

/// Trains a policy to imitate recorded actions, without torch (Pomerleau 1991).
///
/// The policy is a multilayer perceptron with parameters `net.0.weight` `[out, in]`, `net.0.bias`,
/// ... Its outputs are the logits of choices, or the means of normal distributions. Normal
/// distributions also have the parameter `log_std` `[size]`, before those of the layers. Each
/// parameter begins at a multiple of 16 numbers of the vector, in the layout of
/// `rlox.optim.FlatParameters`.
///
/// Args:
///     parameters: names and shapes in the order of the vector.
///     kind: `choices` or `numbers`.
///     size: number of choices, or of numbers per action.
///     obs_dim: numbers per observation.
///     hidden: widths of the hidden layers.
///     activation: `tanh`, `relu`, `elu` or `silu`.
///     precision: `f32`, or `f64` for comparisons.
///
/// Raises:
///     UnknownNameError: a parameter or activation does not exist.
///     ShapeError: a parameter has another shape.
///     ConfigError: a kind or precision does not exist.
#[pyclass(name = "CloningEngine", module = "rlox._core", frozen)]
pub(crate) struct PyCloningEngine {
    net: Mlp,
    kind: ActionKind,
    /// Length of the parameter vector.
    len: usize,
    engine: Engine,
}

type Engine = ByPrecision<Shared<CloningEngine<f32>>, Shared<CloningEngine<f64>>>;

/// The actions of a batch.
enum ActionViews<'py, F> {
    Choices(View<'py, i64>),
    Vectors(View<'py, F>),
}

#[pymethods]
impl PyCloningEngine {
    #[new]
    #[pyo3(
        signature = (parameters, *, kind, size, obs_dim, hidden, activation="relu", precision="f32")
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn new(
        py: Python<'_>,
        parameters: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::text::kind)] kind: &str,
        #[pyo3(from_py_with = arg::size::size)] size: usize,
        #[pyo3(from_py_with = arg::size::obs_dim)] obs_dim: usize,
        hidden: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arg::text::activation)] activation: &str,
        #[pyo3(from_py_with = arg::text::precision)] precision: &str,
    ) -> PyResult<Self> {
        let kind = match kind {
            "choices" => ActionKind::Choices(size),
            "numbers" => ActionKind::Gaussian(size),
            _ => {
                let message = format!("kind is {kind:?}, expected choices or numbers");
                return Err(errors::new(py, ErrorClass::Config, message));
            }
        };
        let layout = rollout_args::read_layout(parameters)?;
        let hidden = rollout_args::read_widths(hidden, "hidden")?;
        let activation = Activation::from_name(activation).or_raise(py)?;
        let widths = [&[obs_dim], hidden.as_slice(), &[size]].concat();
        let net = Mlp::new(&layout, "net", &widths, activation).or_raise(py)?;
        let len = layout.len();
        let engine = make_engine!(py, precision, CloningEngine::new(net.clone(), layout, kind))?;
        Ok(Self { net, kind, len, engine })
    }

    /// Takes one step of Adam for each of k batches, along the gradient of -E[log pi(a | o)]; with
    /// `squared`, of E[(mean - a)^2].
    ///
    /// Args:
    ///     policy: four arrays, changed in place: the parameter vector, Adam's first and second
    ///         moments, and the number of steps, int64 `[1]`, which also counts the steps of a call
    ///         that fails.
    ///     obs: `[k, rows, obs_dim]`.
    ///     actions: choices `[k, rows]`, or vectors `[k, rows, size]`.
    ///     learning_rate: Adam's step size.
    ///     squared: use the squared error of vectors instead of their likelihood.
    ///     max_grad_norm: largest norm of the gradient; None: no clipping.
    ///     adam_eps: Adam's epsilon.
    ///
    /// Returns:
    ///     Means over the batches: `loss`, `fit` (of choices: the share of actions that are the
    ///     policy's likeliest choice; of vectors: E|mean - a|), `grad_norm` (before clipping).
    ///
    /// Raises:
    ///     ShapeError: an array has another shape, or an output has another precision than the
    ///         engine.
    ///     ConfigError: an action does not exist, or a setting is out of range.
    ///     NonFiniteError: a loss, gradient or parameter is NaN or infinite.
    #[pyo3(
        signature = (
            policy, obs, actions, *, learning_rate, squared=false, max_grad_norm=None, adam_eps=1e-8
        )
    )]
    #[expect(clippy::too_many_arguments, reason = "the public signature")]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        policy: &Bound<'py, PyAny>,
        obs: &Bound<'py, PyAny>,
        actions: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arg::number::learning_rate)] learning_rate: f64,
        squared: bool,
        #[pyo3(from_py_with = arg::optional_number::max_grad_norm)] max_grad_norm: Option<f64>,
        #[pyo3(from_py_with = arg::number::adam_eps)] adam_eps: f64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let settings = CloningSettings { learning_rate, max_grad_norm, squared };
        let args = (settings, adam_eps);
        let update =
            match_precision!(&self.engine, |engine| self.learn_as(py, engine, policy, (obs, actions), args))?;
        let dict = PyDict::new(py);
        let CloningUpdate { loss, fit, grad_norm, .. } = update;
        for (name, number) in [("loss", loss), ("fit", fit), ("grad_norm", grad_norm)] {
            dict.set_item(name, number)?;
        }
        Ok(dict)
    }

    /// Computes the outputs of the network: logits, or means.
    ///
    /// Args:
    ///     parameters: the parameter vector, float32.
    ///     obs: `[n, obs_dim]`.
    ///     out: output, float32 `[n, size]`.
    ///
    /// Raises:
    ///     ShapeError: an array has another shape or dtype, or `out` shares memory with another
    ///         argument.
    fn outputs(
        &self,
        py: Python<'_>,
        parameters: &Bound<'_, PyAny>,
        obs: &Bound<'_, PyAny>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let obs = coerce::array(obs, "obs")?;
        coerce::check_ndim(&obs, "obs", &["n", "obs_dim"])?;
        let n = obs.shape().first().copied().unwrap_or(0);
        let (inputs, outputs) = (self.net.inputs(), self.net.outputs());
        coerce::check_shape(&obs, "obs", &[n, inputs], "as the network takes them")?;
        let obs: View<'_, f32> = coerce::numbers(&obs, "obs")?;
        let parameters: View<'_, f32> = read_numbers(parameters, "parameters", &[self.len])?;
        let mut out = coerce::output::<f32>(out, "out", &[n, outputs])?;
        let (parameters, obs, out) = (parameters.slice(), obs.slice(), out.slice_mut());
        let cost = n.saturating_mul(self.len);
        detached(py, cost, || {
            let mut memory = Memory::default();
            out.copy_from_slice(self.net.infer(parameters, obs, &mut memory)?);
            Ok(())
        })
    }
}

impl PyCloningEngine {
    fn learn_as<'py, F: Number + Plain>(
        &self,
        py: Python<'py>,
        engine: &Shared<CloningEngine<F>>,
        policy: &Bound<'py, PyAny>,
        (obs, actions): (&Bound<'py, PyAny>, &Bound<'py, PyAny>),
        (settings, eps): (CloningSettings, f64),
    ) -> PyResult<CloningUpdate> {
        let array = coerce::array(obs, "obs")?;
        coerce::check_ndim(&array, "obs", &["k", "rows", "obs_dim"])?;
        let [k, rows] = match *array.shape() {
            [k, rows, _] => [k, rows],
            _ => [0, 0],
        };
        let obs: View<'py, F> = read_numbers(obs, "obs", &[k, rows, self.net.inputs()])?;
        let action_views = self.read_actions::<F>(actions, [k, rows])?;
        let actions_taken = match &action_views {
            ActionViews::Choices(choices) => ActionsTaken::Choices(choices.slice(), None),
            ActionViews::Vectors(vectors) => ActionsTaken::Vectors(vectors.slice()),
        };
        let mut policy = AdamState::read(policy, "policy", self.len)?;
        let mut state = policy.for_engine(eps);
        let obs = obs.slice();
        let update = with_write_lock(py, engine, ALWAYS_RELEASE, |engine| {
            engine.learn(&mut state, (obs, actions_taken), rows, &settings)
        });
        policy.write_steps();
        update
    }

    fn read_actions<'py, F: Number + Plain>(
        &self,
        actions: &Bound<'py, PyAny>,
        [k, rows]: [usize; 2],
    ) -> PyResult<ActionViews<'py, F>> {
        if let ActionKind::Choices(_) = self.kind {
            let array = coerce::array(actions, "actions")?;
            coerce::check_shape(&array, "actions", &[k, rows], "one for each row of obs")?;
            return Ok(ActionViews::Choices(coerce::elements(&array, "actions", "iu")?));
        }
        Ok(ActionViews::Vectors(read_numbers(actions, "actions", &[k, rows, self.net.outputs()])?))
    }
}
