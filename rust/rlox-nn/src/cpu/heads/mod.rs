//! Distributions of actions given a network's outputs, and their gradients.

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

/// The actions to score.
#[derive(Debug, Clone, Copy)]
pub enum ActionsTaken<'a, F> {
    /// Choices, `[n]`, and the action mask, `[n, choices]`, unless all choices are allowed.
    Choices(&'a [i64], Option<&'a [bool]>),
    /// Vectors, `[n, dim]`.
    Vectors(&'a [F]),
}

/// Log-probabilities and entropies of actions under a policy.
#[derive(Debug)]
pub(super) struct Scores<'a, F> {
    /// log pi(a | o), `[n]`.
    pub(super) log_probs: &'a mut [F],
    /// The entropy of pi(. | o), `[n]`.
    pub(super) entropy: &'a mut [F],
}

/// The gradient of a loss with respect to [`Scores`].
#[derive(Debug, Clone, Copy)]
pub(super) struct ToScores<'a, F> {
    /// `[n]`.
    pub(super) log_probs: &'a [F],
    /// The derivative with respect to each row's entropy, the same for all rows.
    pub(super) entropy: F,
}

/// The distribution that a policy derives from its network's outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Head {
    /// The softmax of logits.
    Categorical {
        /// The number of choices.
        n: usize,
    },
    /// A diagonal Gaussian around means; all rows have the log deviations `log_std` `[dim]`.
    Gaussian {
        /// The length of an action.
        dim: usize,
        /// The range of the log standard deviations among the parameters.
        log_std: Range<usize>,
    },
    /// gSDE (Raffin et al. 2021, arXiv:2005.05719): a Gaussian with variance theta^2 std^2 + 1e-6,
    /// where theta `[features]` is the last hidden layer and std = e^`log_std` `[features, dim]`.
    /// No gradient flows into theta through the variance, as in Stable-Baselines3.
    Sde {
        /// The length of an action.
        dim: usize,
        /// The width of the last hidden layer.
        features: usize,
        /// The range of the log standard deviations among the parameters.
        log_std: Range<usize>,
    },
}

/// Values that the backward pass needs from the scores.
#[derive(Debug, Clone, Default)]
pub(super) struct HeadMemory<F> {
    /// Log-probabilities of all choices, `[n, choices]`, or the z-scores (a - mean) / std of
    /// vectors, `[n, dim]`.
    log_p_or_z: Vec<F>,
    /// Standard deviations under gSDE, `[n, dim]`.
    deviations: Vec<F>,
    /// Squares of features and of deviations, and gradients, under gSDE.
    squares: [Vec<F>; 3],
}

impl Head {
    /// Returns the kind and length of the noise of an action.
    pub(super) const fn noise(&self) -> Noise {
        match *self {
            Self::Categorical { .. } => Noise::Uniform(1),
            Self::Gaussian { dim, .. } => Noise::Normal(dim),
            Self::Sde { dim, features, .. } => Noise::Normal(dim * features),
        }
    }

    /// Draws actions that the mask allows from the outputs of the actor's last pass, and writes
    /// their log-probabilities.
    pub(super) fn act(
        &self,
        parameters: &[f32],
        actor: &Memory<f32>,
        (noise, action_mask): (&[f32], Option<&[bool]>),
        memory: &mut HeadMemory<f32>,
        (actions, log_probs): (ActionsMut<'_>, &mut [f32]),
    ) -> Result<()> {
        let n = log_probs.len();
        if n == 0 {
            return Ok(());
        }
        check_len("noise", noise.len(), n * self.noise().dim(), "as the policy asks for")?;
        let head_parameters = |range: &Range<usize>| parameters.get(range.clone()).unwrap_or_default();
        if action_mask.is_some() && !matches!(self, Self::Categorical { .. }) {
            return Err(wrong_action_kind("vectors with a mask", "vectors without a mask"));
        }
        let vectors = match (self, actions) {
            (Self::Categorical { n }, ActionsMut::Discrete(actions)) => {
                check_len("actions", actions.len(), log_probs.len(), "one for each observation")?;
                memory.log_p_or_z.clear();
                memory.log_p_or_z.extend_from_slice(actor.last_outputs());
                categorical::mask_logits(&mut memory.log_p_or_z, *n, action_mask)?;
                return categorical::act(&mut memory.log_p_or_z, *n, noise, actions, log_probs);
            }
            (Self::Gaussian { log_std, .. }, ActionsMut::Box(actions)) => {
                check_len("actions", actions.len(), actor.last_outputs().len(), "as the means")?;
                gaussian::act(actor.last_outputs(), head_parameters(log_std), noise, actions);
                actions
            }
            (Self::Sde { log_std, .. }, ActionsMut::Box(actions)) => {
                check_len("actions", actions.len(), actor.last_outputs().len(), "as the means")?;
                sde::act(actor.last_outputs(), actor.features(), head_parameters(log_std), noise, actions);
                actions
            }
            (Self::Categorical { .. }, ActionsMut::Box(_)) => {
                return Err(wrong_action_kind("vectors", "choices"));
            }
            (_, ActionsMut::Discrete(_)) => return Err(wrong_action_kind("choices", "vectors")),
        };
        let mut entropy = vec![0.0; n];
        let out = Scores { log_probs, entropy: &mut entropy };
        self.score(parameters, actor, ActionsTaken::Vectors(vectors), memory, out)
    }

    /// Scores actions by the outputs of the actor's last pass.
    pub(super) fn score<F: Number>(
        &self,
        parameters: &[F],
        actor: &Memory<F>,
        actions_taken: ActionsTaken<'_, F>,
        memory: &mut HeadMemory<F>,
        out: Scores<'_, F>,
    ) -> Result<()> {
        match (self, actions_taken) {
            (Self::Categorical { n }, ActionsTaken::Choices(actions, action_mask)) => {
                memory.log_p_or_z.clear();
                memory.log_p_or_z.extend_from_slice(actor.last_outputs());
                categorical::score(&mut memory.log_p_or_z, *n, actions, action_mask, out)
            }
            (Self::Gaussian { log_std, .. }, ActionsTaken::Vectors(actions)) => {
                let log_std = parameters.get(log_std.clone()).unwrap_or_default();
                gaussian::score(actor.last_outputs(), log_std, actions, &mut memory.log_p_or_z, out)
            }
            (Self::Sde { log_std, .. }, ActionsTaken::Vectors(actions)) => {
                let log_std = parameters.get(log_std.clone()).unwrap_or_default();
                sde::score(actor.last_outputs(), actor.features(), log_std, actions, memory, out)
            }
            (Self::Categorical { .. }, ActionsTaken::Vectors(_)) => {
                Err(wrong_action_kind("vectors", "choices"))
            }
            (_, ActionsTaken::Choices(..)) => Err(wrong_action_kind("choices", "vectors")),
        }
    }

    /// Runs backward from the last [`Head::score`]: computes the gradient with respect to the
    /// network's outputs, and adds that for the head's own parameters to `gradient`.
    pub(super) fn backward<F: Number>(
        &self,
        parameters: &[F],
        actions_taken: ActionsTaken<'_, F>,
        memory: &mut HeadMemory<F>,
        scores: (&[F], ToScores<'_, F>),
        (to_outputs, gradient): (&mut [F], &mut [F]),
    ) -> Result<()> {
        let (entropy, to_scores) = scores;
        match (self, actions_taken) {
            (Self::Categorical { n }, ActionsTaken::Choices(actions, _)) => {
                categorical::backward(&memory.log_p_or_z, *n, actions, (entropy, to_scores), to_outputs);
                Ok(())
            }
            (Self::Gaussian { log_std, .. }, _) => {
                let log_std_values = parameters.get(log_std.clone()).unwrap_or_default();
                let to_log_std = gradient.get_mut(log_std.clone()).unwrap_or_default();
                gaussian::backward(&memory.log_p_or_z, log_std_values, to_scores, to_outputs, to_log_std);
                Ok(())
            }
            (Self::Sde { log_std, features, .. }, _) => {
                let to_log_std = gradient.get_mut(log_std.clone()).unwrap_or_default();
                sde::backward(memory, *features, to_scores, to_outputs, to_log_std)
            }
            (Self::Categorical { .. }, ActionsTaken::Vectors(_)) => {
                Err(wrong_action_kind("vectors", "choices"))
            }
        }
    }
}

fn wrong_action_kind(got: &str, expected: &str) -> Error {
    Error::config("actions", got, format!("{expected}, which this policy gives"))
}
