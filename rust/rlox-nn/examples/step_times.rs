//! What acting and a step of PPO take with cpu, in microseconds, by rows.
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
