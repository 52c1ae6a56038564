//! Compares the engine `cpu` behind the traits with arrays that torch wrote.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_precision_loss, unreachable_pub)]

mod torch;

use rlox_nn::cpu::{ActorCritic, Mlp, QNetwork};

#[test]
fn an_actor_and_a_critic_compute_and_learn_what_torch_does() {
    torch::check_actor_critic(|layout, architecture| ActorCritic::new(layout, architecture).unwrap());
}

#[test]
fn values_of_choices_and_their_gradients_are_those_of_torch() {
    torch::check_q_function(|layout, architecture| QNetwork::new(layout, architecture).unwrap());
}

#[test]
fn a_deterministic_policy_and_its_gradient_are_those_of_torch() {
    torch::check_deterministic(|layout, prefix, sizes, activation| {
        Mlp::new(layout, prefix, sizes, activation).unwrap()
    });
}
