//! Hindsight relabelling for Python.

use numpy::{PyArrayDyn, PyUntypedArrayMethods};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rlox_core::Error;
use rlox_core::Shared;
use rlox_core::buffer::{
    Batch, BatchKind, GoalStrategy, Hindsight, InMemoryBuffer, NStep, ObsKind, ReplayBuffer, RowRef,
};

use super::arrays::Arrays;
use super::columns::Columns;
use super::shared;
use super::shared::SampleArgs;
use crate::convert::coerce::{self, IntegerArg, TextArg};
use crate::detach::with_read_lock;
use crate::errors::{self, ErrorClass, OrRaise};
use crate::memory::views::{View, ViewMut};

/// How `ReplayBuffer.sample(her=...)` replaces goals (Andrychowicz et al. 2017, section 4.5).
///
/// The buffer needs dict observations with `achieved_goal` and `desired_goal`. A sampled transition
/// is relabelled with probability `ratio`: `desired_goal` of both its observations becomes the
/// `achieved_goal` of `next_obs` in a transition of the same episode, and its reward is computed
/// anew. `terminated` and `truncated` stay. A running episode counts up to its newest transition,
/// and a partly overwritten one from its oldest.
///
/// Args:
///     compute_reward: a function `compute_reward(achieved_goal, desired_goal, info)` of the m
///         relabelled transitions. It gets the `achieved_goal` of `next_obs` and the new goals,
///         `[m, ...]`, and an empty dict, and returns finite rewards, `[m]`. The `compute_reward` of
///         a Gymnasium-Robotics environment has this form.
///     strategy: the transition that the goal is from: "future" (any from the relabelled one on),
///         "final" (the episode's last) or "episode" (any).
///     k: number of relabelled transitions per transition that is not relabelled: `ratio` is k / (k
///         + 1).
///     ratio: the probability itself, in [0, 1], instead of `k`.
///
/// Raises:
///     UnknownNameError: the strategy does not exist.
///     ConfigError: `ratio` is out of range, or `compute_reward` cannot be called.
#[pyclass(name = "HindsightConfig", module = "rlox._core", frozen)]
pub(crate) struct PyHindsightConfig {
    compute_reward: Py<PyAny>,
    hindsight: Hindsight,
}

#[pymethods]
impl PyHindsightConfig {
    #[new]
    #[pyo3(
        signature = (compute_reward, strategy=TextArg::Omitted("future"), k=IntegerArg::OMITTED, *, ratio=None),
        text_signature = "(compute_reward, strategy='future', k=4, *, ratio=None)"
    )]
    fn new(
        py: Python<'_>,
        compute_reward: Py<PyAny>,
        strategy: TextArg<'_>,
        k: IntegerArg<'_>,
        ratio: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        if !compute_reward.bind(py).is_callable() {
            let shown = coerce::short_repr(compute_reward.bind(py));
            let message = format!(
                "compute_reward is {shown}, expected compute_reward(achieved_goal, desired_goal, info)"
            );
            return Err(errors::new(py, ErrorClass::Config, message));
        }
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let k = k.read("k", 4)? as f64;
        let ratio = coerce::optional_real(ratio, "ratio")?.unwrap_or(k / (k + 1.0));
        let result = GoalStrategy::parse(&strategy.read("strategy")?)
            .and_then(|strategy| Hindsight::new(strategy, ratio));
        Ok(Self { compute_reward, hindsight: result.or_raise(py)? })
    }

    /// Name of the strategy.
    #[getter]
    fn strategy(&self) -> &'static str {
        self.hindsight.strategy().name()
    }

    /// Probability that a sampled transition is relabelled.
    #[getter]
    const fn ratio(&self) -> f64 {
        self.hindsight.ratio()
    }
}

/// The name of the result of `compute_reward` in messages.
const RESULT_NAME: &str = "compute_reward's result";

/// The columns of the goals.
#[derive(Clone, Copy)]
struct GoalColumns {
    achieved: usize,
    desired: usize,
    /// Bytes of a goal.
    goal_bytes: usize,
}

impl GoalColumns {
    fn from_columns(py: Python<'_>, columns: &Columns) -> PyResult<Self> {
        let obs = columns.schema().obs();
        let find = |name| obs.iter().position(|column| column.field.name == name);
        let same = |a: usize, b: usize| {
            let field = |at: usize| obs.get(at).map(|column| (&column.field.dtype, &column.field.shape));
            field(a) == field(b)
        };
        match (find("achieved_goal"), find("desired_goal")) {
            (Some(achieved), Some(desired)) if same(achieved, desired) => {
                let width = obs.get(desired).map_or(0, |column| column.field.row_bytes());
                Ok(Self { achieved, desired, goal_bytes: width })
            }
            _ => {
                let message = "her needs dict observations with achieved_goal and desired_goal of \
                               one dtype and shape; pass obs_spaces";
                Err(errors::new(py, ErrorClass::Config, message))
            }
        }
    }
}

impl GoalColumns {
    /// Writes one new goal per position into both observations of a batch.
    fn replace(self, batch: &mut Batch<'_, '_>, positions: &[usize], new_goals: &[u8]) {
        for columns in [&mut *batch.obs, &mut *batch.next_obs] {
            let Some(out) = columns.get_mut(self.desired) else { continue };
            for (place, goal) in positions.iter().zip(new_goals.chunks_exact(self.goal_bytes)) {
                if let Some(slot) = out.chunks_exact_mut(self.goal_bytes).nth(*place) {
                    slot.copy_from_slice(goal);
                }
            }
        }
    }
}

/// Samples with hindsight.
pub(super) fn sample<'py>(
    py: Python<'py>,
    (columns, buffer): (&Columns, &Shared<ReplayBuffer>),
    args: &SampleArgs,
    n_step: Option<NStep>,
    config: &PyHindsightConfig,
    out: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    if n_step.is_some() {
        let expected = "None with her: rewards are computed anew for single steps";
        return Err(Error::config("n_step", "given", expected)).or_raise(py);
    }
    let goals = GoalColumns::from_columns(py, columns)?;
    let (request, hindsight) = (args.request, config.hindsight);
    let rows = request.rows().or_raise(py)?;
    let mut arrays = Arrays::new(py, columns, &args.lead, BatchKind::Transitions, out)?;
    let positions = arrays.fill_with(py, |batch| {
        with_read_lock(py, buffer, shared::copy_nanoseconds(columns, rows), |buffer| {
            let draws = buffer.sample_hindsight(request, hindsight)?;
            buffer.gather(&draws.rows, None, batch)?;
            let (row_positions, sources): (Vec<usize>, Vec<RowRef>) =
                draws.relabels.iter().map(|relabel| (relabel.index, relabel.goal)).unzip();
            let mut new_goals = vec![0; row_positions.len() * goals.goal_bytes];
            buffer.rows().gather_obs(goals.achieved, ObsKind::NextObs, &sources, &mut new_goals)?;
            goals.replace(batch, &row_positions, &new_goals);
            Ok(row_positions)
        })
    })?;
    let batch = arrays.into_dict(py)?;
    if !positions.is_empty() {
        recompute_rewards(py, &batch, &positions, &args.lead, config)?;
    }
    Ok(batch)
}

/// Computes the rewards of the relabelled rows anew.
fn recompute_rewards(
    py: Python<'_>,
    batch: &Bound<'_, PyDict>,
    positions: &[usize],
    lead: &[usize],
    config: &PyHindsightConfig,
) -> PyResult<()> {
    let mut indices = ViewMut::<u64>::fresh(py, &[positions.len()])?;
    for (slot, &place) in indices.slice_mut().iter_mut().zip(positions) {
        *slot = place as u64;
    }
    let index = indices.into_array();
    let achieved =
        merge_leading_axes(&batch.as_any().get_item("next_obs")?.get_item("achieved_goal")?, lead)?;
    let desired = merge_leading_axes(&batch.as_any().get_item("obs")?.get_item("desired_goal")?, lead)?;
    let goals = (achieved.get_item(&index)?, desired.get_item(&index)?, PyDict::new(py));
    let rewards = config.compute_reward.bind(py).call1(goals)?;
    let rewards = coerce::array(&rewards, RESULT_NAME)?;
    if rewards.len() != positions.len() {
        let message = format!(
            "compute_reward returned shape {:?}, expected one reward for each of {} transitions",
            rewards.shape(),
            positions.len()
        );
        return Err(errors::new(py, ErrorClass::Shape, message));
    }
    let column = merge_leading_axes(&batch.as_any().get_item("rewards")?, lead)?;
    let is_single = column.cast::<PyArrayDyn<f32>>().is_ok();
    let numbers: View<'_, f64> = coerce::numbers(&rewards, RESULT_NAME)?;
    #[expect(clippy::cast_possible_truncation, reason = "as the column keeps it")]
    let fits = |reward: f64| if is_single { (reward as f32).is_finite() } else { reward.is_finite() };
    if let Some(reward) = numbers.slice().iter().find(|&&reward| !fits(reward)) {
        let dtype = if is_single { "float32" } else { "float64" };
        let message = format!(
            "compute_reward returned {reward:?} for a goal, expected numbers that are finite in {dtype}"
        );
        return Err(errors::new(py, ErrorClass::NonFinite, message));
    }
    let rewards = rewards.call_method1(intern!(py, "reshape"), (positions.len(),))?;
    column.set_item(index, rewards)
}

/// Returns an array of a batch with its leading axes merged, `[rows, ...]`, on the same memory.
fn merge_leading_axes<'py>(array: &Bound<'py, PyAny>, lead: &[usize]) -> PyResult<Bound<'py, PyAny>> {
    let array = coerce::array(array, "batch")?;
    let row = array.shape().get(lead.len()..).unwrap_or_default();
    let shape: Vec<usize> = std::iter::once(lead.iter().product()).chain(row.iter().copied()).collect();
    array.call_method1(intern!(array.py(), "reshape"), (shape,))
}
