//! Compares Burn, through the traits, with golden values from torch.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_precision_loss, unreachable_pub)]

#[path = "../../rlox-nn/tests/torch/mod.rs"]
mod torch;

use rlox_burn::{BurnActorCritic, BurnDeterministic, BurnQNetwork};

#[test]
fn outputs_and_gradients_of_an_actor_and_a_critic_are_those_of_torch() {
    torch::check_actor_critic(|layout, architecture| BurnActorCritic::new(layout, architecture).unwrap());
}

#[test]
fn values_of_choices_and_their_gradients_are_those_of_torch() {
    torch::check_q_function(|layout, architecture| BurnQNetwork::new(layout, architecture).unwrap());
}

#[test]
fn a_deterministic_policy_and_its_gradient_are_those_of_torch() {
    torch::check_deterministic(|layout, prefix, sizes, activation| {
        BurnDeterministic::new(layout, prefix, sizes, activation).unwrap()
    });
}
