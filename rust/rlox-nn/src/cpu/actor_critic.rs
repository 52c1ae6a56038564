//! A policy and a value function that share no parameters.

use rlox_core::{Error, Layout, Result};

use super::activation::Activation;
use super::gemm::Number;
use super::heads::{Done, Head, HeadMemory, Scores, ToScores};
use super::losses::{Said, Slopes};
use super::mlp::{Memory, Mlp, Wanted, named};

/// The architecture of an [`ActorCritic`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Architecture {
    /// The length of an observation.
    pub obs_dim: usize,
    /// The kind of action.
    pub kind: Kind,
    /// Widths of the actor's hidden layers.
    pub actor: Vec<usize>,
    /// Widths of the critic's hidden layers.
    pub critic: Vec<usize>,
    /// The activation of all hidden layers.
    pub activation: Activation,
}

/// The kind of action, its size, and the distribution it is drawn from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of this many choices.
    Choices(usize),
    /// A vector of this length, with a learned standard deviation for each number.
    Numbers(usize),
    /// A vector of this length, with deviations that depend on the last hidden layer (gSDE).
    Sde(usize),
}

impl Architecture {
    /// Returns the names and shapes of the parameters, in the order of torch's modules.
    #[must_use]
    pub fn named(&self) -> Vec<(String, Vec<usize>)> {
        let mut all = named("actor", &self.sizes(&self.actor, self.kind.outputs()));
        all.extend(named("critic", &self.sizes(&self.critic, 1)));
        let shape = match self.kind {
            Kind::Choices(_) => return all,
            Kind::Numbers(dim) => vec![dim],
            Kind::Sde(dim) => vec![self.features(), dim],
        };
        // torch lists a module's own parameters before those of its submodules.
        all.insert(0, ("log_std".to_owned(), shape));
        all
    }

    fn sizes(&self, hidden: &[usize], outputs: usize) -> Vec<usize> {
        [&[self.obs_dim], hidden, &[outputs]].concat()
    }

    fn features(&self) -> usize {
        self.actor.last().copied().unwrap_or(self.obs_dim)
    }
}

impl Kind {
    /// Returns the number of outputs of the actor's network.
    #[must_use]
    pub const fn outputs(self) -> usize {
        match self {
            Self::Choices(n) | Self::Numbers(n) | Self::Sde(n) => n,
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
    pub fn new(layout: &Layout, of: &Architecture) -> Result<Self> {
        let (outputs, named) = (of.kind.outputs(), of.named());
        if matches!(of.kind, Kind::Sde(_)) && of.actor.is_empty() {
            let expected = "at least one hidden layer, of which the noise is a function";
            return Err(Error::config("widths of the actor", "empty", expected));
        }
        let known = |name: &str| named.iter().any(|(own, _)| own == name);
        if let Some((name, ..)) = layout.arrays().find(|(name, ..)| !known(name)) {
            let expected = "one of these networks, whose layers have other names";
            return Err(Error::config("parameter", name, expected));
        }
        let head = match of.kind {
            Kind::Choices(n) => Head::Categorical { n },
            Kind::Numbers(dim) => Head::Gaussian { dim, log_std: layout.range("log_std", &[dim])? },
            Kind::Sde(dim) => {
                let features = of.features();
                let log_std = layout.range("log_std", &[features, dim])?;
                Head::Sde { dim, features, log_std }
            }
        };
        let actor = Mlp::new(layout, "actor", &of.sizes(&of.actor, outputs), of.activation)?;
        let critic = Mlp::new(layout, "critic", &of.sizes(&of.critic, 1), of.activation)?;
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
        done: Done<'_, F>,
        memory: &'m mut ActorCriticMemory<F>,
    ) -> Result<Said<'m, F>> {
        self.actor.forward(parameters, obs, &mut memory.actor)?;
        self.critic.forward(parameters, obs, &mut memory.critic)?;
        let n = memory.critic.given().len();
        memory.log_probs.resize(n, F::ZERO);
        memory.entropy.resize(n, F::ZERO);
        let ActorCriticMemory { actor, head, log_probs, entropy, .. } = memory;
        let scores = Scores { log_probs, entropy };
        self.head.score(parameters, actor, done, head, scores)?;
        let memory = &*memory;
        let (log_probs, entropy) = (&memory.log_probs, &memory.entropy);
        Ok(Said { log_probs, entropy, values: memory.critic.given() })
    }

    /// Computes a loss, and writes its gradient with respect to all parameters to `gradient`.
    ///
    /// `loss` receives the network's evaluation and the slices for the gradient with respect to
    /// log-probabilities and values. It returns its result and the derivative with respect to each
    /// row's entropy. If the latter is None, no gradient is computed.
    ///
    /// # Errors
    /// For slices that do not fit, actions that do not exist, and errors of `loss`.
    pub fn gradient<F: Number, T>(
        &self,
        parameters: &[F],
        (obs, done): (&[F], Done<'_, F>),
        memory: &mut ActorCriticMemory<F>,
        loss: impl FnOnce(Said<'_, F>, Slopes<'_, F>) -> Result<(T, Option<F>)>,
        gradient: &mut [F],
    ) -> Result<T> {
        self.evaluate(parameters, obs, done, memory)?;
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
        let said = Said { log_probs, entropy, values: critic.given() };
        let (told, to_entropy) = loss(said, Slopes { log_probs: to_log_probs, values: to_values })?;
        let Some(to_entropy) = to_entropy else { return Ok(told) };
        gradient.fill(F::ZERO);
        to_outputs.resize(actor.given().len(), F::ZERO);
        let to = ToScores { log_probs: to_log_probs, entropy: to_entropy };
        self.head.back(parameters, done, head, (entropy, to), (to_outputs, gradient))?;
        let wanted = Wanted::parameters(&mut *gradient);
        self.actor.backward(parameters, obs, actor, to_outputs, wanted)?;
        self.critic.backward(parameters, obs, critic, to_values, Wanted::parameters(gradient))?;
        Ok(told)
    }
}
