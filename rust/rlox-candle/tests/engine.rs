//! Tests of Candle in the place of the engine `cpu`.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs, unreachable_pub)]

#[path = "../../rlox-nn/tests/engine/mod.rs"]
mod engine;

use rlox_candle::{CandleActorCritic, CandleDeterministic, CandleQNetwork};

#[test]
fn iterations_of_collecting_and_learning_are_those_of_the_engine_cpu() {
    engine::check_iterations(CandleActorCritic::new);
}

#[test]
fn what_is_left_to_the_engine_cpu_is_refused_by_name() {
    engine::check_refusals(CandleActorCritic::new, CandleQNetwork::new);
}

#[test]
fn a_layout_that_lacks_an_array_is_refused_by_its_name() {
    engine::check_layouts(CandleActorCritic::new, CandleDeterministic::new);
}

#[test]
fn no_rows_are_nothing_to_say_of_and_nothing_to_learn_from() {
    engine::check_no_rows(CandleQNetwork::new);
}
