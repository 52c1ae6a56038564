//! Measures acting and a PPO step of the engine `cpu` in microseconds, by the number of rows.
//!
//! ```sh
//! cargo run --release -p rlox-nn --example step_times
//! ```
#![allow(missing_docs)]

#[path = "on_traits/times.rs"]
mod times;

use rlox_nn::cpu::ActorCritic;

fn main() -> rlox_core::Result<()> {
    times::print_times("cpu", ActorCritic::new)
}
