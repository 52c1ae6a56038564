//! Trains PPO on CartPole-v1 with Burn, without Python.
//!
//! ```sh
//! cargo run --release --example train_cartpole -- [SEED]
//! ```
#![allow(missing_docs)]

#[path = "../../rlox-nn/examples/on_traits/mod.rs"]
mod on_traits;

use rlox_burn::BurnActorCritic;

fn main() -> rlox_core::Result<()> {
    on_traits::train_cartpole(BurnActorCritic::new)
}
