//! Prints how many microseconds acting and one gradient step of PPO take with Candle, by number of
//! rows.
//!
//! ```sh
//! cargo run --release --example step_times
//! ```
#![allow(missing_docs)]

#[path = "../../rlox-nn/examples/on_traits/times.rs"]
mod times;

use rlox_candle::CandleActorCritic;

fn main() -> rlox_core::Result<()> {
    times::print_times("Candle", CandleActorCritic::new)
}
