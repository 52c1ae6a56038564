//! Draws actions from the outputs of any network, also of another library.

use rlox_core::error::{Error, Result, check_len};
use rlox_core::policy::ActionsMut;

use super::{Scores, categorical, gaussian, wrong_action_kind};

/// The outputs of an actor's network for n observations.
#[derive(Debug, Clone, Copy)]
pub enum Outputs<'a> {
    /// Logits `[n, choices]`, and the number of choices.
    Logits(&'a [f32], usize),
    /// Means `[n, dim]`, and log standard deviations `[dim]`.
    Means(&'a [f32], &'a [f32]),
}

/// Draws actions, and computes their log-probabilities `[n]`. `noise` has uniform numbers `[n]` for
/// choices, else normal ones `[n, dim]`. With the same noise, the results equal those of this crate's
/// policies.
///
/// # Errors
/// [`Error::Shape`] for slices that do not fit, [`Error::Config`] for actions of another kind and
/// for rows without outputs.
pub fn draw(
    actor_outputs: Outputs<'_>,
    noise: &[f32],
    actions: ActionsMut<'_>,
    log_probs: &mut [f32],
) -> Result<()> {
    let n = log_probs.len();
    let check = |outputs: &[f32], k: usize, noise_dim: usize, actions: usize| {
        check_len("outputs", outputs.len(), n * k, "those of each log_prob")?;
        check_len("noise", noise.len(), n * noise_dim, "as the kind of action asks for")?;
        check_len("actions", actions, n * noise_dim, "as the noise")?;
        if k == 0 { Err(Error::config("outputs of a row", 0, "at least 1")) } else { Ok(()) }
    };
    match (actor_outputs, actions) {
        (Outputs::Logits(logits, k), ActionsMut::Discrete(actions)) => {
            check(logits, k, 1, actions.len())?;
            categorical::act(&mut logits.to_vec(), k, noise, actions, log_probs)
        }
        (Outputs::Means(means, log_std), ActionsMut::Box(actions)) => {
            check(means, log_std.len(), log_std.len(), actions.len())?;
            gaussian::act(means, log_std, noise, actions);
            let (mut z_scores, mut entropy) = (Vec::new(), vec![0.0; n]);
            let out = Scores { log_probs, entropy: &mut entropy };
            gaussian::score(means, log_std, actions, &mut z_scores, out)
        }
        (Outputs::Logits(..), ActionsMut::Box(_)) => Err(wrong_action_kind("vectors", "choices")),
        (Outputs::Means(..), ActionsMut::Discrete(_)) => Err(wrong_action_kind("choices", "vectors")),
    }
}
