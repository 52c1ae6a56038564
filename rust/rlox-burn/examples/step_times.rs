//! Prints how many microseconds acting and one gradient step of PPO take with Burn, by number of
//! rows.
//!
//! ```sh
//! cargo run --release --example step_times
//! ```
#![allow(missing_docs)]

#[path = "../../rlox-nn/examples/on_traits/times.rs"]
mod times;

use rlox_burn::BurnActorCritic;

fn main() -> rlox_core::Result<()> {
    times::print_times("Burn", BurnActorCritic::new)
}
