//! Runs steps with Candle as often as standard input says. `benchmarks/bench_nn_backends.py` times
//! them.
//!
//! ```sh
//! cargo build --release --example steps_candle
//! ```
#![allow(missing_docs)]

#[path = "../../rlox-nn/examples/on_traits/served.rs"]
mod served;

use rlox_candle::{CandleActorCritic, CandleQNetwork};

fn main() -> rlox_core::Result<()> {
    served::serve(CandleActorCritic::new, CandleQNetwork::new)
}
