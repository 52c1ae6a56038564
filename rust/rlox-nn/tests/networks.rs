//! Tests of networks over a caller's parameters: initialization, actions, and errors.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]

use std::num::NonZeroUsize;

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::policy::{ActionsMut, Policy, PolicyInput, PolicyOutput};
use rlox_core::rollout::Arena;
use rlox_core::seed::Stream;
use rlox_core::{Layout, Parameters, VectorEnv, threads};
use rlox_nn::cpu::{ActionKind, Activation, ActorCritic, ActorCriticPolicy, Architecture, init};

#[test]
fn parameters_of_other_names_shapes_or_layers_are_refused() {
    let architecture = Architecture {
        obs_dim: 4,
        kind: ActionKind::Gaussian(2),
        actor: vec![8],
        critic: vec![8],
        activation: Activation::Relu,
    };
    let refusal = |shapes: Vec<(String, Vec<usize>)>| {
        let layout = Layout::aligned(16, shapes).unwrap();
        ActorCritic::new(&layout, &architecture).unwrap_err().to_string()
    };
    let mut missing = architecture.parameter_shapes();
    missing.remove(3);
    assert!(refusal(missing).starts_with("unknown parameter \"actor.2.weight\""));
    let mut transposed = architecture.parameter_shapes();
    transposed[1].1 = vec![4, 8];
    let message = refusal(transposed);
    assert!(message.starts_with("parameter actor.0.weight has shape [4, 8], expected [8, 4]"), "{message}");
    let mut extra = architecture.parameter_shapes();
    extra.push(("critic.4.weight".to_owned(), vec![1, 1]));
    assert!(refusal(extra).starts_with("parameter is critic.4.weight, expected a parameter of these"));
    // In another order the parameters are found by name.
    let mut shuffled = architecture.parameter_shapes();
    shuffled.reverse();
    let layout = Layout::aligned(16, shuffled).unwrap();
    assert!(ActorCritic::new(&layout, &architecture).is_ok());
}

#[test]
fn weights_begin_orthogonal_with_their_gains() {
    let (architecture, mut envs) = (
        Architecture {
            obs_dim: 4,
            kind: ActionKind::Choices(2),
            actor: vec![32],
            critic: vec![3],
            activation: Activation::Tanh,
        },
        VecEnv::new("CartPole-v1", 1, Seeding::Run(0)).unwrap(),
    );
    let mut parameters =
        Parameters::from_layout(Layout::aligned(16, architecture.parameter_shapes()).unwrap());
    init::orthogonal(&architecture, &mut parameters, 9, 0.0).unwrap();
    for (name, (rows, columns), gain) in [
        ("actor.0.weight", (32, 4), std::f32::consts::SQRT_2),
        ("actor.2.weight", (2, 32), 0.01),
        ("critic.0.weight", (3, 4), std::f32::consts::SQRT_2),
        ("critic.2.weight", (1, 3), 1.0),
    ] {
        let w = parameters.array(name, &[rows, columns]).unwrap();
        let vector = |i: usize, j: usize| {
            if rows <= columns { w[i * columns + j] } else { w[j * columns + i] }
        };
        let (n_vectors, vector_len) = (rows.min(columns), rows.max(columns));
        for a in 0..n_vectors {
            for b in 0..n_vectors {
                let product: f32 = (0..vector_len).map(|j| vector(a, j) * vector(b, j)).sum();
                let expected = if a == b { gain * gain } else { 0.0 };
                assert!((product - expected).abs() < 1e-5 * gain, "{name} {a} {b}: {product}");
            }
        }
    }
    let mut arena = Arena::new(VectorEnv::spec(&envs), 4, 1).unwrap();
    let layout = parameters.layout().clone();
    let net = ActorCritic::new(&layout, &architecture).unwrap();
    let acting = ActorCriticPolicy::new(&net, parameters.values(), NonZeroUsize::MIN);
    arena.collect(&mut envs, &acting, 0, Discount::new(0.9, 0.9).unwrap()).unwrap();
    assert!(arena.log_probs().iter().all(|log_p| (log_p + std::f32::consts::LN_2).abs() < 0.05));
}

#[test]
fn actions_are_drawn_with_the_probabilities_and_densities_that_are_returned() {
    let make_arch = |kind| Architecture {
        obs_dim: 3,
        kind,
        actor: vec![8],
        critic: vec![4],
        activation: Activation::Silu,
    };
    let obs = [0.3_f32, -1.0, 0.5];
    let rows = 20_000;
    let repeated_obs: Vec<f32> = obs.iter().copied().cycle().take(3 * rows).collect();
    for kind in [ActionKind::Choices(3), ActionKind::Gaussian(2), ActionKind::Sde(2)] {
        let architecture = make_arch(kind);
        let mut parameters =
            Parameters::from_layout(Layout::aligned(16, architecture.parameter_shapes()).unwrap());
        init::orthogonal(&architecture, &mut parameters, 4, -0.7).unwrap();
        let net = ActorCritic::new(parameters.layout(), &architecture).unwrap();
        let acting = ActorCriticPolicy::new(&net, parameters.values(), NonZeroUsize::MIN);
        let mut stream = Stream::new(8, "noise", 0);
        let mut noise = vec![0.0; rows * acting.noise().dim()];
        match kind {
            ActionKind::Choices(_) => {
                noise.fill_with(|| (stream.next_u32() >> 8) as f32 / 16_777_216.0);
            }
            _ => stream.fill_normal(&mut noise),
        }
        let (mut choices, mut vectors) = (vec![0; rows], vec![0.0_f32; 2 * rows]);
        let (mut log_probs, mut values) = (vec![0.0; rows], vec![0.0; rows]);
        let actions = match kind {
            ActionKind::Choices(_) => ActionsMut::Discrete(&mut choices),
            _ => ActionsMut::Box(&mut vectors),
        };
        let output = PolicyOutput { actions, log_probs: &mut log_probs, values: &mut values };
        acting.act(PolicyInput { obs: &repeated_obs, noise: &noise }, output).unwrap();
        if let ActionKind::Choices(n) = kind {
            for choice in 0..n as i64 {
                let rows_of_choice: Vec<usize> = (0..rows).filter(|&row| choices[row] == choice).collect();
                let part = rows_of_choice.len() as f64 / rows as f64;
                let probability = f64::from(log_probs[rows_of_choice[0]]).exp();
                assert!((part - probability).abs() < 0.015, "{choice}: {part} {probability}");
            }
            continue;
        }
        // E[-log p] is the entropy, ln(std sqrt(2 pi e)) for each number.
        let surprise = -log_probs.iter().map(|&x| f64::from(x)).sum::<f64>() / rows as f64;
        let deviation = |j: usize| {
            let numbers: Vec<f64> = vectors.chunks_exact(2).map(|action| f64::from(action[j])).collect();
            let mean = numbers.iter().sum::<f64>() / rows as f64;
            (numbers.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / rows as f64).sqrt()
        };
        let entropy: f64 = (0..2).map(|j| deviation(j).ln() + 1.418_938_533).sum();
        assert!((surprise - entropy).abs() < 0.03, "{kind:?}: {surprise} {entropy}");
    }
}

#[test]
fn a_row_gets_the_same_action_among_any_rows_and_with_any_number_of_threads() {
    let (actor, critic) = (vec![24, 8], vec![16]);
    let architecture = Architecture {
        obs_dim: 5,
        kind: ActionKind::Choices(4),
        actor,
        critic,
        activation: Activation::Tanh,
    };
    let mut parameters =
        Parameters::from_layout(Layout::aligned(16, architecture.parameter_shapes()).unwrap());
    init::orthogonal(&architecture, &mut parameters, 9, 0.0).unwrap();
    let net = ActorCritic::new(parameters.layout(), &architecture).unwrap();
    let acting = ActorCriticPolicy::new(&net, parameters.values(), NonZeroUsize::MIN);
    let rows = 1_700;
    let mut stream = Stream::new(3, "rows", 0);
    let mut obs = vec![0.0_f32; 5 * rows];
    stream.fill_normal(&mut obs);
    let noise: Vec<f32> = (0..rows).map(|_| (stream.next_u32() >> 8) as f32 / 16_777_216.0).collect();
    let mask: Vec<bool> = (0..4 * rows).map(|i| i % 4 == 3 || stream.uniform() < 0.5).collect();
    let act = |from: usize, to: usize| {
        let n = to - from;
        let (mut actions, mut log_probs, mut values) = (vec![0; n], vec![0.0; n], vec![0.0; n]);
        let output = PolicyOutput {
            actions: ActionsMut::Discrete(&mut actions),
            log_probs: &mut log_probs,
            values: &mut values,
        };
        let input = PolicyInput { obs: &obs[5 * from..5 * to], noise: &noise[from..to] };
        acting.act_masked(input, Some(&mask[4 * from..4 * to]), output).unwrap();
        let mut values_alone = vec![0.0; n];
        acting.values(&obs[5 * from..5 * to], &mut values_alone).unwrap();
        assert_eq!(values_alone, values);
        (actions, log_probs, values)
    };
    let all = act(0, rows);
    assert!(all.0.iter().enumerate().all(|(row, &action)| mask[4 * row + usize::try_from(action).unwrap()]));
    for threads in [1, 2, 7] {
        threads::set(Some(threads)).unwrap();
        assert_eq!(act(0, rows), all);
    }
    threads::set(None).unwrap();
    for row in [0, 127, 128, 1_000, rows - 1] {
        let alone = act(row, row + 1);
        assert_eq!((alone.0[0], alone.1[0], alone.2[0]), (all.0[row], all.1[row], all.2[row]));
    }
}

#[test]
fn gsde_needs_a_hidden_layer() {
    let architecture = Architecture {
        obs_dim: 3,
        kind: ActionKind::Sde(2),
        actor: vec![],
        critic: vec![4],
        activation: Activation::Tanh,
    };
    let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
    let message = ActorCritic::new(&layout, &architecture).unwrap_err().to_string();
    assert!(message.starts_with("widths of the actor is empty"), "{message}");
}
