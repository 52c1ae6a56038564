//! Tests of exploration: the network's best choice, or its vector with noise.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use rlox_core::policy::ActionsMut;
use rlox_core::rollout::ExplorationPolicy;
use rlox_core::{Error, Layout, Parameters};
use rlox_nn::cpu::{
    Activation, BoundExplorer, Exploration, Explorer, Mlp, QArchitecture, QNetwork, parameter_shapes,
};

/// Returns a linear layer with identity weights, so that the network's outputs equal its inputs.
fn identity(prefix: &str, size: usize) -> (Layout, Parameters) {
    let layout = Layout::aligned(16, parameter_shapes(prefix, &[size, size])).unwrap();
    let mut parameters = Parameters::from_layout(layout.clone());
    for index in 0..size {
        parameters.values_mut()[index * size + index] = 1.0;
    }
    (layout, parameters)
}

#[test]
fn the_greatest_value_is_chosen_where_no_choice_is_made_already() {
    let (layout, parameters) = identity("q", 3);
    let architecture = QArchitecture {
        obs_dim: 3,
        choices: 3,
        hidden: Vec::new(),
        activation: Activation::Relu,
        dueling: false,
    };
    let mut explorer = Explorer::new(Exploration::Greedy(QNetwork::new(&layout, &architecture).unwrap()));
    let obs = [0.0, 2.0, 1.0, 5.0, 5.0, 5.0, -1.0, -3.0, -0.5, 9.0, 0.0, 0.0];
    let mut actions = [-1, -1, -1, 2];
    explorer.act(parameters.values(), &obs, &[], ActionsMut::Discrete(&mut actions)).unwrap();
    assert_eq!(actions, [1, 0, 2, 2]); // the first of equals
    let wrong = explorer.act(parameters.values(), &obs, &[], ActionsMut::Box(&mut [0.0; 4]));
    assert!(matches!(wrong, Err(Error::Config { .. })));
}

#[test]
fn vectors_are_drawn_from_a_squashed_gaussian_or_get_noise_and_are_clipped() {
    let (layout, parameters) = identity("actor", 2);
    let net = || Mlp::new(&layout, "actor", &[2, 2], Activation::Relu).unwrap();
    let obs = [0.3, -1.0, 4.0, 9.0];
    let noise = [0.5, -2.0];
    let mut squashed = Explorer::new(Exploration::Squashed(net()));
    assert_eq!(squashed.action_dim(), 1);
    let mut actions = [0.0; 2];
    squashed.act(parameters.values(), &obs, &noise, ActionsMut::Box(&mut actions)).unwrap();
    // tanh(mean + e^(log deviation) noise); the log deviation is clipped to 2
    let expected = [(0.3 + (-1.0_f32).exp() * 0.5).tanh(), (4.0 - 2.0_f32.exp() * 2.0).tanh()];
    assert!(actions.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-6));
    let mut disturbed = Explorer::new(Exploration::ActionNoise(net(), 0.1));
    assert_eq!(disturbed.action_dim(), 2);
    let (noise, mut actions) = ([0.5, -2.0, 8.0, 3.0], [0.0; 4]);
    disturbed.act(parameters.values(), &obs, &noise, ActionsMut::Box(&mut actions)).unwrap();
    let expected = [0.3_f32.tanh() + 0.05, (-1.0_f32).tanh() - 0.2, 1.0, 1.0];
    assert!(actions.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-6));
    let short = disturbed.act(parameters.values(), &obs, &[0.5], ActionsMut::Box(&mut actions));
    assert!(matches!(short, Err(Error::Shape { .. })));
}

#[test]
fn preset_steps_stay_and_the_others_have_their_own_noise() {
    let (layout, parameters) = identity("actor", 1);
    let net = Mlp::new(&layout, "actor", &[1, 1], Activation::Relu).unwrap();
    let mut explorer = Explorer::new(Exploration::ActionNoise(net, 1.0));
    let noise = [0.1, 0.2, 0.3, 0.4]; // two steps of two environments
    let parameters = parameters.values();
    let mut exploring =
        BoundExplorer { explorer: &mut explorer, parameters, noise: &noise, n_preset_steps: 3 };
    for (t, expected) in [(2, [9.0, 9.0]), (3, [0.1, 0.2]), (4, [0.3, 0.4])] {
        let mut actions = [9.0; 2];
        exploring.act(t, &[0.0; 2], ActionsMut::Box(&mut actions)).unwrap();
        assert_eq!(actions, expected);
    }
}
