//! Times of acting and of a PPO step with Candle, in microseconds, by number of rows.
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
