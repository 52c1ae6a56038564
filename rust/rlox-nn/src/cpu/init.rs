//! What parameters begin as.

use rlox_core::seed::Stream;
use rlox_core::{Parameters, Result};

use super::actor_critic::Architecture;

/// Weights are orthogonal (Saxe et al. 2014) with gain sqrt 2, the actor's head 0.01, the critic's 1, biases
/// 0: as the PPO of OpenAI Baselines had it, and rlox's torch policies do.
///
/// Layer i of a run's networks is a function of stream (`seed`, "init", i).
///
/// # Errors
/// For parameters that are not those of the architecture.
pub fn orthogonal(
    of: &Architecture,
    parameters: &mut Parameters,
    seed: u64,
    log_std: f32,
) -> Result<()> {
    let named = of.named();
    let heads = [("actor", of.actor.len(), 0.01), ("critic", of.critic.len(), 1.0)];
    for (index, (name, shape)) in (0..).zip(&named) {
        let values = parameters.array_mut(name, shape)?;
        match (shape.as_slice(), name.as_str()) {
            (_, "log_std") => values.fill(log_std),
            (&[outputs, inputs], _) => {
                let head = heads
                    .iter()
                    .find(|(net, last, _)| *name == format!("{net}.{}.weight", 2 * last));
                let gain = head.map_or(std::f64::consts::SQRT_2, |&(.., gain)| gain);
                let mut stream = Stream::new(seed, "init", index);
                fill_orthogonal(&mut stream, values, (outputs, inputs), gain);
            }
            _ => values.fill(0.0),
        }
    }
    Ok(())
}

/// A matrix whose rows (or columns, if they are fewer) are orthogonal and of length `gain`, all of them
/// equally likely: Gram and Schmidt's of normal numbers.
fn fill_orthogonal(
    stream: &mut Stream,
    out: &mut [f32],
    (rows, columns): (usize, usize),
    gain: f64,
) {
    let (few, long) = (rows.min(columns), rows.max(columns));
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(few);
    for _ in 0..few {
        let mut vector = vec![0.0; long];
        stream.fill_normal(&mut vector);
        // Twice is enough to be orthogonal in every digit (Giraud et al. 2005).
        for _ in 0..2 {
            for other in &basis {
                let along: f64 = vector.iter().zip(other).map(|(x, y)| x * y).sum();
                vector.iter_mut().zip(other).for_each(|(x, y)| *x -= along * y);
            }
        }
        let norm = vector.iter().map(|x| x * x).sum::<f64>().sqrt();
        basis.push(vector.into_iter().map(|x| x / norm).collect());
    }
    for (i, row) in out.chunks_exact_mut(columns).enumerate() {
        for (j, place) in row.iter_mut().enumerate() {
            let (vector, number) = if rows <= columns { (i, j) } else { (j, i) };
            let value = basis.get(vector).and_then(|vector| vector.get(number)).copied();
            *place = single(gain * value.unwrap_or(0.0));
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "parameters are float32")]
const fn single(value: f64) -> f32 {
    value as f32
}
