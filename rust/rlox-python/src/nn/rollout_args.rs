//! Inputs of an engine: its architecture, and columns of a rollout.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::Layout;
use rlox_nn::cpu::{ActionKind, ActionsTaken, Activation, Architecture, Number, RolloutRows};

use crate::convert::coerce;
use crate::errors::{self, ErrorClass, OrRaise, ReplaceRefusal};
use crate::memory::views::{Plain, View};

/// Parameters begin at multiples of 64 bytes of float32, as in `rlox.optim.FlatParameters`.
const ALIGN: usize = 16;

/// Reads names and shapes in the order of the parameter vector.
pub(super) fn read_layout(names_and_shapes: &Bound<'_, PyAny>) -> PyResult<Layout> {
    let py = names_and_shapes.py();
    let names_and_shapes_list =
        names_and_shapes.extract::<Vec<(String, Vec<usize>)>>().replace_refusal(py, |_| {
            let message = format!(
                "parameters is {}, expected pairs of a name and a shape",
                coerce::short_repr(names_and_shapes)
            );
            errors::new(py, ErrorClass::Config, message)
        })?;
    Layout::aligned(ALIGN, names_and_shapes_list).or_raise(py)
}

/// Returns the networks that `kind`, sizes, widths and activation describe.
pub(super) fn read_architecture(
    py: Python<'_>,
    (kind, size, obs_dim): (&str, usize, usize),
    widths: (&Bound<'_, PyAny>, &Bound<'_, PyAny>),
    activation: &str,
) -> PyResult<Architecture> {
    let kind = match kind {
        "choices" => ActionKind::Choices(size),
        "numbers" => ActionKind::Gaussian(size),
        "sde" => ActionKind::Sde(size),
        _ => {
            let message = format!("kind is {kind:?}, expected choices, numbers or sde");
            return Err(errors::new(py, ErrorClass::Config, message));
        }
    };
    let activation = Activation::from_name(activation).or_raise(py)?;
    let (actor, critic) = (read_widths(widths.0, "actor")?, read_widths(widths.1, "critic")?);
    Ok(Architecture { obs_dim, kind, actor, critic, activation })
}

/// Reads the widths of hidden layers.
pub(super) fn read_widths(widths: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<usize>> {
    let py = widths.py();
    widths.extract().replace_refusal(py, |_| {
        let message = format!(
            "{name} is {}, expected widths of hidden layers, integers of at least 0",
            coerce::short_repr(widths)
        );
        errors::new(py, ErrorClass::Config, message)
    })
}

/// Columns of a rollout, as Python passes them.
pub(super) struct RolloutArgs<'a, 'py> {
    pub(super) obs: &'a Bound<'py, PyAny>,
    pub(super) actions: &'a Bound<'py, PyAny>,
    /// Log probabilities and values of the policy that acted; None where no code reads them.
    pub(super) old_policy: Option<[&'a Bound<'py, PyAny>; 2]>,
    pub(super) advantages: &'a Bound<'py, PyAny>,
    pub(super) returns: &'a Bound<'py, PyAny>,
    pub(super) mask: Option<&'a Bound<'py, PyAny>>,
}

/// The same columns as slices.
pub(super) struct RolloutViews<'py, F> {
    obs: View<'py, F>,
    obs_dim: usize,
    actions: Actions<'py, F>,
    old_policy: Option<[View<'py, F>; 2]>,
    estimates: [View<'py, F>; 2],
}

enum Actions<'py, F> {
    Choices(View<'py, i64>, Option<Vec<bool>>),
    Vectors(View<'py, F>),
}

impl<'py> RolloutArgs<'_, 'py> {
    /// Reads the columns for networks of this architecture.
    pub(super) fn read<F: Number + Plain>(
        &self,
        architecture: &Architecture,
    ) -> PyResult<RolloutViews<'py, F>> {
        let obs_dim = architecture.obs_dim;
        let obs = coerce::array(self.obs, "obs")?;
        coerce::check_ndim(&obs, "obs", &["rows", "obs_dim"])?;
        let n = obs.shape().first().copied().unwrap_or(0);
        coerce::check_shape(&obs, "obs", &[n, obs_dim], "as the networks take them")?;
        let actions = coerce::array(self.actions, "actions")?;
        let actions = match architecture.kind {
            ActionKind::Choices(_) => {
                coerce::check_shape(&actions, "actions", &[n], "one for each row of obs")?;
                let mask = self.mask.map(|mask_arg| read_mask(mask_arg, architecture, n)).transpose()?;
                Actions::Choices(coerce::elements(&actions, "actions", "iu")?, mask)
            }
            ActionKind::Gaussian(size) | ActionKind::Sde(size) => {
                self.mask.map(|mask_value| read_mask(mask_value, architecture, n)).transpose()?;
                let why = "one row of size numbers for each row of obs";
                coerce::check_shape(&actions, "actions", &[n, size], why)?;
                Actions::Vectors(coerce::numbers(&actions, "actions")?)
            }
        };
        let column = |value: &Bound<'py, PyAny>, name: &str| -> PyResult<View<'py, F>> {
            let array: Bound<'py, PyUntypedArray> = coerce::array(value, name)?;
            coerce::check_shape(&array, name, &[n], "one for each row of obs")?;
            coerce::numbers(&array, name)
        };
        let old_policy = self.old_policy.map(|[log_probs, values]| {
            Ok::<_, PyErr>([column(log_probs, "log_probs")?, column(values, "values")?])
        });
        let old_policy_views = old_policy.transpose()?;
        let estimates = [column(self.advantages, "advantages")?, column(self.returns, "returns")?];
        Ok(RolloutViews {
            obs: coerce::numbers(&obs, "obs")?,
            obs_dim,
            actions,
            old_policy: old_policy_views,
            estimates,
        })
    }
}

/// Reads which choices are allowed in each of n rows.
pub(super) fn read_mask(
    value: &Bound<'_, PyAny>,
    architecture: &Architecture,
    n: usize,
) -> PyResult<Vec<bool>> {
    let ActionKind::Choices(size) = architecture.kind else {
        let message = "mask is given, but the actions are numbers; only choices can be masked";
        return Err(errors::new(value.py(), ErrorClass::Config, message));
    };
    let mask = coerce::array(value, "mask")?;
    coerce::check_shape(&mask, "mask", &[n, size], "one flag for each choice in each row of obs")?;
    Ok(coerce::bools(&mask, "mask")?.slice().iter().map(|&allowed| allowed != 0).collect())
}

impl<F> RolloutViews<'_, F>
where
    F: Number + Plain,
{
    pub(super) fn rows(&self) -> RolloutRows<'_, F> {
        let [advantages, returns] = &self.estimates;
        // Columns that no code reads may have any values of the right length.
        let (log_probs, values) = match &self.old_policy {
            Some([log_probs, values]) => (log_probs, values),
            None => (returns, returns),
        };
        RolloutRows {
            obs: self.obs.slice(),
            obs_dim: self.obs_dim,
            actions: match &self.actions {
                Actions::Choices(actions, mask) => ActionsTaken::Choices(actions.slice(), mask.as_deref()),
                Actions::Vectors(actions) => ActionsTaken::Vectors(actions.slice()),
            },
            log_probs: log_probs.slice(),
            values: values.slice(),
            advantages: advantages.slice(),
            returns: returns.slice(),
        }
    }
}

/// The orders in which PPO visits the rows, `[passes, n]`.
pub(super) struct Order<'py> {
    pub(super) passes: usize,
    n: usize,
    rows: View<'py, i64>,
}

impl<'py> Order<'py> {
    pub(super) fn read(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        let order = coerce::array(value, "order")?;
        coerce::check_ndim(&order, "order", &["passes", "n"])?;
        let (passes, n) = match *order.shape() {
            [passes, n] => (passes, n),
            _ => (0, 0),
        };
        let rows = coerce::elements::<i64>(&order, "order", "iu")?;
        if let Some(row) = rows.slice().iter().find(|&&row| row < 0) {
            let message = format!("order has row {row}, expected at least 0");
            return Err(errors::new(value.py(), ErrorClass::Config, message));
        }
        Ok(Self { passes, n, rows })
    }

    /// Returns a function that writes the row indices of a pass into a vector.
    pub(super) fn pass_rows(&self) -> impl FnMut(usize, &mut Vec<usize>) + Send {
        let (all, n) = (self.rows.slice(), self.n);
        move |pass, places| {
            places.clear();
            let pass = all.get(pass * n..(pass + 1) * n).unwrap_or_default();
            places.extend(pass.iter().map(|&row| usize::try_from(row).unwrap_or(usize::MAX)));
        }
    }
}
