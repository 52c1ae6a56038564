//! Tests of Q-values of choices: gradients by finite differences in float64, targets, and errors.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::cast_possible_wrap, missing_docs)]
#![allow(clippy::float_cmp)]

use rlox_core::seed::Stream;
use rlox_core::{Error, Layout};
use rlox_nn::cpu::losses::{TdLoss, TdTargets};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    Activation, Batches, DqnEngine, DqnSettings, DqnUpdate, QArchitecture, QMemory, QNetwork,
};

const STEP: f64 = 1e-6;
const ROWS: usize = 7;
const CHOICES: usize = 3;
const OBS_DIM: usize = 4;

fn normals(stream: &mut Stream, n: usize, scale: f64) -> Vec<f64> {
    let mut out = vec![0.0; n];
    stream.fill_normal(&mut out);
    out.iter().map(|x| x * scale).collect()
}

fn architecture(hidden: &[usize], activation: Activation, dueling: bool) -> QArchitecture {
    QArchitecture { obs_dim: OBS_DIM, choices: CHOICES, hidden: hidden.to_vec(), activation, dueling }
}

fn actions(stream: &mut Stream, n: usize) -> Vec<i64> {
    (0..n).map(|_| stream.below(CHOICES) as i64).collect()
}

#[test]
fn gradients_are_those_of_finite_differences() {
    let mut cases = 0;
    for (number, (hidden, dueling)) in
        [(vec![6, 5], false), (vec![], false), (vec![6, 5, 4], true), (vec![5], true)].into_iter().enumerate()
    {
        for activation in Activation::ALL {
            for (loss, weighted) in [
                (TdLoss::Huber, false),
                (TdLoss::Huber, true),
                (TdLoss::Squared, false),
                (TdLoss::Squared, true),
            ] {
                let mut stream = Stream::new(number as u64, activation.name(), cases);
                check(&architecture(&hidden, activation, dueling), loss, weighted, &mut stream);
                cases += 1;
            }
        }
    }
    assert_eq!(cases, 64);
}

fn check(architecture: &QArchitecture, loss: TdLoss, weighted: bool, stream: &mut Stream) {
    let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
    let net = QNetwork::new(&layout, architecture).unwrap();
    let parameters = normals(stream, layout.len(), 0.6);
    let obs = normals(stream, ROWS * OBS_DIM, 1.0);
    let actions = actions(stream, ROWS);
    // The errors lie on both sides of Huber's kinks at 1 and -1, and none is near them.
    let errors_at_parameters = [-3.0, -0.4, 0.2, 0.5, 2.0, -0.7, 4.0];
    let (mut memory, mut errors, mut slopes) = (QMemory::default(), vec![0.0; ROWS], vec![0.0; ROWS]);
    let chosen_q = |q: &[f64]| -> Vec<f64> {
        (0..ROWS).map(|row| q[row * CHOICES + usize::try_from(actions[row]).unwrap()]).collect()
    };
    let q_values = chosen_q(net.forward(&parameters, &obs, &mut memory).unwrap());
    let td_targets: Vec<f64> =
        q_values.iter().zip(errors_at_parameters).map(|(q, error)| q - error).collect();
    let weights: Vec<f64> = (0..ROWS).map(|_| 0.2 + stream.uniform()).collect();
    let targets = TdTargets { values: &td_targets, weights: weighted.then_some(weights.as_slice()) };
    loss.gradient(&q_values, targets, (&mut errors, &mut slopes)).unwrap();
    let mut to_q = vec![0.0; ROWS * CHOICES];
    for row in 0..ROWS {
        to_q[row * CHOICES + usize::try_from(actions[row]).unwrap()] = slopes[row];
    }
    let mut gradient = vec![0.0; parameters.len()];
    net.backward(&parameters, &obs, &mut memory, &to_q, &mut gradient).unwrap();
    let cost = |point_parameters: &[f64]| {
        let mut memory = QMemory::default();
        let q = chosen_q(net.forward(point_parameters, &obs, &mut memory).unwrap());
        loss.gradient(&q, targets, (&mut [0.0; ROWS], &mut [0.0; ROWS])).unwrap()
    };
    let (mut point, mut worst, mut norm) = (parameters.clone(), 0.0_f64, 0.0_f64);
    for i in 0..parameters.len() {
        point[i] = parameters[i] + STEP;
        let above = cost(&point);
        point[i] = parameters[i] - STEP;
        let slope = (above - cost(&point)) / (2.0 * STEP);
        point[i] = parameters[i];
        worst = worst.max((slope - gradient[i]).abs());
        norm += slope * slope;
    }
    assert!(norm > 0.0);
    assert!(worst / norm.sqrt() < 1e-6, "{architecture:?} {loss:?}: {}", worst / norm.sqrt());
}

#[test]
fn dueling_streams_add_up_to_a_value_and_advantages_of_mean_zero() {
    let architecture = architecture(&[2], Activation::Relu, true);
    let layout = Layout::aligned(1, architecture.parameter_shapes()).unwrap();
    let names: Vec<&str> = layout.arrays().map(|(name, ..)| name).collect();
    assert_eq!(
        names,
        [
            "q.value.0.weight",
            "q.value.0.bias",
            "q.value.2.weight",
            "q.value.2.bias",
            "q.advantage.0.weight",
            "q.advantage.0.bias",
            "q.advantage.2.weight",
            "q.advantage.2.bias",
        ]
    );
    let net = QNetwork::new(&layout, &architecture).unwrap();
    let mut parameters = vec![0.0; layout.len()];
    parameters[layout.range("q.value.2.bias", &[1]).unwrap()].fill(10.0);
    let advantage_range = layout.range("q.advantage.2.bias", &[3]).unwrap();
    parameters[advantage_range].copy_from_slice(&[1.0, 2.0, 6.0]);
    let mut memory = QMemory::default();
    let q = net.forward(&parameters, &[0.5; OBS_DIM], &mut memory).unwrap();
    assert_eq!(q, [8.0, 9.0, 13.0]);
}

/// Returns the parameters of a network without hidden layers, whose Q-values are its biases.
fn biases(architecture: &QArchitecture, q: [f64; CHOICES]) -> Vec<f64> {
    let layout = Layout::aligned(1, architecture.parameter_shapes()).unwrap();
    let mut parameters = vec![0.0; layout.len()];
    parameters[layout.range("q.0.bias", &[CHOICES]).unwrap()].copy_from_slice(&q);
    parameters
}

fn learn(settings: DqnSettings, actions: &[i64]) -> Result<(DqnUpdate, Vec<f64>, Vec<f64>), Error> {
    let architecture = architecture(&[], Activation::Relu, false);
    let layout = Layout::aligned(1, architecture.parameter_shapes()).unwrap();
    let net = QNetwork::new(&layout, &architecture).unwrap();
    let mut engine = DqnEngine::new(net, layout).unwrap();
    let (mut online, target) =
        (biases(&architecture, [1.0, 5.0, 2.0]), biases(&architecture, [4.0, 0.5, 3.0]));
    let n = online.len();
    let (mut first, mut second, mut steps) = (vec![0.0; n], vec![0.0; n], 0);
    let rule = Adam::new(1e-8);
    let mut adam = Optimizer::Adam { rule, exp_avg: &mut first, exp_avg_sq: &mut second, steps: &mut steps };
    let batches = Batches {
        rows: 2,
        obs: &[0.0; 2 * OBS_DIM],
        actions,
        rewards: &[1.0, 2.0],
        next_obs: &[0.0; 2 * OBS_DIM],
        discounts: &[0.5, 0.0],
        weights: Some(&[1.0, 0.5]),
    };
    let mut errors = [0.0; 2];
    let update = engine.learn(&mut online, &target, &mut adam, batches, &settings, &mut errors)?;
    Ok((update, errors.to_vec(), online))
}

#[test]
fn targets_are_of_the_target_network_at_its_choice_or_that_of_the_online_network() {
    let settings =
        DqnSettings { loss: TdLoss::Squared, double: false, learning_rate: 0.0, max_grad_norm: None };
    let (update, errors, online) = learn(settings, &[0, 2]).unwrap();
    // Q = 1, 2; targets 1 + 0.5 * 4 and, terminated, 2.
    assert_eq!(errors, [-2.0, 0.0]);
    assert_eq!((update.loss, update.q_mean), (2.0, 1.5));
    assert_eq!(online[online.len() - 3..], [1.0, 5.0, 2.0]);
    let double = DqnSettings { double: true, ..settings };
    let (update, errors, _) = learn(double, &[0, 2]).unwrap();
    // The online network's best choice is 1, to which the target network gives 0.5.
    assert_eq!(errors, [-0.25, 0.0]);
    assert_eq!(update.loss, 0.0625 / 2.0);
    let moving = DqnSettings { learning_rate: 0.1, ..settings };
    let (update, _, online) = learn(moving, &[0, 2]).unwrap();
    assert_eq!(update.grad_norm, 2.0); // 2 w e / n, at choice 0 only
    assert!((online[online.len() - 3] - 1.1).abs() < 1e-6);
}

#[test]
fn invalid_choices_and_settings_out_of_range_are_refused() {
    let settings =
        DqnSettings { loss: TdLoss::Huber, double: false, learning_rate: 0.1, max_grad_norm: Some(10.0) };
    let message = |error: Error| error.to_string();
    let choice_message = message(learn(settings, &[0, 3]).unwrap_err());
    assert!(
        choice_message.contains("action of row 1 is 3, expected a choice from 0 to 2"),
        "{choice_message}"
    );
    let zero_norm = DqnSettings { max_grad_norm: Some(0.0), ..settings };
    assert!(message(learn(zero_norm, &[0, 1]).unwrap_err()).contains("max_grad_norm is 0"));
    let short = message(learn(settings, &[0]).unwrap_err());
    assert!(short.contains("actions has"), "{short}");
    let dueling = architecture(&[4], Activation::Tanh, true);
    let shapes = architecture(&[4], Activation::Tanh, false).parameter_shapes();
    let layout = Layout::aligned(16, shapes).unwrap();
    assert!(message(QNetwork::new(&layout, &dueling).unwrap_err()).contains("q.0.weight"));
}
