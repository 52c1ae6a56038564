//! A policy and a value function with no parameter in common.

use rlox_core::{Error, Layout, Result};

use super::activation::Activation;
use super::gemm::Number;
use super::heads::{Done, Head, HeadMemory, Scores, ToScores};
use super::losses::{Said, Slopes};
use super::mlp::{Memory, Mlp, Wanted, named};

/// What [`ActorCritic`] is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Architecture {
    /// Numbers of an observation.
    pub obs_dim: usize,
    /// What an action is.
    pub kind: Kind,
    /// Widths of the actor's hidden layers.
    pub actor: Vec<usize>,
    /// Widths of the critic's.
    pub critic: Vec<usize>,
    /// Of all hidden layers.
    pub activation: Activation,
}

/// What an action is, and how it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of so many choices.
    Choices(usize),
    /// So many numbers, with deviations of their own.
    Numbers(usize),
    /// So many numbers, whose deviations are a function of the last hidden layer (gSDE).
    Sde(usize),
}

impl Architecture {
    /// Names and shapes of the parameters, in the order of torch's modules.
    #[must_use]
    pub fn named(&self) -> Vec<(String, Vec<usize>)> {
        let mut all = named("actor", &self.sizes(&self.actor, self.kind.outputs()));
        all.extend(named("critic", &self.sizes(&self.critic, 1)));
        let shape = match self.kind {
            Kind::Choices(_) => return all,
            Kind::Numbers(dim) => vec![dim],
            Kind::Sde(dim) => vec![self.features(), dim],
        };
        // A module's own parameters come before those of its parts.
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
    /// How many numbers the network of the actor says.
    #[must_use]
    pub const fn outputs(self) -> usize {
        match self {
            Self::Choices(n) | Self::Numbers(n) | Self::Sde(n) => n,
        }
    }
}

/// An actor and a critic over one vector of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActorCritic {
    pub(super) actor: Mlp,
    pub(super) critic: Mlp,
    pub(super) head: Head,
}

/// Room for a pass and the way back.
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
    /// The networks of this architecture whose parameters lie as `layout` says.
    ///
    /// # Errors
    /// [`rlox_core::Error::UnknownName`] for a parameter that is missing, [`rlox_core::Error::Shape`] for one
    /// of another shape, [`rlox_core::Error::Config`] for layers that the architecture has not.
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

    /// What is said of `obs` `[n, obs_dim]` and what was done there.
    ///
    /// # Errors
    /// For slices that do not fit, and actions that are none.
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

    /// A loss of what is said, and its gradient with respect to all parameters, in `gradient`.
    ///
    /// `loss` is given what was said and the places of the gradient of that, and returns that of every
    /// row's entropy. Nothing is learned where it returns None in its place.
    ///
    /// # Errors
    /// For slices that do not fit, actions that are none, and what `loss` refuses.
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
