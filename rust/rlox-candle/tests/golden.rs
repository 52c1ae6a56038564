//! Compares Candle, through the traits, with golden values from torch.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_precision_loss, unreachable_pub)]

#[path = "../../rlox-nn/tests/torch/mod.rs"]
mod torch;

use rlox_candle::{CandleActorCritic, CandleDeterministic, CandleQNetwork};

#[test]
fn outputs_and_gradients_of_an_actor_and_a_critic_are_those_of_torch() {
    torch::check_actor_critic(|layout, architecture| CandleActorCritic::new(layout, architecture).unwrap());
}

#[test]
fn values_of_choices_and_their_gradients_are_those_of_torch() {
    torch::check_q_function(|layout, architecture| CandleQNetwork::new(layout, architecture).unwrap());
}

#[test]
fn a_deterministic_policy_and_its_gradient_are_those_of_torch() {
    torch::check_deterministic(|layout, prefix, sizes, activation| {
        CandleDeterministic::new(layout, prefix, sizes, activation).unwrap()
    });
}
