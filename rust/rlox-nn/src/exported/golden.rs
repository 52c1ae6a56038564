//! Golden vectors of a file: observations, with the outputs and actions that the policy had for them
//! where the file was written.

// A file may contain any number, so operations that could overflow are denied.
#![deny(clippy::arithmetic_side_effects)]

use rlox_core::{Error, Result};

use super::description::Description;
use super::file::File;
use super::player::{Action, Player};

/// The largest distance of outputs and actions from those of the file, relative to their size.
const TOLERANCE: f64 = 1e-5;

/// Observations `[n, inputs]`, outputs `[n, outputs]` and actions of a file.
#[derive(Debug, Clone)]
pub(super) struct GoldenVectors {
    n: usize,
    obs: Vec<f32>,
    outputs: Vec<f32>,
    actions: Vec<Action>,
}

impl GoldenVectors {
    /// Reads the golden vectors of a file.
    ///
    /// # Errors
    /// [`Error::Config`] for tensors that are missing or of another shape.
    pub(super) fn read(file: &File<'_>, description: &Description) -> Result<Self> {
        let (n, outputs) = (description.n_golden, description.outputs());
        let actions = if description.head.is_discrete() {
            let choices: Vec<i64> = file.tensor("golden.actions", &[n])?;
            choices.into_iter().map(Action::Discrete).collect()
        } else {
            let vectors: Vec<f32> = file.tensor("golden.actions", &[n, outputs])?;
            vectors.chunks_exact(outputs).map(|vector| Action::Box(vector.to_vec())).collect()
        };
        let obs = file.tensor("golden.obs", &[n, description.inputs()])?;
        let outputs = file.tensor("golden.outputs", &[n, outputs])?;
        Ok(Self { n, obs, outputs, actions })
    }

    /// Checks that the policy's outputs and actions are those of the file.
    ///
    /// # Errors
    /// [`Error::Config`] naming the first that differs.
    pub(super) fn check(&self, policy: &mut Player) -> Result<()> {
        let row_len = |numbers: &[f32]| numbers.len().checked_div(self.n).unwrap_or(0);
        let (inputs, width) = (row_len(&self.obs), row_len(&self.outputs));
        let output_tolerance = TOLERANCE * self.rms_norm(&self.outputs);
        let vectors = self.actions.iter().flat_map(|action| match action {
            Action::Discrete(_) => &[][..],
            Action::Box(vector) => vector.as_slice(),
        });
        let action_tolerance = TOLERANCE * self.rms_norm(&vectors.copied().collect::<Vec<_>>());
        let mut action = policy.action();
        let rows = self.obs.chunks_exact(inputs).zip(self.outputs.chunks_exact(width));
        for (number, ((obs, expected), expected_action)) in rows.zip(&self.actions).enumerate() {
            let outputs = policy.outputs(obs)?;
            require_close(number, "output", distance(outputs, expected), output_tolerance)?;
            // Between choices of nearly equal value, rounding decides.
            let best = outputs.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let threshold = 2.0_f64.mul_add(-output_tolerance, f64::from(best));
            let n_close = outputs.iter().filter(|&&one| f64::from(one) >= threshold).count();
            policy.act(obs, &mut action)?;
            let difference = match (&action, expected_action) {
                (Action::Box(vector), Action::Box(expected_vector)) => distance(vector, expected_vector),
                (one, other) if one == other || n_close > 1 => 0.0,
                _ => f64::INFINITY,
            };
            require_close(number, "action", difference, action_tolerance)?;
        }
        Ok(())
    }

    /// Returns the root mean square of the rows' norms.
    #[expect(clippy::cast_precision_loss, reason = "n, the number of golden vectors, is small")]
    fn rms_norm(&self, rows: &[f32]) -> f64 {
        let squares: f64 = rows.iter().map(|&x| f64::from(x).powi(2)).sum();
        (squares / self.n.max(1) as f64).sqrt()
    }
}

fn distance(one: &[f32], other: &[f32]) -> f64 {
    let squares = one.iter().zip(other).map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2));
    squares.sum::<f64>().sqrt()
}

fn require_close(number: usize, part: &str, difference: f64, tolerance: f64) -> Result<()> {
    if difference <= tolerance {
        return Ok(());
    }
    let expected = format!("{tolerance:.1e} at most; the file was changed: export the run again");
    Err(Error::config(
        format!("golden vector {number}: its {part}"),
        format!("off by {difference:.1e}"),
        expected,
    ))
}
