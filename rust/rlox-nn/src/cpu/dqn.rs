//! DQN: learns Q-values from batches of transitions (Mnih et al. 2015).

use rlox_core::Layout;
use rlox_core::error::{Error, Result};

use super::critics::TrainState;
use super::engine::{check_parameters, require_finite, require_step_settings};
use super::exploring::Exploration;
use super::gemm::Number;
use super::losses::{TdLoss, TdTargets};
use super::mlp::{resize, zeros};
use super::off_policy::{Layouts, LearnCall, LearnInputs, Metrics, OffPolicyEngine, require_no_deviation};
use super::optim::{Optimizer, clip};
use super::q_network::{QArchitecture, QMemory, QNetwork, argmax};
use super::replayed::{Batches, learn_batches};
use super::values::{Values, named_fields, take_activation};

/// Settings of one call of [`DqnEngine::learn`]. The caller applies schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DqnSettings {
    /// The loss of the TD error.
    pub loss: TdLoss,
    /// Whether the online network chooses the action whose Q-value the target network gives (double
    /// Q-learning, van Hasselt et al. 2016).
    pub double: bool,
    /// The optimizer's step size.
    pub learning_rate: f64,
    /// The global norm to which the gradient is clipped.
    pub max_grad_norm: Option<f64>,
}

/// The result of [`DqnEngine::learn`], as means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct DqnUpdate {
    /// The loss.
    pub loss: f64,
    /// The mean Q-value of the actions taken.
    pub q_mean: f64,
    /// The norm of the gradient before clipping.
    pub grad_norm: f64,
    /// The number of batches.
    pub steps: usize,
}

/// Learns the parameters of a [`QNetwork`] from replayed transitions. The caller owns the
/// parameters.
#[derive(Debug, Clone)]
pub struct DqnEngine<F> {
    net: QNetwork,
    layout: Layout,
    memory: QMemory<F>,
    /// Buffers for the passes over next observations.
    next_memory: QMemory<F>,
    gradient: Vec<F>,
    td_targets: Vec<F>,
    chosen_q: Vec<F>,
    slopes: Vec<F>,
    to_q: Vec<F>,
}

impl<F: Number> DqnEngine<F> {
    /// Returns the network that learns.
    #[must_use]
    pub const fn net(&self) -> &QNetwork {
        &self.net
    }

    /// Returns an engine for `net`, whose parameters are at the ranges of `layout`.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no memory for a gradient.
    pub fn new(net: QNetwork, layout: Layout) -> Result<Self> {
        let gradient = zeros(layout.len())?;
        let (memory, next_memory) = (QMemory::default(), QMemory::default());
        let (td_targets, chosen_q, slopes, to_q) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Ok(Self { net, layout, memory, next_memory, gradient, td_targets, chosen_q, slopes, to_q })
    }

    /// Takes one step for each batch. `target` holds the parameters of the target network; `errors`
    /// `[k, rows]` receives the TD error of each row.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] for columns that do not fit; [`Error::Config`] for
    /// settings out of range and an action that does not exist. Earlier steps keep their effect.
    pub fn learn(
        &mut self,
        parameters: &mut [F],
        target: &[F],
        optimizer: &mut Optimizer<'_, F>,
        batches: Batches<'_, F, i64>,
        settings: &DqnSettings,
        errors: &mut [F],
    ) -> Result<DqnUpdate> {
        require_step_settings(settings.learning_rate, settings.max_grad_norm)?;
        optimizer.check()?;
        let steps = batches.check(1, errors.len())?;
        let mut error_rows = errors.chunks_mut(batches.rows);
        let [loss, q_mean, grad_norm] = learn_batches(steps, |i| {
            let (batch, errors) = (batches.batch(i, steps), error_rows.next().unwrap_or_default());
            self.compute_targets(parameters, target, batch, settings.double)?;
            let (loss, q) = self.step(parameters, batch, settings.loss, errors)?;
            let norm = clip(&mut self.gradient, settings.max_grad_norm);
            require_finite(i, [("loss", loss), ("values", q), ("gradient norm", norm)])?;
            optimizer.step(parameters, &self.gradient, settings.learning_rate)?;
            Ok([loss, q, norm])
        })?;
        check_parameters(&self.layout, parameters)?;
        Ok(DqnUpdate { loss, q_mean, grad_norm, steps })
    }

    /// Computes the targets R + gamma^m Q'(s', argmax Q(s', .)). Without `double`, Q is the target
    /// network Q' too.
    fn compute_targets(
        &mut self,
        parameters: &[F],
        target: &[F],
        batch: Batches<'_, F, i64>,
        double: bool,
    ) -> Result<()> {
        let Self { net, memory, next_memory, td_targets, .. } = self;
        let target_q = net.forward(target, batch.next_obs, next_memory)?;
        let selecting_q = if double { net.forward(parameters, batch.next_obs, memory)? } else { target_q };
        td_targets.clear();
        let rows = target_q.chunks_exact(net.choices()).zip(selecting_q.chunks_exact(net.choices()));
        let rewards_and_discounts = batch.rewards.iter().zip(batch.discounts);
        td_targets.extend(rows.zip(rewards_and_discounts).map(
            |((target_row, selecting_row), (&reward, &discount))| {
                let best = target_row.get(argmax(selecting_row)).copied().unwrap_or(F::ZERO);
                reward + discount * best
            },
        ));
        Ok(())
    }

    /// Computes the gradient of a batch's loss. Returns the mean loss and the mean Q-value.
    fn step(
        &mut self,
        parameters: &[F],
        batch: Batches<'_, F, i64>,
        loss: TdLoss,
        errors: &mut [F],
    ) -> Result<(f64, f64)> {
        let Self { net, memory, gradient, td_targets, chosen_q, slopes, to_q, .. } = self;
        let choices = net.choices();
        let q = net.forward(parameters, batch.obs, memory)?;
        chosen_q.clear();
        for (row, (q, &action)) in q.chunks_exact(choices).zip(batch.actions).enumerate() {
            let chosen = usize::try_from(action).ok().and_then(|action| q.get(action));
            let Some(&chosen) = chosen else {
                let expected = format!("a choice from 0 to {}", choices - 1);
                return Err(Error::config(format!("action of row {row}"), action, expected));
            };
            chosen_q.push(chosen);
        }
        slopes.resize(chosen_q.len(), F::ZERO);
        let targets = TdTargets { values: td_targets, weights: batch.weights };
        let mean_loss = loss.gradient(chosen_q, targets, (errors, slopes))?;
        to_q.clear();
        resize(to_q, chosen_q.len() * choices)?;
        let rows = to_q.chunks_exact_mut(choices).zip(batch.actions.iter().zip(&*slopes));
        for (to_q, (&action, &slope)) in rows {
            let slope_slot = usize::try_from(action).ok().and_then(|action| to_q.get_mut(action));
            if let Some(slot) = slope_slot {
                *slot = slope;
            }
        }
        gradient.fill(F::ZERO);
        net.backward(parameters, batch.obs, memory, to_q, gradient)?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let n = chosen_q.len() as f64;
        Ok((mean_loss, chosen_q.iter().map(|q| q.to_f64()).sum::<f64>() / n))
    }
}

impl<F: Number> DqnEngine<F> {
    /// Returns an engine for the network `q`.
    pub(super) fn from_values(layouts: &mut Layouts, architecture: &mut Values) -> Result<Self> {
        let layout = layouts.take("q")?;
        let activation = take_activation(architecture)?;
        let (obs_dim, choices) = (architecture.take("obs_dim")?, architecture.take("size")?);
        let (hidden, dueling) = (architecture.take("hidden")?, architecture.take("dueling")?);
        let architecture = QArchitecture { obs_dim, choices, hidden, activation, dueling };
        Self::new(QNetwork::new(&layout, &architecture)?, layout)
    }
}

impl<F: Number> OffPolicyEngine<F> for DqnEngine<F> {
    fn obs_dim(&self) -> usize {
        self.net.inputs()
    }

    fn action_dim(&self) -> usize {
        0
    }

    fn vector_lens(&self) -> Vec<(&'static str, usize)> {
        vec![("q", self.layout.len())]
    }

    fn exploration(&self, deviation: f32) -> Result<(&'static str, Exploration)> {
        require_no_deviation(deviation)?;
        Ok(("q", Exploration::Greedy(self.net.clone())))
    }

    fn learn(&mut self, mut call: LearnCall<'_, F>) -> Result<Metrics> {
        let loss = TdLoss::from_name(&call.settings.take::<String>("loss")?)?;
        let (learning_rate, max_grad_norm) =
            (call.settings.take("learning_rate")?, call.settings.take("max_grad_norm")?);
        let settings =
            DqnSettings { loss, double: call.settings.take("double")?, learning_rate, max_grad_norm };
        let TrainState { parameters, mut optimizer } = call.learned.take("q")?;
        let target = call.targets.take("q")?;
        let LearnInputs { batches, errors, .. } = call.finish()?;
        let update = self.learn(parameters, target, &mut optimizer, batches.choices()?, &settings, errors)?;
        Ok(named_fields!(update { loss, q_mean, grad_norm }))
    }
}
