//! Tests of Burn in the place of the engine `cpu`.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../../rlox-nn/tests/engine/mod.rs"]
mod engine;

use rlox_burn::{BurnActorCritic, BurnDeterministic, BurnQNetwork};

#[test]
fn iterations_of_collecting_and_learning_are_those_of_the_engine_cpu() {
    engine::check_iterations(BurnActorCritic::new);
}

#[test]
fn unsupported_features_are_refused_by_name() {
    engine::check_refusals(BurnActorCritic::new, BurnQNetwork::new);
}

#[test]
fn a_layout_that_lacks_an_array_is_refused_by_its_name() {
    engine::check_layouts(BurnActorCritic::new, BurnDeterministic::new);
}

#[test]
fn an_empty_batch_has_no_outputs_and_a_loss_of_nan() {
    engine::check_no_rows(BurnQNetwork::new);
}
