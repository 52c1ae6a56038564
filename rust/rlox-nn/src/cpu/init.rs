//! Initial values of parameters.

use rlox_core::seed::Stream;
use rlox_core::{Parameters, Result, orthogonal as matrix};

use super::actor_critic::Architecture;

/// Initializes weights orthogonally (Saxe et al. 2014) with gain sqrt 2 (0.01 for the actor's last
/// layer, 1 for the critic's) and biases with 0, as the PPO of OpenAI Baselines and rlox's torch
/// policies do. All log deviations become `log_std`.
///
/// Parameter i draws from stream (`seed`, "init", i).
///
/// # Errors
/// For parameters that are not those of the architecture.
pub fn orthogonal(
    architecture: &Architecture,
    parameters: &mut Parameters,
    seed: u64,
    log_std: f32,
) -> Result<()> {
    let shapes = architecture.parameter_shapes();
    let heads = [("actor", architecture.actor.len(), 0.01), ("critic", architecture.critic.len(), 1.0)];
    for (index, (name, shape)) in (0..).zip(&shapes) {
        let values = parameters.array_mut(name, shape)?;
        match (shape.as_slice(), name.as_str()) {
            (_, "log_std") => values.fill(log_std),
            (&[outputs, inputs], _) => {
                let head = heads.iter().find(|(net, last, _)| *name == format!("{net}.{}.weight", 2 * last));
                let gain = head.map_or(std::f64::consts::SQRT_2, |&(.., gain)| gain);
                let mut stream = Stream::new(seed, "init", index);
                let weights = matrix(&mut stream, outputs, inputs)?;
                for (value, weight) in values.iter_mut().zip(weights) {
                    *value = to_f32(gain * weight);
                }
            }
            _ => values.fill(0.0),
        }
    }
    Ok(())
}

#[expect(clippy::cast_possible_truncation, reason = "parameters are float32")]
const fn to_f32(value: f64) -> f32 {
    value as f32
}
