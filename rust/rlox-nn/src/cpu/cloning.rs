//! Behavioural cloning from batches of recorded actions (Pomerleau 1991).

use rlox_core::Layout;
use rlox_core::error::{Error, Result, check_len};

use super::actor_critic::ActionKind;
use super::critics::TrainState;
use super::engine::{check_parameters, require_finite, require_step_settings};
use super::exploring::Exploration;
use super::gemm::Number;
use super::heads::{ActionsTaken, Head, HeadMemory, Scores, ToScores};
use super::mlp::{GradientBuffers, Memory, Mlp, parameter_shapes, resize, zeros};
use super::off_policy::{
    Layouts, LearnCall, LearnInputs, Metrics, OffPolicyEngine, TransitionBatches, check_names,
    require_no_deviation, require_no_weights,
};
use super::q_network::QNetwork;
use super::replayed::{learn_batches, part};
use super::values::{Values, named_fields, take_activation, take_fields};

/// Settings of one call of [`CloningEngine::learn`]. The caller applies schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CloningSettings {
    /// The optimizer's step size.
    pub learning_rate: f64,
    /// The norm to which the gradient is clipped.
    pub max_grad_norm: Option<f64>,
    /// Whether vectors are learned by the mean squared error of the means instead of the
    /// likelihood.
    pub squared: bool,
}

/// The result of [`CloningEngine::learn`], as means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct CloningUpdate {
    /// -E\[log pi(a | o)\], or the squared error.
    pub loss: f64,
    /// The fraction of choices that have the largest logit, or the mean absolute error of the
    /// means.
    pub fit: f64,
    /// The norm of the gradient before clipping.
    pub grad_norm: f64,
}

/// Learns a policy, a softmax of logits or a Gaussian, from recorded actions.
#[derive(Debug, Clone)]
pub struct CloningEngine<F> {
    net: Mlp,
    layout: Layout,
    head: Head,
    memory: Memory<F>,
    head_memory: HeadMemory<F>,
    gradient: Vec<F>,
    log_probs: Vec<F>,
    entropy: Vec<F>,
    slopes: Vec<F>,
    to_outputs: Vec<F>,
}

impl<F: Number> CloningEngine<F> {
    /// Returns an engine for a network whose parameters are at the ranges of `layout`. For vectors
    /// the layout has `log_std` too.
    ///
    /// # Errors
    /// [`Error::UnknownName`] and [`Error::Shape`] for `log_std`; [`Error::Config`] for gSDE, and
    /// if there is no memory for a gradient.
    pub fn new(net: Mlp, layout: Layout, kind: ActionKind) -> Result<Self> {
        let head = match kind {
            ActionKind::Choices(n) => Head::Categorical { n },
            ActionKind::Gaussian(dim) => Head::Gaussian { dim, log_std: layout.range("log_std", &[dim])? },
            ActionKind::Sde(_) => return Err(Error::config("kind", "sde", "choices or numbers")),
        };
        let gradient = zeros(layout.len())?;
        Ok(Self {
            net,
            layout,
            head,
            memory: Memory::default(),
            head_memory: HeadMemory::default(),
            gradient,
            log_probs: Vec::new(),
            entropy: Vec::new(),
            slopes: Vec::new(),
            to_outputs: Vec::new(),
        })
    }

    /// Takes one step for each batch of `rows` rows, on observations `[k, rows, obs_dim]` and the
    /// actions that were taken.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] and [`Error::Config`] for columns and actions that
    /// do not fit. Earlier steps keep their effect.
    pub fn learn(
        &mut self,
        state: &mut TrainState<'_, F>,
        (obs, actions_taken): (&[F], ActionsTaken<'_, F>),
        rows: usize,
        settings: &CloningSettings,
    ) -> Result<CloningUpdate> {
        settings.check(&self.head)?;
        state.optimizer.check()?;
        let n = obs.len() / self.net.inputs().max(1);
        if rows == 0 || n == 0 {
            return Err(Error::config("rows of a batch", 0, "at least 1"));
        }
        check_len("obs", obs.len(), n / rows * rows * self.net.inputs(), "whole batches")?;
        let count = n / rows;
        let [loss, fit, grad_norm] = learn_batches(count, |i| {
            let batch = (part(obs, i, count), batch_of(actions_taken, i, count));
            let CloningUpdate { loss, fit, grad_norm } = self.step(state, batch, settings)?;
            require_finite(i, [("loss", loss), ("gradient norm", grad_norm)])?;
            Ok([loss, fit, grad_norm])
        })?;
        check_parameters(&self.layout, state.parameters)?;
        Ok(CloningUpdate { loss, fit, grad_norm })
    }

    fn step(
        &mut self,
        state: &mut TrainState<'_, F>,
        (obs, actions_taken): (&[F], ActionsTaken<'_, F>),
        settings: &CloningSettings,
    ) -> Result<CloningUpdate> {
        let Self { net, memory, gradient, to_outputs, .. } = self;
        net.forward(state.parameters, obs, memory)?;
        gradient.fill(F::ZERO);
        resize(to_outputs, memory.last_outputs().len())?;
        let fit = measure_fit(memory.last_outputs(), actions_taken);
        let loss = match actions_taken {
            ActionsTaken::Vectors(vectors) if settings.squared => {
                squared_error(memory.last_outputs(), vectors, to_outputs)?
            }
            _ => self.negative_log_likelihood(state.parameters, actions_taken)?,
        };
        let Self { net, memory, gradient, to_outputs, .. } = self;
        let buffers = GradientBuffers::parameters(gradient.as_mut_slice());
        net.backward(state.parameters, obs, memory, to_outputs, buffers)?;
        let grad_norm = state.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        Ok(CloningUpdate { loss, fit, grad_norm })
    }

    /// Returns -E[log pi(a | o)]. Computes the gradient with respect to the outputs and to the head's
    /// own parameters.
    fn negative_log_likelihood(
        &mut self,
        parameters: &[F],
        actions_taken: ActionsTaken<'_, F>,
    ) -> Result<f64> {
        let n = self.memory.last_outputs().len() / self.net.outputs().max(1);
        self.log_probs.resize(n, F::ZERO);
        self.entropy.resize(n, F::ZERO);
        let scores = Scores { log_probs: &mut self.log_probs, entropy: &mut self.entropy };
        self.head.score(parameters, &self.memory, actions_taken, &mut self.head_memory, scores)?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let rows = n as f64;
        self.slopes.clear();
        self.slopes.resize(n, F::from_f64(-1.0 / rows));
        let to_scores = (self.entropy.as_slice(), ToScores { log_probs: &self.slopes, entropy: F::ZERO });
        let out = (self.to_outputs.as_mut_slice(), self.gradient.as_mut_slice());
        self.head.backward(parameters, actions_taken, &mut self.head_memory, to_scores, out)?;
        Ok(-self.log_probs.iter().map(|p| p.to_f64()).sum::<f64>() / rows)
    }
}

impl<F: Number> CloningEngine<F> {
    /// Returns an engine for the network `policy`. Its outputs are the logits of `size` choices, or,
    /// with the setting `gaussian`, the means of vectors; then its vector also has `log_std`.
    pub(super) fn from_values(layouts: &mut Layouts, architecture: &mut Values) -> Result<Self> {
        let layout = layouts.take("policy")?;
        let (obs_dim, size): (usize, usize) = (architecture.take("obs_dim")?, architecture.take("size")?);
        let hidden: Vec<usize> = architecture.take("hidden")?;
        let activation = take_activation(architecture)?;
        let sizes = [&[obs_dim], hidden.as_slice(), &[size]].concat();
        let net = Mlp::new(&layout, "net", &sizes, activation)?;
        let is_gaussian: bool = architecture.take("gaussian")?;
        let extra_names: &[&str] = if is_gaussian { &["log_std"] } else { &[] };
        check_names(&layout, "a policy", &parameter_shapes("net", &sizes), extra_names)?;
        let kind = if is_gaussian { ActionKind::Gaussian(size) } else { ActionKind::Choices(size) };
        Self::new(net, layout, kind)
    }
}

impl<F: Number> OffPolicyEngine<F> for CloningEngine<F> {
    fn obs_dim(&self) -> usize {
        self.net.inputs()
    }

    fn action_dim(&self) -> usize {
        if matches!(self.head, Head::Categorical { .. }) { 0 } else { self.net.outputs() }
    }

    fn vector_lens(&self) -> Vec<(&'static str, usize)> {
        vec![("policy", self.layout.len())]
    }

    fn exploration(&self, deviation: f32) -> Result<(&'static str, Exploration)> {
        require_no_deviation(deviation)?;
        let net = self.net.clone();
        let exploration = match self.head {
            Head::Categorical { .. } => Exploration::Greedy(QNetwork::plain(net)),
            _ => Exploration::Outputs(net),
        };
        Ok(("policy", exploration))
    }

    fn learn(&mut self, mut call: LearnCall<'_, F>) -> Result<Metrics> {
        let settings = take_fields!(call.settings, CloningSettings { learning_rate, max_grad_norm, squared });
        let mut state = call.learned.take("policy")?;
        let LearnInputs { batches, .. } = call.finish()?;
        let (rows, obs, actions_taken, weights) = match batches {
            TransitionBatches::Choices(b) => {
                (b.rows, b.obs, ActionsTaken::Choices(b.actions, None), b.weights)
            }
            TransitionBatches::Vectors(b) => (b.rows, b.obs, ActionsTaken::Vectors(b.actions), b.weights),
        };
        require_no_weights(weights)?;
        let update = self.learn(&mut state, (obs, actions_taken), rows, &settings)?;
        Ok(named_fields!(update { loss, fit, grad_norm }))
    }
}

/// Returns the actions of batch i of `count`.
fn batch_of<F>(actions_taken: ActionsTaken<'_, F>, i: usize, count: usize) -> ActionsTaken<'_, F> {
    match actions_taken {
        ActionsTaken::Choices(choices, action_mask) => {
            ActionsTaken::Choices(part(choices, i, count), action_mask.map(|flags| part(flags, i, count)))
        }
        ActionsTaken::Vectors(vectors) => ActionsTaken::Vectors(part(vectors, i, count)),
    }
}

/// Returns the mean squared error of the means, and writes its gradient.
fn squared_error<F: Number>(means: &[F], targets: &[F], to_means: &mut [F]) -> Result<f64> {
    check_len("actions", targets.len(), means.len(), "one for each observation")?;
    #[expect(clippy::cast_precision_loss, reason = "numbers of a batch")]
    let n = means.len() as f64;
    let (mut sum, scale) = (0.0, F::from_f64(2.0 / n));
    for ((slope, &mean), &target) in to_means.iter_mut().zip(means).zip(targets) {
        let error = mean - target;
        sum += (error * error).to_f64();
        *slope = error * scale;
    }
    Ok(sum / n)
}

/// Returns the fraction of choices that are the most likely ones (the first of equals), or the mean
/// absolute error of vectors.
fn measure_fit<F: Number>(outputs: &[F], actions_taken: ActionsTaken<'_, F>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of a batch")]
    let average = |sum: f64, n: usize| sum / n as f64;
    match actions_taken {
        ActionsTaken::Choices(choices, _) => {
            let rows = outputs.chunks_exact(outputs.len() / choices.len().max(1));
            let matches = rows.zip(choices).filter(|(row, choice)| argmax(row) == **choice);
            #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
            average(matches.count() as f64, choices.len())
        }
        ActionsTaken::Vectors(vectors) => {
            let errors = outputs.iter().zip(vectors).map(|(&mean, &taken)| (mean - taken).to_f64().abs());
            average(errors.sum(), outputs.len())
        }
    }
}

fn argmax<F: Number>(logits: &[F]) -> i64 {
    let mut best = (0, F::from_f64(f64::NEG_INFINITY));
    for (choice, &logit) in (0..).zip(logits) {
        if logit > best.1 {
            best = (choice, logit);
        }
    }
    best.0
}

impl CloningSettings {
    /// # Errors
    /// [`Error::Config`] for a setting out of its range, and for the squared error of choices.
    fn check(&self, head: &Head) -> Result<()> {
        require_step_settings(self.learning_rate, self.max_grad_norm)?;
        if self.squared && matches!(head, Head::Categorical { .. }) {
            return Err(Error::config("squared", true, "false: these actions are choices"));
        }
        Ok(())
    }
}
