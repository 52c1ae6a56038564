//! Rollouts without Python: a native environment, a linear policy written by hand, the arena, GAE.
//!
//! ```sh
//! cargo run --release -p rlox-core --example rollout                     # CartPole-v1
//! cargo run --release -p rlox-core --example rollout Pendulum-v1 64 512  # environments, steps
//! ```
//!
//! Each line is one rollout: how many episodes ended in it, their mean return, how many of them the
//! time limit cut off (GAE then bootstraps with the value of the final observation), the mean and the
//! standard deviation of the advantages, and environment steps per second, including the policy. On
//! any number of threads (`RLOX_THREADS`) the same command prints the same numbers, except in the last
//! column.

#[path = "linear/mod.rs"]
mod linear;

use std::time::Instant;

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::rollout::Arena;
use rlox_core::{Error, Result, VectorEnv};

const SEED: u64 = 0;
const N_ROLLOUTS: usize = 8;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let env_id = arguments.first().map_or("CartPole-v1", String::as_str);
    let (n_envs, n_steps) = (parse_argument(&arguments, 1, 256)?, parse_argument(&arguments, 2, 512)?);

    let mut envs: Box<dyn VectorEnv> = Box::new(VecEnv::new(env_id, n_envs, Seeding::Run(SEED))?);
    let policy = linear::hand_written_policy(envs.spec())?;
    let mut arena = Arena::new(envs.spec(), n_steps, n_envs)?;
    let discount = Discount::new(0.99, 0.95)?;

    println!("{env_id}: {n_envs} environments, {n_steps} steps a rollout");
    println!("rollout  episodes  mean return  cut off  advantages        steps/s");
    for rollout in 0..N_ROLLOUTS {
        let start_time = Instant::now();
        arena.collect(&mut *envs, &policy, SEED, discount)?;
        let seconds = start_time.elapsed().as_secs_f64();
        let totals = arena.episodes().iter().map(|episode| episode.total);
        let truncated_ends = arena
            .episode_ends()
            .filter(|(end, _)| arena.terminated().get(end.step * n_envs + end.env) == Some(&false));
        let (mean, deviation) = moments(arena.advantages().iter().map(|&a| f64::from(a)));
        println!(
            "{rollout:7}  {:8}  {:11.1}  {:7}  {mean:8.2} +- {deviation:6.2}  {:9.0}",
            arena.episodes().len(),
            moments(totals).0,
            truncated_ends.count(),
            as_f64(n_envs * n_steps) / seconds,
        );
    }
    Ok(())
}

/// Returns the argument at an index, or `default` if it is missing.
fn parse_argument(arguments: &[String], index: usize, default: usize) -> Result<usize> {
    let Some(text) = arguments.get(index) else { return Ok(default) };
    text.parse().map_err(|_| Error::config("argument", text, "a whole number"))
}

/// Returns the mean and the standard deviation; NaN if there are no values.
fn moments(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let n = as_f64(values.clone().count());
    let mean = values.clone().sum::<f64>() / n;
    (mean, (values.map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn as_f64(n: usize) -> f64 {
    n as f64
}
