//! Runs steps of the engine `cpu` when standard input asks for them;
//! `benchmarks/bench_nn_backends.py` times them.
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
