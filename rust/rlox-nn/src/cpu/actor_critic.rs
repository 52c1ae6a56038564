//! A policy and a value function that share no parameters.

use rlox_core::{Error, Layout, Result};

use super::activation::Activation;
use super::gemm::Number;
use super::heads::{ActionsTaken, Head, HeadMemory, Scores, ToScores};
use super::losses::{Evaluation, Slopes};
use super::mlp::{GradientBuffers, Memory, Mlp, parameter_shapes};

/// The architecture of an [`ActorCritic`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Architecture {
    /// The length of an observation.
    pub obs_dim: usize,
    /// The kind of action.
    pub kind: ActionKind,
    /// Widths of the actor's hidden layers.
    pub actor: Vec<usize>,
    /// Widths of the critic's hidden layers.
    pub critic: Vec<usize>,
    /// The activation of all hidden layers.
    pub activation: Activation,
}

/// The kind of action, its size, and the distribution it is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionKind {
    /// One of this many choices.
    Choices(usize),
    /// A vector of this length, with a learned standard deviation for each number.
    Gaussian(usize),
    /// A vector of this length, with deviations that depend on the last hidden layer (gSDE).
    Sde(usize),
}

impl Architecture {
    /// Returns the names and shapes of the parameters, in the order of torch's modules.
    #[must_use]
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = parameter_shapes("actor", &self.sizes(&self.actor, self.kind.outputs()));
        shapes.extend(parameter_shapes("critic", &self.sizes(&self.critic, 1)));
        let shape = match self.kind {
            ActionKind::Choices(_) => return shapes,
            ActionKind::Gaussian(dim) => vec![dim],
            ActionKind::Sde(dim) => vec![self.features(), dim],
        };
        // torch lists a module's own parameters before those of its submodules.
        shapes.insert(0, ("log_std".to_owned(), shape));
        shapes
    }

    fn sizes(&self, hidden: &[usize], outputs: usize) -> Vec<usize> {
        [&[self.obs_dim], hidden, &[outputs]].concat()
    }

    fn features(&self) -> usize {
        self.actor.last().copied().unwrap_or(self.obs_dim)
    }
}

impl ActionKind {
    /// Returns the number of outputs of the actor's network.
    #[must_use]
    pub const fn outputs(self) -> usize {
        match self {
            Self::Choices(n) | Self::Gaussian(n) | Self::Sde(n) => n,
        }
    }
}

/// An actor and a critic over one parameter vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorCritic {
    pub(super) actor: Mlp,
    pub(super) critic: Mlp,
    pub(super) head: Head,
}

/// Buffers of a forward and a backward pass.
#[derive(Debug, Clone, Default)]
pub struct ActorCriticMemory<F> {
    pub(super) actor: Memory<F>,
    pub(super) critic: Memory<F>,
    pub(super) head: HeadMemory<F>,
    log_probs: Vec<F>,
    entropy: Vec<F>,
    to_log_probs: Vec<F>,
    to_values: Vec<F>,
    to_outputs: Vec<F>,
}

impl ActorCritic {
    /// Returns the networks of this architecture, whose parameters are at the ranges of `layout`.
    ///
    /// # Errors
    /// [`rlox_core::Error::UnknownName`] for a missing parameter, [`rlox_core::Error::Shape`] for a
    /// parameter of another shape, [`rlox_core::Error::Config`] for parameters of layers that the
    /// architecture does not have, and for gSDE without a hidden layer.
    pub fn new(layout: &Layout, architecture: &Architecture) -> Result<Self> {
        let (outputs, shapes) = (architecture.kind.outputs(), architecture.parameter_shapes());
        if matches!(architecture.kind, ActionKind::Sde(_)) && architecture.actor.is_empty() {
            let expected = "at least one hidden layer, of which the noise is a function";
            return Err(Error::config("widths of the actor", "empty", expected));
        }
        let is_known = |name: &str| shapes.iter().any(|(own_name, _)| own_name == name);
        if let Some((name, ..)) = layout.arrays().find(|(name, ..)| !is_known(name)) {
            let expected = "a parameter of these networks, whose layers have other names";
            return Err(Error::config("parameter", name, expected));
        }
        let head = match architecture.kind {
            ActionKind::Choices(n) => Head::Categorical { n },
            ActionKind::Gaussian(dim) => Head::Gaussian { dim, log_std: layout.range("log_std", &[dim])? },
            ActionKind::Sde(dim) => {
                let features = architecture.features();
                let log_std = layout.range("log_std", &[features, dim])?;
                Head::Sde { dim, features, log_std }
            }
        };
        let actor = Mlp::new(
            layout,
            "actor",
            &architecture.sizes(&architecture.actor, outputs),
            architecture.activation,
        )?;
        let critic = Mlp::new(
            layout,
            "critic",
            &architecture.sizes(&architecture.critic, 1),
            architecture.activation,
        )?;
        Ok(Self { actor, critic, head })
    }

    /// Returns log-probabilities of the actions, entropies and values for `obs` `[n, obs_dim]`.
    ///
    /// # Errors
    /// For slices that do not fit, and actions that do not exist.
    pub fn evaluate<'m, F: Number>(
        &self,
        parameters: &[F],
        obs: &[F],
        actions_taken: ActionsTaken<'_, F>,
        memory: &'m mut ActorCriticMemory<F>,
    ) -> Result<Evaluation<'m, F>> {
        self.actor.forward(parameters, obs, &mut memory.actor)?;
        self.critic.forward(parameters, obs, &mut memory.critic)?;
        let n = memory.critic.last_outputs().len();
        memory.log_probs.resize(n, F::ZERO);
        memory.entropy.resize(n, F::ZERO);
        let ActorCriticMemory { actor, head, log_probs, entropy, .. } = memory;
        let scores = Scores { log_probs, entropy };
        self.head.score(parameters, actor, actions_taken, head, scores)?;
        let memory = &*memory;
        let (log_probs, entropy) = (&memory.log_probs, &memory.entropy);
        Ok(Evaluation { log_probs, entropy, values: memory.critic.last_outputs() })
    }

    /// Computes a loss, and writes its gradient with respect to all parameters to `gradient`.
    ///
    /// `loss` receives the evaluation, and slices into which it writes its gradient with respect to
    /// log-probabilities and values. It returns a result, and its derivative with respect to each
    /// row's entropy. If this derivative is None, no gradient is computed.
    ///
    /// # Errors
    /// For slices that do not fit, actions that do not exist, and errors of `loss`.
    pub fn gradient<F: Number, T>(
        &self,
        parameters: &[F],
        (obs, actions_taken): (&[F], ActionsTaken<'_, F>),
        memory: &mut ActorCriticMemory<F>,
        loss: impl FnOnce(Evaluation<'_, F>, Slopes<'_, F>) -> Result<(T, Option<F>)>,
        gradient: &mut [F],
    ) -> Result<T> {
        self.evaluate(parameters, obs, actions_taken, memory)?;
        let ActorCriticMemory {
            actor,
            critic,
            head,
            log_probs,
            entropy,
            to_log_probs,
            to_values,
            to_outputs,
        } = memory;
        to_log_probs.resize(log_probs.len(), F::ZERO);
        to_values.resize(log_probs.len(), F::ZERO);
        let evaluation = Evaluation { log_probs, entropy, values: critic.last_outputs() };
        let (result, to_entropy) = loss(evaluation, Slopes { log_probs: to_log_probs, values: to_values })?;
        let Some(to_entropy) = to_entropy else { return Ok(result) };
        gradient.fill(F::ZERO);
        to_outputs.resize(actor.last_outputs().len(), F::ZERO);
        let to_scores = ToScores { log_probs: to_log_probs, entropy: to_entropy };
        self.head.backward(parameters, actions_taken, head, (entropy, to_scores), (to_outputs, gradient))?;
        let buffers = GradientBuffers::parameters(&mut *gradient);
        self.actor.backward(parameters, obs, actor, to_outputs, buffers)?;
        self.critic.backward(parameters, obs, critic, to_values, GradientBuffers::parameters(gradient))?;
        Ok(result)
    }
}
