//! Runs steps with Burn as often as standard input says. `benchmarks/bench_nn_backends.py` times
//! them.
//!
//! ```sh
//! cargo build --release --example steps_burn
//! ```
#![allow(missing_docs)]

#[path = "../../rlox-nn/examples/on_traits/served.rs"]
mod served;

use rlox_burn::{BurnActorCritic, BurnQNetwork};

fn main() -> rlox_core::Result<()> {
    served::serve(BurnActorCritic::new, BurnQNetwork::new)
}
