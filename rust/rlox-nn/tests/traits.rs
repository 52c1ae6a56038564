//! Tests of the traits with the engine `cpu`: steps, noise, errors, and gradients by finite
//! differences.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_possible_wrap)]

use std::num::NonZeroUsize;

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::policy::{ActionsMut, Noise, Policy, PolicyInput, PolicyOutput};
use rlox_core::rollout::Arena;
use rlox_core::seed::Stream;
use rlox_core::{Error, Layout, Parameters, VectorEnv};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss, RolloutColumns, TdLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    self, ActionKind, ActionsTaken, Activation, Architecture, Mlp, OnPolicyEngine, Outputs, PpoSettings,
    QArchitecture, QNetwork, RolloutRows, draw, init, parameter_shapes,
};
use rlox_nn::traits::{
    ActorCritic, BoundPolicy, DeterministicPolicy, Minibatch, QFunction, StochasticPolicy, TdBatch,
};

const N: usize = 16;

fn architecture(kind: ActionKind, obs_dim: usize) -> Architecture {
    Architecture { obs_dim, kind, actor: vec![8], critic: vec![8], activation: Activation::Tanh }
}

fn networks(architecture: &Architecture) -> (cpu::ActorCritic, Parameters) {
    let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
    let mut parameters = Parameters::from_layout(layout.clone());
    init::orthogonal(architecture, &mut parameters, 1, -0.5).unwrap();
    (cpu::ActorCritic::new(&layout, architecture).unwrap(), parameters)
}

fn normals(key: u64, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; n];
    Stream::new(5, "traits", key).fill_normal(&mut out);
    out
}

fn collect_rollout(env_id: &str, kind: ActionKind, obs_dim: usize) -> (cpu::ActorCritic, Parameters, Arena) {
    let mut envs = VecEnv::new(env_id, 4, Seeding::Run(3)).unwrap();
    let (net, parameters) = networks(&architecture(kind, obs_dim));
    let mut arena = Arena::new(VectorEnv::spec(&envs), 8, 4).unwrap();
    let policy = BoundPolicy { net: &net, parameters: parameters.values() };
    arena.collect(&mut envs, &policy, 3, Discount::new(0.98, 0.9).unwrap()).unwrap();
    (net, parameters, arena)
}

fn batch(rows: RolloutRows<'_, f32>) -> Minibatch<'_> {
    let RolloutRows { log_probs, values, advantages, returns, .. } = rows;
    let rollout = RolloutColumns { log_probs, values, advantages, returns };
    Minibatch { obs: &rows.obs[..rows.len() * rows.obs_dim], actions: rows.actions, rollout }
}

fn settings() -> PpoSettings {
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 };
    PpoSettings {
        loss: PpoLoss { coefficients: weights, clip_eps: 0.2, clip_vloss: false },
        learning_rate: 1e-3,
        n_epochs: 1,
        batch_size: 32,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    }
}

/// Adam's moments and step count.
#[derive(Default)]
struct Moments([Vec<f32>; 2], u64);

impl Moments {
    fn adam(&mut self, n: usize) -> Optimizer<'_, f32> {
        let Self([exp_avg, exp_avg_sq], steps) = self;
        exp_avg.resize(n, 0.0);
        exp_avg_sq.resize(n, 0.0);
        Optimizer::Adam { rule: Adam::new(1e-5), exp_avg, exp_avg_sq, steps }
    }
}

#[test]
fn act_gives_the_actions_of_the_rollout_policy_for_many_rows() {
    let n = 300; // more than one block
    for (kind, dim) in [(ActionKind::Choices(3), 1), (ActionKind::Gaussian(2), 2)] {
        let (net, parameters) = networks(&architecture(kind, 4));
        let (obs, normal_noise) = (normals(1, n * 4), normals(2, n * dim));
        let noise: Vec<f32> = match kind {
            ActionKind::Choices(_) => normal_noise.iter().map(|x| x.abs().fract()).collect(),
            _ => normal_noise,
        };
        let (mut choices, mut numbers) = (vec![[0_i64; 300]; 2], vec![vec![0.0; n * dim]; 2]);
        let (mut log_probs, mut values) = (vec![vec![0.0; n]; 2], vec![0.0; n]);
        for alone in [0, 1] {
            let input = PolicyInput { obs: &obs, noise: &noise };
            let actions = match kind {
                ActionKind::Choices(_) => ActionsMut::Discrete(&mut choices[alone]),
                _ => ActionsMut::Box(&mut numbers[alone]),
            };
            let log_probs = &mut log_probs[alone];
            if alone == 1 {
                net.act(parameters.values(), input, actions, log_probs).unwrap();
            } else {
                let acting = cpu::ActorCriticPolicy::new(&net, parameters.values(), NonZeroUsize::MIN);
                acting.act(input, PolicyOutput { actions, log_probs, values: &mut values }).unwrap();
            }
        }
        assert_eq!(log_probs[0], log_probs[1]);
        assert_eq!((&choices[0], &numbers[0]), (&choices[1], &numbers[1]));
        assert!(values.iter().all(|value| *value != 0.0));
    }
}

#[test]
fn a_ppo_step_of_the_trait_equals_that_of_the_engine() {
    for (env_id, kind, obs_dim) in
        [("CartPole-v1", ActionKind::Choices(2), 4), ("Pendulum-v1", ActionKind::Gaussian(1), 3)]
    {
        let (net, parameters, arena) = collect_rollout(env_id, kind, obs_dim);
        let (layout, rows) = (parameters.layout().clone(), RolloutRows::from(&arena));
        let (mut actual, mut expected) = (parameters.values().to_vec(), parameters.values().to_vec());
        let (mut first, mut second) = (Moments::default(), Moments::default());
        let mut adam = first.adam(actual.len());
        let (ppo_terms, norm) =
            net.ppo_step(&mut actual, &mut adam, batch(rows), &settings()).unwrap().unwrap();
        let mut engine = OnPolicyEngine::new(net, layout).unwrap();
        let mut adam = second.adam(expected.len());
        let write_order = |_: usize, order: &mut Vec<usize>| *order = (0..32).collect();
        let update = engine.ppo(&mut expected, &mut adam, rows, &settings(), write_order).unwrap();
        assert_eq!((ppo_terms, norm), (update.terms, update.grad_norm));
        assert_eq!(actual, expected);
        assert_ne!(actual, parameters.values());
    }
}

#[test]
fn nothing_is_learned_beyond_target_kl_or_with_a_setting_out_of_range() {
    let (net, mut parameters, arena) = collect_rollout("CartPole-v1", ActionKind::Choices(2), 4);
    let (before, mut moments) = (parameters.values().to_vec(), Moments::default());
    let rows = RolloutRows::from(&arena);
    let moved: Vec<f32> = rows.log_probs.iter().map(|log_prob| log_prob - 1.0).collect();
    let far_batch = batch(RolloutRows { log_probs: &moved, ..rows });
    let mut adam = moments.adam(before.len());
    let small_target_kl = PpoSettings { target_kl: Some(0.01), ..settings() };
    assert_eq!(net.ppo_step(parameters.values_mut(), &mut adam, far_batch, &small_target_kl).unwrap(), None);
    let wrong = PpoSettings { learning_rate: -1.0, ..settings() };
    let setting_error = net.ppo_step(parameters.values_mut(), &mut adam, batch(rows), &wrong);
    assert!(matches!(setting_error, Err(Error::Config { .. })));
    let infinite = vec![f32::INFINITY; rows.len()];
    let infinite_batch = batch(RolloutRows { returns: &infinite, ..rows });
    let loss_error = net.ppo_step(parameters.values_mut(), &mut adam, infinite_batch, &settings());
    assert!(matches!(loss_error, Err(Error::NonFinite { .. })));
    assert_eq!(parameters.values(), before);
}

#[test]
fn draws_from_outputs_equal_those_of_the_policy() {
    // Log-probabilities of one action equal the network's logits up to a constant that softmax
    // ignores.
    let (net, parameters) = networks(&architecture(ActionKind::Choices(3), 4));
    assert_eq!(net.noise(), Noise::Uniform(1));
    let (obs, noise) = (normals(0, N * 4), vec![0.7_f32; N]);
    let (mut actions, mut log_probs) = (vec![0; N], vec![0.0; N]);
    let input = PolicyInput { obs: &obs, noise: &noise };
    net.act(parameters.values(), input, ActionsMut::Discrete(&mut actions), &mut log_probs).unwrap();
    let logits: Vec<f32> = (0..3).flat_map(|a| action_log_probs(&net, &parameters, &obs, a)).collect();
    let logits: Vec<f32> = (0..N).flat_map(|row| [0, 1, 2].map(|action| logits[action * N + row])).collect();
    let (mut drawn_actions, mut drawn_log_probs) = (vec![0; N], vec![0.0; N]);
    draw(Outputs::Logits(&logits, 3), &noise, ActionsMut::Discrete(&mut drawn_actions), &mut drawn_log_probs)
        .unwrap();
    assert_eq!(drawn_actions, actions);
    assert!(drawn_log_probs.iter().zip(&log_probs).all(|(a, b)| (a - b).abs() < 1e-6));
    let mut numbers = vec![0.0; 2];
    let means = Outputs::Means(&[1.0, -1.0], &[0.0, std::f32::consts::LN_2]);
    draw(means, &[0.5, 1.0], ActionsMut::Box(&mut numbers), &mut drawn_log_probs[..1]).unwrap();
    assert_eq!(numbers, [1.5, 1.0]);
    // -(0.25 + 1) / 2 - ln 2 - ln 2 pi
    assert!((drawn_log_probs[0] + 0.625 + std::f32::consts::LN_2 + std::f32::consts::TAU.ln()).abs() < 1e-6);
}

fn action_log_probs(net: &cpu::ActorCritic, parameters: &Parameters, obs: &[f32], action: i64) -> Vec<f32> {
    let (mut memory, actions) = (cpu::ActorCriticMemory::default(), vec![action; N]);
    let actions_taken = ActionsTaken::Choices(&actions, None);
    net.evaluate(parameters.values(), obs, actions_taken, &mut memory).unwrap().log_probs.to_vec()
}

#[test]
fn draws_that_do_not_fit_are_refused() {
    let (mut choices, mut numbers, mut log_probs) = ([0_i64; 2], [0.0_f32; 2], [0.0_f32; 2]);
    let mut refusal = |actor_outputs, noise: &[f32], vector_len: Option<usize>| {
        let actions = match vector_len {
            Some(len) => ActionsMut::Box(&mut numbers[..len]),
            None => ActionsMut::Discrete(&mut choices),
        };
        draw(actor_outputs, noise, actions, &mut log_probs).unwrap_err().to_string()
    };
    let two = Outputs::Logits(&[0.0; 4], 2);
    assert!(refusal(Outputs::Logits(&[0.0; 3], 2), &[0.0; 2], None).starts_with("outputs has"));
    assert!(refusal(two, &[0.0; 4], None).starts_with("noise has"));
    assert!(refusal(two, &[0.0; 2], Some(2)).contains("expected choices"));
    assert!(refusal(Outputs::Logits(&[], 0), &[0.0; 2], None).starts_with("outputs of a row"));
    let one = Outputs::Means(&[0.0; 2], &[0.0]);
    assert!(refusal(one, &[0.0; 2], Some(1)).starts_with("actions has"));
    assert!(refusal(one, &[0.0; 2], None).contains("expected vectors"));
}

/// Returns the largest difference of `gradient` from central differences of `loss`, relative to the
/// largest derivative.
fn difference(parameters: &[f32], gradient: &[f32], loss: impl Fn(&[f32]) -> f64) -> f64 {
    let (step, mut point) = (1e-2_f32, parameters.to_vec());
    let (mut worst, mut largest_slope) = (0.0_f64, 0.0_f64);
    for (i, &slope) in gradient.iter().enumerate() {
        point[i] = parameters[i] + step;
        let above = loss(&point);
        point[i] = parameters[i] - step;
        let central_difference = (above - loss(&point)) / (2.0 * f64::from(step));
        point[i] = parameters[i];
        worst = worst.max((central_difference - f64::from(slope)).abs());
        largest_slope = largest_slope.max(central_difference.abs());
    }
    worst / largest_slope
}

#[test]
fn values_of_choices_have_the_gradient_of_their_loss() {
    for dueling in [false, true] {
        let (obs_dim, choices, activation) = (3, 4, Activation::Tanh);
        let architecture = QArchitecture { obs_dim, choices, hidden: vec![6, 6], activation, dueling };
        let layout = Layout::sorted(architecture.parameter_shapes()).unwrap();
        let (net, parameters) = (QNetwork::new(&layout, &architecture).unwrap(), normals(1, layout.len()));
        let (obs, td_targets) = (normals(2, N * 3), normals(3, N));
        let mut actions: Vec<i64> = (0..N as i64).map(|i| i % 4).collect();
        let batch = TdBatch { obs: &obs, actions: &actions, td_targets: &td_targets };
        let mut gradient = vec![1.0; parameters.len()];
        let mean_loss = net.td_gradient(&parameters, batch, TdLoss::Squared, &mut gradient).unwrap();
        let loss = |point: &[f32]| {
            let mut q = vec![0.0; N * 4];
            net.q(point, &obs, &mut q).unwrap();
            let errors = (0..N).map(|row| f64::from(q[row * 4 + row % 4] - td_targets[row]));
            errors.map(|error| error * error).sum::<f64>() / 16.0
        };
        assert!((mean_loss - loss(&parameters)).abs() < 1e-5 * mean_loss);
        assert!(difference(&parameters, &gradient, loss) < 1e-2);
        actions[2] = 4;
        let batch = TdBatch { obs: &obs, actions: &actions, td_targets: &td_targets };
        let choice_error = net.td_gradient(&parameters, batch, TdLoss::Huber, &mut gradient).unwrap_err();
        assert!(choice_error.to_string().starts_with("action of row 2 is 4"));
    }
}

#[test]
fn a_deterministic_policy_has_the_gradient_of_the_value_of_its_actions() {
    let layout = Layout::sorted(parameter_shapes("actor", &[3, 6, 2])).unwrap();
    let net = Mlp::new(&layout, "actor", &[3, 6, 2], Activation::Tanh).unwrap();
    let (parameters, obs, slopes) = (normals(4, layout.len()), normals(5, N * 3), normals(6, N * 2));
    let actions_at = |point: &[f32]| {
        let mut actions = vec![0.0; N * 2];
        net.actions(point, &obs, &mut actions).unwrap();
        actions
    };
    assert!(actions_at(&parameters).iter().all(|action| action.abs() <= 1.0));
    let mut gradient = vec![1.0; parameters.len()];
    DeterministicPolicy::gradient(&net, &parameters, &obs, &slopes, &mut gradient).unwrap();
    let value_of_actions = |shifted: &[f32]| {
        actions_at(shifted).iter().zip(&slopes).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    assert!(difference(&parameters, &gradient, value_of_actions) < 1e-2);
    let result = DeterministicPolicy::gradient(&net, &parameters, &obs, &slopes[1..], &mut gradient);
    assert!(matches!(result, Err(Error::Shape { .. })));
}
