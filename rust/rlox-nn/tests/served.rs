//! Runs the work that the benchmark of trait engines runs in another process, here in this one.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]
#![allow(dead_code)] // the examples use the command line

#[path = "../examples/on_traits/served.rs"]
mod served;

use rlox_core::seed::Stream;
use rlox_core::{Error, Result};
use rlox_nn::cpu::{ActorCritic, QNetwork};
use served::{Sizes, Work, prepare_work};

const SIZES: Sizes = Sizes { obs: 3, outputs: 2, width: 5, rows: 4 };

/// Returns the number of parameters of layers of these sizes.
fn n_parameters(sizes: &[usize]) -> usize {
    sizes.windows(2).map(|pair| (pair[0] + 1) * pair[1]).sum()
}

/// Returns the numbers of array `name` of a network with that many `parameters`. A target network has
/// the same parameters.
fn array(name: &str, parameter_count: usize) -> Vec<f32> {
    let Sizes { obs, outputs, rows, .. } = SIZES;
    let n = match name {
        "parameters" | "target" => parameter_count,
        "obs" | "next_obs" => rows * obs,
        "noise" => rows * outputs,
        _ => rows,
    };
    if name == "actions" {
        return (0..n).map(|row| if row % 2 == 0 { 0.0 } else { 1.0 }).collect();
    }
    let mut out = vec![0.0; n];
    Stream::new(0, "served", 7).fill_normal(&mut out);
    out
}

fn work(name: &str, parameter_count: usize) -> Result<Box<dyn Work>> {
    let read = move |name: &'static str| Ok(array(name, parameter_count));
    prepare_work(name, SIZES, &read, ActorCritic::new, QNetwork::new)
}

#[test]
fn every_step_moves_each_parameter_by_at_most_a_learning_rate_and_goes_on() {
    let Sizes { obs, outputs, width, .. } = SIZES;
    let net = |outputs| n_parameters(&[obs, width, width, outputs]);
    for (name, n) in [("ppo", net(outputs) + net(1)), ("dqn", net(outputs)), ("critic", net(1))] {
        let mut work = match name {
            // A network with one output has one choice.
            "critic" => {
                let read = move |name: &'static str| {
                    Ok(if name == "actions" { vec![0.0; SIZES.rows] } else { array(name, n) })
                };
                prepare_work(name, SIZES, &read, ActorCritic::new, QNetwork::new).unwrap()
            }
            _ => work(name, n).unwrap(),
        };
        let before = array("parameters", n);
        work.run_once().unwrap();
        let after = work.result();
        let max_difference =
            |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!((0.5e-4..1.001e-4).contains(&max_difference(&after, &before)), "{name}");
        work.run_once().unwrap();
        assert!(max_difference(&work.result(), &after) > 0.0, "{name}");
    }
}

#[test]
fn an_action_is_squashed() {
    let Sizes { obs, outputs, width, rows } = SIZES;
    let n = outputs + n_parameters(&[obs, width, width, outputs]) + n_parameters(&[obs, width, width, 1]);
    let mut work = work("act", n).unwrap();
    work.run_once().unwrap();
    let actions = work.result();
    assert_eq!(actions.len(), rows * outputs);
    assert!(actions.iter().all(|a| a.abs() < 1.0) && actions.iter().any(|a| *a != 0.0));
}

#[test]
fn a_product_is_that_of_a_layer() {
    let mut work = work("products", 0).unwrap();
    work.run_once().unwrap();
    // 0.5 * 0.25, summed over the width
    assert!(work.result().iter().all(|y| (y - 0.625).abs() < 1e-6));
}

#[test]
fn a_name_that_is_no_work_is_refused() {
    assert!(matches!(work("sac", 0), Err(Error::Config { .. })));
}
