//! Distributions of actions over what a network says, and their gradients.

pub(super) mod bounded;
mod categorical;
mod draw;
mod gaussian;
mod sde;
pub(crate) mod squashed;

pub use draw::{Outputs, draw};

use std::ops::Range;

use rlox_core::error::{Error, Result, check_len};
use rlox_core::policy::{ActionsMut, Noise};

use super::gemm::Number;
use super::mlp::Memory;

/// What was done, for scoring it.
#[derive(Debug, Clone, Copy)]
pub enum Done<'a, F> {
    /// Choices, `[n]`; with which of them were allowed, `[n, choices]`, where not all were.
    Choices(&'a [i64], Option<&'a [bool]>),
    /// Vectors, `[n, dim]`.
    Vectors(&'a [F]),
}

/// What a policy says of what was done.
#[derive(Debug)]
pub(super) struct Scores<'a, F> {
    /// log pi(a | o), `[n]`.
    pub(super) log_probs: &'a mut [F],
    /// The entropy of pi(. | o), `[n]`.
    pub(super) entropy: &'a mut [F],
}

/// The gradient of a loss with respect to what [`Scores`] hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct ToScores<'a, F> {
    /// `[n]`.
    pub(super) log_probs: &'a [F],
    /// Of each row's entropy, the same for all.
    pub(super) entropy: F,
}

/// How a policy turns what its network says into a distribution.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// The softmax of logits.
    Categorical {
        /// How many choices.
        n: usize,
    },
    /// Independent normal numbers around means, all of whose rows have the deviations `log_std` `[dim]`.
    Gaussian {
        /// Numbers of an action.
        dim: usize,
        /// Where log standard deviations lie among the parameters.
        log_std: Range<usize>,
    },
    /// gSDE (Raffin et al. 2021, arXiv:2005.05719): normal numbers whose variance is theta^2 std^2 + 1e-6, of
    /// the last hidden layer theta `[features]` and std = e^`log_std` `[features, dim]`. No gradient flows
    /// into theta through it, as in Stable-Baselines3.
    Sde {
        /// Numbers of an action.
        dim: usize,
        /// Of the last hidden layer.
        features: usize,
        /// Where log standard deviations lie among the parameters.
        log_std: Range<usize>,
    },
}

/// Room for what lies between scores and the way back.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadMemory<F> {
    /// Log-probabilities of all choices, `[n, choices]`; of vectors (a - mean) / std, `[n, dim]`.
    first: Vec<F>,
    /// Under gSDE standard deviations, `[n, dim]`.
    second: Vec<F>,
    /// Under gSDE squares of features and of deviations, and gradients.
    squares: [Vec<F>; 3],
}

impl Head {
    /// Random numbers of an action.
    pub(super) const fn noise(&self) -> Noise {
        match *self {
            Self::Categorical { .. } => Noise::Uniform(1),
            Self::Gaussian { dim, .. } => Noise::Normal(dim),
            Self::Sde { dim, features, .. } => Noise::Normal(dim * features),
        }
    }

    /// Actions at random among what is `allowed`, with what `actor` gave in its last pass, and their
    /// log-probabilities.
    pub(super) fn act(
        &self,
        parameters: &[f32],
        actor: &Memory<f32>,
        (noise, allowed): (&[f32], Option<&[bool]>),
        memory: &mut HeadMemory<f32>,
        (actions, log_probs): (ActionsMut<'_>, &mut [f32]),
    ) -> Result<()> {
        let n = log_probs.len();
        if n == 0 {
            return Ok(());
        }
        check_len("noise", noise.len(), n * self.noise().dim(), "as the policy asks for")?;
        let own = |range: &Range<usize>| parameters.get(range.clone()).unwrap_or_default();
        if allowed.is_some() && !matches!(self, Self::Categorical { .. }) {
            return Err(other("vectors, which no mask bars,", "choices where there is a mask"));
        }
        let vectors = match (self, actions) {
            (Self::Categorical { n }, ActionsMut::Discrete(actions)) => {
                check_len("actions", actions.len(), log_probs.len(), "one for each observation")?;
                memory.first.clear();
                memory.first.extend_from_slice(actor.given());
                categorical::bar(&mut memory.first, *n, allowed)?;
                return categorical::act(&mut memory.first, *n, noise, actions, log_probs);
            }
            (Self::Gaussian { log_std, .. }, ActionsMut::Box(actions)) => {
                check_len("actions", actions.len(), actor.given().len(), "as the means")?;
                gaussian::act(actor.given(), own(log_std), noise, actions);
                actions
            }
            (Self::Sde { log_std, .. }, ActionsMut::Box(actions)) => {
                check_len("actions", actions.len(), actor.given().len(), "as the means")?;
                sde::act(actor.given(), actor.features(), own(log_std), noise, actions);
                actions
            }
            (Self::Categorical { .. }, ActionsMut::Box(_)) => {
                return Err(other("vectors", "choices"));
            }
            (_, ActionsMut::Discrete(_)) => return Err(other("choices", "vectors")),
        };
        let mut entropy = vec![0.0; n];
        let out = Scores { log_probs, entropy: &mut entropy };
        self.score(parameters, actor, Done::Vectors(vectors), memory, out)
    }

    /// Scores of what was done, of what `actor` gave in its last pass.
    pub(super) fn score<F: Number>(
        &self,
        parameters: &[F],
        actor: &Memory<F>,
        done: Done<'_, F>,
        memory: &mut HeadMemory<F>,
        out: Scores<'_, F>,
    ) -> Result<()> {
        match (self, done) {
            (Self::Categorical { n }, Done::Choices(actions, allowed)) => {
                memory.first.clear();
                memory.first.extend_from_slice(actor.given());
                categorical::score(&mut memory.first, *n, actions, allowed, out)
            }
            (Self::Gaussian { log_std, .. }, Done::Vectors(actions)) => {
                let log_std = parameters.get(log_std.clone()).unwrap_or_default();
                gaussian::score(actor.given(), log_std, actions, &mut memory.first, out)
            }
            (Self::Sde { log_std, .. }, Done::Vectors(actions)) => {
                let log_std = parameters.get(log_std.clone()).unwrap_or_default();
                sde::score(actor.given(), actor.features(), log_std, actions, memory, out)
            }
            (Self::Categorical { .. }, Done::Vectors(_)) => Err(other("vectors", "choices")),
            (_, Done::Choices(..)) => Err(other("choices", "vectors")),
        }
    }

    /// The way back of the last [`Head::score`]: what the gradient of the network's outputs is, and that of
    /// the head's own parameters, which is added to `gradient`.
    pub(super) fn back<F: Number>(
        &self,
        parameters: &[F],
        done: Done<'_, F>,
        memory: &mut HeadMemory<F>,
        scores: (&[F], ToScores<'_, F>),
        (to_outputs, gradient): (&mut [F], &mut [F]),
    ) -> Result<()> {
        let (entropy, to_scores) = scores;
        match (self, done) {
            (Self::Categorical { n }, Done::Choices(actions, _)) => {
                categorical::back(&memory.first, *n, actions, (entropy, to_scores), to_outputs);
                Ok(())
            }
            (Self::Gaussian { log_std, .. }, _) => {
                let own = parameters.get(log_std.clone()).unwrap_or_default();
                let to_log_std = gradient.get_mut(log_std.clone()).unwrap_or_default();
                gaussian::back(&memory.first, own, to_scores, to_outputs, to_log_std);
                Ok(())
            }
            (Self::Sde { log_std, features, .. }, _) => {
                let to_log_std = gradient.get_mut(log_std.clone()).unwrap_or_default();
                sde::back(memory, *features, to_scores, to_outputs, to_log_std)
            }
            (Self::Categorical { .. }, Done::Vectors(_)) => Err(other("vectors", "choices")),
        }
    }
}

fn other(got: &str, expected: &str) -> Error {
    Error::config("actions", got, format!("{expected}, which this policy gives"))
}
