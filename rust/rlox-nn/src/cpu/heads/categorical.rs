//! A categorical distribution: the softmax of logits.

use rlox_core::error::{Error, Result, check_len};
use rlox_core::math::in_place;

use super::super::gemm::Number;
use super::{Scores, ToScores};

/// The logit of an action that the mask forbids. Its probability is exactly 0, and so is the
/// probability times its logarithm times any slope; with the lowest float32 that product would not
/// be 0.
const MASKED_LOGIT: f64 = -1e30;

/// Replaces logits by log-probabilities of all choices. Writes the log-probabilities of `actions`
/// and the entropies.
pub(super) fn score<F: Number>(
    logits: &mut [F],
    n: usize,
    actions: &[i64],
    action_mask: Option<&[bool]>,
    out: Scores<'_, F>,
) -> Result<()> {
    check_len("actions", actions.len(), out.log_probs.len(), "one for each observation")?;
    mask_logits(logits, n, action_mask)?;
    in_place::log_softmax(logits, n)?;
    let rows = logits.chunks_exact(n).zip(actions);
    let out_rows = out.log_probs.iter_mut().zip(out.entropy);
    for (row, ((log_p, &action), (log_prob, entropy))) in rows.zip(out_rows).enumerate() {
        let chosen = usize::try_from(action).ok().and_then(|action| log_p.get(action));
        let Some(&chosen) = chosen else {
            let expected = format!("a choice from 0 to {}", n - 1);
            return Err(Error::config(format!("action of row {row}"), action, expected));
        };
        if chosen < F::from_f64(0.5 * MASKED_LOGIT) && action_mask.is_some() {
            let name = format!("action of row {row}");
            return Err(Error::config(name, action, "a choice that the row's mask allows"));
        }
        *log_prob = chosen;
        *entropy = -log_p.iter().fold(F::ZERO, |sum, &log_p| sum + log_p.exp() * log_p);
    }
    Ok(())
}

/// Sets the logits of actions that the mask forbids, so that these actions never happen.
pub(super) fn mask_logits<F: Number>(logits: &mut [F], n: usize, action_mask: Option<&[bool]>) -> Result<()> {
    let Some(allowed_choices) = action_mask else { return Ok(()) };
    check_len("mask", allowed_choices.len(), logits.len(), "one for each choice")?;
    let masked_logit = F::from_f64(MASKED_LOGIT);
    for (logit, &allowed) in logits.iter_mut().zip(allowed_choices) {
        *logit = if allowed { *logit } else { masked_logit };
    }
    let empty_row = allowed_choices.chunks_exact(n).position(|row| row.iter().all(|&allowed| !allowed));
    empty_row.map_or(Ok(()), |row| {
        let name = format!("mask of row {row}");
        Err(Error::config(name, "false for every choice", "one that is allowed"))
    })
}

/// Draws a choice for each row of logits, and writes its log-probability. The choice is the first
/// at which the cumulative probability exceeds the row's noise, a uniform number. Because of
/// rounding the sum may stay below the noise; then the last choice of nonzero probability is taken.
pub(super) fn act<F: Number>(
    logits: &mut [F],
    n: usize,
    noise: &[F],
    actions: &mut [i64],
    log_probs: &mut [F],
) -> Result<()> {
    in_place::log_softmax(logits, n)?;
    let out_rows = actions.iter_mut().zip(log_probs);
    for ((log_p, &noise), (action, log_prob)) in logits.chunks_exact(n).zip(noise).zip(out_rows) {
        let mut remaining = noise;
        for (choice, &choice_log_p) in (0..).zip(log_p) {
            if choice_log_p < F::from_f64(0.5 * MASKED_LOGIT) {
                continue;
            }
            (*action, *log_prob) = (choice, choice_log_p);
            remaining = remaining - choice_log_p.exp();
            if remaining < F::ZERO {
                break;
            }
        }
    }
    Ok(())
}

/// Computes the gradient with respect to the logits. Here d log p_a / d logit = 1\[a\] - p and dH / d logit =
/// -p (log p + H).
pub(super) fn backward<F: Number>(
    log_p: &[F],
    n: usize,
    actions: &[i64],
    (entropy, to_scores): (&[F], ToScores<'_, F>),
    to_logits: &mut [F],
) {
    let rows = log_p.chunks_exact(n).zip(to_logits.chunks_exact_mut(n));
    let row_values = actions.iter().zip(entropy).zip(to_scores.log_probs);
    for ((log_p, to_logits), ((&action, &entropy), &slope)) in rows.zip(row_values) {
        for (to_logit, &log_p) in to_logits.iter_mut().zip(log_p) {
            *to_logit = -log_p.exp() * (slope + to_scores.entropy * (log_p + entropy));
        }
        let chosen = usize::try_from(action).ok().and_then(|action| to_logits.get_mut(action));
        if let Some(to_logit) = chosen {
            *to_logit += slope;
        }
    }
}
