//! Steps of the engine cpu, done as often as standard input says: what `benchmarks/bench_nn_backends.py` times.
//!
//! ```sh
//! cargo build --release -p rlox-nn --example steps_cpu
//! ```
#![allow(missing_docs)]

#[path = "on_traits/served.rs"]
mod served;

use rlox_nn::cpu::{ActorCritic, QNetwork};

fn main() -> rlox_core::Result<()> {
    served::serve(ActorCritic::new, QNetwork::new)
}
