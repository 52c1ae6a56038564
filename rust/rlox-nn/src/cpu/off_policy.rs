//! The interface of engines that learn from batches of transitions, with networks and settings by name.

use std::collections::BTreeMap;
use std::fmt::Debug;

use rlox_core::Layout;
use rlox_core::error::{Error, Result};

use super::critics::{Critics, CriticsArchitecture, TrainState};
use super::exploring::Exploration;
use super::mlp::{Mlp, parameter_shapes};
use super::replayed::Batches;
use super::values::{Values, take_activation};

/// An engine that learns from batches of transitions, for callers that know its networks and settings
/// by name.
pub trait OffPolicyEngine<F>: Debug + Send + Sync {
    /// Returns the length of an observation.
    fn obs_dim(&self) -> usize;

    /// Returns the length of an action; 0 for choices.
    fn action_dim(&self) -> usize;

    /// Returns the names of the networks that learn, with the lengths of their parameter vectors.
    fn vector_lens(&self) -> Vec<(&'static str, usize)>;

    /// Returns the number of random draws for each transition, `None` if there are none: the noise of
    /// a call is `[k, rows, action_dim]` for one, `[k, draws, rows, action_dim]` for several.
    fn noise_draws(&self) -> Option<usize> {
        None
    }

    /// Returns the network that acts, and how it explores with noise of this standard deviation.
    ///
    /// # Errors
    /// [`Error::Config`] for a deviation that is out of range.
    fn exploration(&self, deviation: f32) -> Result<(&'static str, Exploration)>;

    /// Takes a step for each batch. Returns means over the batches by name.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] for columns that do not fit; [`Error::Config`] and
    /// [`Error::UnknownName`] for networks, settings and actions. Earlier steps keep their effect.
    fn learn(&mut self, call: LearnCall<'_, F>) -> Result<Metrics>;
}

/// Results of a call by name.
pub type Metrics = Vec<(&'static str, f64)>;

/// The arguments of [`OffPolicyEngine::learn`].
#[derive(Debug)]
pub struct LearnCall<'a, F> {
    /// The networks that learn.
    pub learned: Networks<TrainState<'a, F>>,
    /// The parameters of the target network of each network that has one.
    pub targets: Networks<&'a mut [F]>,
    /// The batches.
    pub batches: TransitionBatches<'a, F>,
    /// Standard normal noise, as [`OffPolicyEngine::noise_draws`] says; may be empty.
    pub noise: &'a [F],
    /// The settings of the algorithm.
    pub settings: Values,
    /// The number of batches that the run learned from before.
    pub first: u64,
    /// Receives the error of each row, `[k, rows]`.
    pub errors: &'a mut [F],
}

/// The rest of a [`LearnCall`] whose networks and settings were taken.
#[derive(Debug)]
pub struct LearnInputs<'a, F> {
    /// The batches.
    pub batches: TransitionBatches<'a, F>,
    /// Standard normal noise; may be empty.
    pub noise: &'a [F],
    /// The number of batches that the run learned from before.
    pub first: u64,
    /// Receives the error of each row, `[k, rows]`.
    pub errors: &'a mut [F],
}

impl<'a, F> LearnCall<'a, F> {
    /// Checks that every network and setting was taken, and returns the rest.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a network or a setting that was not taken.
    pub fn finish(self) -> Result<LearnInputs<'a, F>> {
        let Self { learned, targets, batches, noise, settings, first, errors } = self;
        learned.finish("network")?;
        targets.finish("network with a target")?;
        settings.finish()?;
        Ok(LearnInputs { batches, noise, first, errors })
    }
}

/// Something for each network, by the network's name.
#[derive(Debug)]
pub struct Networks<T> {
    entries: BTreeMap<String, T>,
    /// The names that were asked for.
    known: Vec<&'static str>,
}

impl<T> Default for Networks<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), known: Vec::new() }
    }
}

impl<T> Networks<T> {
    /// Takes the entry of a network out.
    ///
    /// # Errors
    /// [`Error::Config`] if it is missing.
    pub fn take(&mut self, network: &'static str) -> Result<T> {
        self.take_optional(network)
            .ok_or_else(|| Error::config(network, "missing", "the arrays of this network"))
    }

    /// Takes the entry of a network out, if there is one.
    pub fn take_optional(&mut self, network: &'static str) -> Option<T> {
        self.known.push(network);
        self.entries.remove(network)
    }

    /// Checks that every entry was taken; `kind` says in the message what entries are.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for the first one that was not.
    pub fn finish(self, kind: &'static str) -> Result<()> {
        match self.entries.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(Error::unknown_name(kind, name, &self.known)),
        }
    }
}

impl<N: Into<String>, T> FromIterator<(N, T)> for Networks<T> {
    fn from_iter<I: IntoIterator<Item = (N, T)>>(entries: I) -> Self {
        let entries = entries.into_iter().map(|(network, entry)| (network.into(), entry)).collect();
        Self { entries, known: Vec::new() }
    }
}

/// Batches with either kind of actions.
#[derive(Debug, Clone, Copy)]
pub enum TransitionBatches<'a, F> {
    /// Actions are choices.
    Choices(Batches<'a, F, i64>),
    /// Actions are vectors.
    Vectors(Batches<'a, F, F>),
}

impl<'a, F> TransitionBatches<'a, F> {
    /// Returns batches whose actions are choices.
    ///
    /// # Errors
    /// [`Error::Config`] if they are vectors.
    pub fn choices(self) -> Result<Batches<'a, F, i64>> {
        match self {
            Self::Choices(batches) => Ok(batches),
            Self::Vectors(_) => Err(Error::config("actions", "vectors", "choices")),
        }
    }

    /// Returns batches whose actions are vectors.
    ///
    /// # Errors
    /// [`Error::Config`] if they are choices.
    pub fn vectors(self) -> Result<Batches<'a, F, F>> {
        match self {
            Self::Vectors(batches) => Ok(batches),
            Self::Choices(_) => Err(Error::config("actions", "choices", "vectors")),
        }
    }
}

/// Names and layouts of the parameter vectors of networks.
pub type Layouts = Networks<Layout>;

/// The architecture of an actor and critics for actions that are vectors.
#[derive(Debug, Clone)]
pub(super) struct ActorAndCritics {
    /// Length of an observation.
    pub(super) obs_dim: usize,
    /// Length of an action.
    pub(super) size: usize,
    /// Hidden widths of the actor.
    actor: Vec<usize>,
    /// The critics; their hidden widths are also those of a value network.
    pub(super) critics: CriticsArchitecture,
}

impl ActorAndCritics {
    /// Takes `obs_dim`, `size`, `members`, `actor`, `critic` and `activation` out.
    pub(super) fn take(values: &mut Values) -> Result<Self> {
        let (obs_dim, size) = (values.take("obs_dim")?, values.take("size")?);
        let critics = CriticsArchitecture {
            members: values.take("members")?,
            obs_dim,
            action_dim: size,
            hidden: values.take("critic")?,
            activation: take_activation(values)?,
        };
        Ok(Self { obs_dim, size, actor: values.take("actor")?, critics })
    }

    /// Makes an actor with this number of outputs. Its vector may also have the parameters
    /// `extra_names`.
    pub(super) fn make_actor(
        &self,
        layouts: &mut Layouts,
        outputs: usize,
        extra_names: &[&str],
    ) -> Result<(Mlp, Layout)> {
        let layout = layouts.take("actor")?;
        let sizes = [&[self.obs_dim], self.actor.as_slice(), &[outputs]].concat();
        let actor = Mlp::new(&layout, "actor", &sizes, self.critics.activation)?;
        check_names(&layout, "an actor", &parameter_shapes("actor", &sizes), extra_names)?;
        Ok((actor, layout))
    }

    /// Makes a value network with the critics' hidden widths.
    pub(super) fn make_value(&self, layouts: &mut Layouts) -> Result<(Mlp, Layout)> {
        let layout = layouts.take("value")?;
        let sizes = [&[self.obs_dim], self.critics.hidden.as_slice(), &[1]].concat();
        let value = Mlp::new(&layout, "value", &sizes, self.critics.activation)?;
        check_names(&layout, "a value network", &parameter_shapes("value", &sizes), &[])?;
        Ok((value, layout))
    }

    /// Makes the critics.
    pub(super) fn make_critics(&self, layouts: &mut Layouts) -> Result<(Critics, Layout)> {
        let layout = layouts.take("critic")?;
        Ok((Critics::new(&layout, &self.critics)?, layout))
    }
}

/// # Errors
/// [`Error::Config`] for a deviation other than 0, which an engine without action noise refuses.
pub(super) fn require_no_deviation(deviation: f32) -> Result<()> {
    if deviation == 0.0 {
        return Ok(());
    }
    Err(Error::config("deviation", deviation, "0: only the engine of td3 adds noise to actions"))
}

/// # Errors
/// [`Error::Config`] for weights of rows, which an algorithm that learns from a dataset does not use.
pub(super) fn require_no_weights<F>(weights: Option<&[F]>) -> Result<()> {
    match weights {
        None => Ok(()),
        Some(_) => Err(Error::config("weights", "an array", "None: this algorithm has no weights of rows")),
    }
}

/// Checks that a vector has no parameters besides those of a network and the extra ones.
pub(super) fn check_names(
    layout: &Layout,
    network: &str,
    shapes: &[(String, Vec<usize>)],
    extra_names: &[&str],
) -> Result<()> {
    let is_known = |name: &str| extra_names.contains(&name) || shapes.iter().any(|(known, _)| known == name);
    match layout.arrays().find(|(name, ..)| !is_known(name)) {
        None => Ok(()),
        Some((name, ..)) => {
            Err(Error::config("parameter", name, format!("those that {network} of these widths has")))
        }
    }
}
