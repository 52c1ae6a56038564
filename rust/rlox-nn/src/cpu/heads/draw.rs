//! Actions from what any network said, for networks that are none of this crate's.

use rlox_core::error::{Error, Result, check_len};
use rlox_core::policy::ActionsMut;

use super::{Scores, categorical, gaussian, other};

/// What an actor's network said of n observations.
#[derive(Debug, Clone, Copy)]
pub enum Outputs<'a> {
    /// `[n, choices]`, and how many choices.
    Logits(&'a [f32], usize),
    /// `[n, dim]`, and the logarithms of standard deviations, `[dim]`.
    Means(&'a [f32], &'a [f32]),
}

/// Actions and their log-probabilities `[n]`, as the policies of this crate draw them with the same noise: uniform
/// numbers `[n]` for choices, else normal ones `[n, dim]`.
///
/// # Errors
/// [`Error::Shape`] for slices that do not fit, [`Error::Config`] for actions of another kind or without choices.
pub fn draw(
    of: Outputs<'_>,
    noise: &[f32],
    actions: ActionsMut<'_>,
    log_probs: &mut [f32],
) -> Result<()> {
    let n = log_probs.len();
    let check = |outputs: &[f32], k: usize, noises: usize, actions: usize| {
        check_len("outputs", outputs.len(), n * k, "those of each log_prob")?;
        check_len("noise", noise.len(), n * noises, "as the kind of action asks for")?;
        check_len("actions", actions, n * noises, "as the noise")?;
        if k == 0 { Err(Error::config("outputs of a row", 0, "at least 1")) } else { Ok(()) }
    };
    match (of, actions) {
        (Outputs::Logits(logits, k), ActionsMut::Discrete(actions)) => {
            check(logits, k, 1, actions.len())?;
            categorical::act(&mut logits.to_vec(), k, noise, actions, log_probs)
        }
        (Outputs::Means(means, log_std), ActionsMut::Box(actions)) => {
            check(means, log_std.len(), log_std.len(), actions.len())?;
            gaussian::act(means, log_std, noise, actions);
            let (mut far, mut entropy) = (Vec::new(), vec![0.0; n]);
            let out = Scores { log_probs, entropy: &mut entropy };
            gaussian::score(means, log_std, actions, &mut far, out)
        }
        (Outputs::Logits(..), ActionsMut::Box(_)) => Err(other("vectors", "choices")),
        (Outputs::Means(..), ActionsMut::Discrete(_)) => Err(other("choices", "vectors")),
    }
}
