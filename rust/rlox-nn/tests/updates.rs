//! Tests of updates of PPO and A2C: results and errors.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::float_cmp, missing_docs)]
#![allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]

use std::num::NonZeroUsize;

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::interrupt::interruptible;
use rlox_core::rollout::Arena;
use rlox_core::seed::Stream;
use rlox_core::{Error, Layout, Parameters, Result, VectorEnv};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer, RmsProp};
use rlox_nn::cpu::{
    A2cSettings, ActionKind, Activation, ActorCritic, ActorCriticPolicy, Architecture, OnPolicyEngine,
    PpoSettings, PpoUpdate, RolloutRows, init,
};

const N: usize = 8;
const T: usize = 64;

/// An engine for an environment's policy, its parameters, and Adam's state.
struct Learner {
    engine: OnPolicyEngine<f32>,
    parameters: Parameters,
    moments: [Vec<f32>; 2],
    steps: u64,
}

fn architecture(envs: &VecEnv) -> Architecture {
    let spec = VectorEnv::spec(envs);
    let size = spec.action.size();
    let kind =
        if spec.action.bounds().is_none() { ActionKind::Choices(size) } else { ActionKind::Gaussian(size) };
    let (actor, critic) = (vec![16, 16], vec![12]);
    Architecture { obs_dim: spec.observation.dim(), kind, actor, critic, activation: Activation::Tanh }
}

impl Learner {
    fn new(architecture: &Architecture) -> Self {
        let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
        let net = ActorCritic::new(&layout, architecture).unwrap();
        let mut parameters = Parameters::from_layout(layout.clone());
        init::orthogonal(architecture, &mut parameters, 1, -0.5).unwrap();
        let zeros = vec![0.0; layout.len()];
        let engine = OnPolicyEngine::new(net, layout).unwrap();
        Self { engine, parameters, moments: [zeros.clone(), zeros], steps: 0 }
    }

    fn collect(&self, arena: &mut Arena, envs: &mut VecEnv) {
        let acting = ActorCriticPolicy::new(self.engine.net(), self.parameters.values(), NonZeroUsize::MIN);
        let discount = Discount::new(0.98, 0.9).unwrap();
        arena.collect(envs, &acting, 3, discount).unwrap();
    }

    fn learn(&mut self, rows: RolloutRows<'_, f32>, settings: &PpoSettings, index: u64) -> Result<PpoUpdate> {
        let [exp_avg, exp_avg_sq] = &mut self.moments;
        let (parameters, rule) = (self.parameters.values_mut(), Adam::new(1e-5));
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut self.steps };
        self.engine.ppo(parameters, &mut adam, rows, settings, |pass, order| {
            order.clear();
            order.extend(0..rows.len());
            Stream::new(3, "shuffle", index * 4 + pass as u64).shuffle(order);
        })
    }
}

fn settings() -> PpoSettings {
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 };
    PpoSettings {
        loss: PpoLoss { coefficients: weights, clip_eps: 0.2, clip_vloss: false },
        learning_rate: 1e-3,
        n_epochs: 4,
        batch_size: 100,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    }
}

fn collect_rollout(env_id: &str) -> (Learner, Arena) {
    let mut envs = VecEnv::new(env_id, N, Seeding::Run(3)).unwrap();
    let learner = Learner::new(&architecture(&envs));
    let mut arena = Arena::new(VectorEnv::spec(&envs), T, N).unwrap();
    learner.collect(&mut arena, &mut envs);
    (learner, arena)
}

#[test]
fn an_update_uses_all_rows_and_is_reproducible() {
    for env_id in ["CartPole-v1", "Pendulum-v1"] {
        let runs: Vec<(PpoUpdate, Parameters)> = (0..2)
            .map(|_| {
                let (mut learner, arena) = collect_rollout(env_id);
                let update = learner.learn(RolloutRows::from(&arena), &settings(), 0).unwrap();
                (update, learner.parameters)
            })
            .collect();
        let update = runs[0].0;
        assert_eq!((update.epochs, update.steps, update.samples), (4, 4 * 6, 4 * N * T));
        assert!(update.terms.approx_kl > 0.0);
        assert_eq!(runs[0], runs[1]);
    }
}

#[test]
fn the_first_ratio_is_1_because_the_policy_has_not_changed_yet() {
    let (mut learner, arena) = collect_rollout("Pendulum-v1");
    let once = PpoSettings { n_epochs: 1, batch_size: N * T, ..settings() };
    let update = learner.learn(RolloutRows::from(&arena), &once, 0).unwrap();
    assert!(update.terms.approx_kl.abs() < 1e-6, "{update:?}");
    assert_eq!(update.terms.clip_fraction, 0.0);
}

#[test]
fn before_any_step_the_gradient_of_a2c_is_that_of_ppo() {
    for (env_id, normalize_advantages) in [("CartPole-v1", true), ("Pendulum-v1", false)] {
        let (mut learner, arena) = collect_rollout(env_id);
        let rows = RolloutRows::from(&arena);
        let one_batch = PpoSettings { n_epochs: 1, batch_size: N * T, normalize_advantages, ..settings() };
        let mut other = Learner { parameters: learner.parameters.clone(), ..collect_rollout(env_id).0 };
        learner.learn(rows, &one_batch, 0).unwrap();
        let settings = A2cSettings {
            loss: one_batch.loss.coefficients,
            learning_rate: 0.01,
            max_grad_norm: one_batch.max_grad_norm,
            normalize_advantages,
        };
        let rule = RmsProp { alpha: 0.99, eps: 1e-5, tf_like: false };
        let [square_avg, _] = &mut other.moments;
        let mut optimizer = Optimizer::RmsProp { rule, square_avg, steps: &mut 0 };
        let before = other.parameters.values().to_vec();
        let update = other.engine.a2c(other.parameters.values_mut(), &mut optimizer, rows, &settings);
        assert!(update.unwrap().grad_norm > 0.0);
        let pairs = learner.engine.gradient().iter().zip(other.engine.gradient());
        let squared_difference: f32 = pairs.map(|(a, b)| (a - b) * (a - b)).sum();
        assert!(squared_difference.sqrt() < 1e-5, "{env_id}: {squared_difference}"); // both are clipped to a norm of 0.5
        // An RMSprop step whose mean of squares comes from this gradient alone has the size of 10
        // learning rates.
        let largest = before.iter().zip(other.parameters.values()).map(|(a, b)| (a - b).abs());
        assert!((largest.fold(0.0, f32::max) - 0.1).abs() < 1e-3);
    }
}

#[test]
fn an_update_ends_when_target_kl_is_exceeded() {
    let (mut learner, arena) = collect_rollout("CartPole-v1");
    let fast = PpoSettings { learning_rate: 0.05, target_kl: Some(0.01), ..settings() };
    let update = learner.learn(RolloutRows::from(&arena), &fast, 0).unwrap();
    assert!((1..24).contains(&update.steps) && update.epochs < 4, "{update:?}");
    assert_eq!(learner.steps, update.steps as u64);
    assert!(update.terms.approx_kl <= 0.015);
}

#[test]
fn non_finite_numbers_stop_an_update_before_it_learns() {
    let (mut learner, arena) = collect_rollout("CartPole-v1");
    let before = learner.parameters.clone();
    let rows = RolloutRows::from(&arena);
    let mut returns = rows.returns.to_vec();
    returns[7] = f32::NAN;
    let loss_error = learner.learn(RolloutRows { returns: &returns, ..rows }, &settings(), 0).unwrap_err();
    assert!(
        loss_error.to_string().starts_with("value loss by minibatch is NaN at flat index "),
        "{loss_error}"
    );
    assert!(learner.parameters.values().iter().all(|value| value.is_finite()));
    learner.parameters = before;
    learner.parameters.array_mut("critic.2.bias", &[1]).unwrap()[0] = f32::INFINITY;
    let parameter_error = learner.learn(rows, &PpoSettings { n_epochs: 0, ..settings() }, 0).unwrap_err();
    assert!(parameter_error.to_string().starts_with("parameter critic.2.bias is inf"), "{parameter_error}");
}

#[test]
fn invalid_rows_and_actions_are_refused() {
    let (mut learner, arena) = collect_rollout("CartPole-v1");
    let rows = RolloutRows::from(&arena);
    let refusal = |learner: &mut Learner, rows: RolloutRows<'_, f32>, settings: &PpoSettings| {
        learner.learn(rows, settings, 0).unwrap_err().to_string()
    };
    let empty_batch = PpoSettings { batch_size: 0, ..settings() };
    assert_eq!(refusal(&mut learner, rows, &empty_batch), "batch_size is 0, expected at least 1");
    let short = RolloutRows { values: &rows.values[1..], ..rows };
    let length_message = refusal(&mut learner, short, &settings());
    assert_eq!(length_message, "values has 511 elements, expected 512 (as log_probs)");
    let invalid_choices = vec![2; N * T];
    let choice_message = refusal(
        &mut learner,
        RolloutRows { actions: rlox_nn::cpu::ActionsTaken::Choices(&invalid_choices, None), ..rows },
        &settings(),
    );
    assert_eq!(choice_message, "action of row 0 is 2, expected a choice from 0 to 1");
    let vectors = vec![0.0; N * T];
    let kind_message = refusal(
        &mut learner,
        RolloutRows { actions: rlox_nn::cpu::ActionsTaken::Vectors(&vectors), ..rows },
        &settings(),
    );
    assert_eq!(kind_message, "actions is vectors, expected choices, which this policy gives");
}

#[test]
fn an_infinite_approx_kl_stops_an_update_before_it_learns() {
    let (mut learner, arena) = collect_rollout("CartPole-v1");
    let before = learner.parameters.clone();
    let rows = RolloutRows::from(&arena);
    let mut log_probs = rows.log_probs.to_vec();
    log_probs[3] = -300.0; // a ratio of e^299
    let advantages = vec![1.0; N * T];
    let rows = RolloutRows { log_probs: &log_probs, advantages: &advantages, ..rows };
    let plain = PpoSettings { normalize_advantages: false, batch_size: N * T, ..settings() };
    let message = learner.learn(rows, &plain, 0).unwrap_err().to_string();
    assert!(message.starts_with("approx_kl by minibatch is inf at flat index 0"), "{message}");
    assert_eq!(learner.parameters, before);
}

#[test]
fn settings_out_of_their_range_are_refused_before_anything_is_learned() {
    let (mut learner, arena) = collect_rollout("CartPole-v1");
    let before = learner.parameters.clone();
    for (wrong, says) in [
        (PpoSettings { learning_rate: f64::NAN, ..settings() }, "learning_rate is NaN"),
        (PpoSettings { max_grad_norm: Some(-1.0), ..settings() }, "max_grad_norm is -1"),
        (PpoSettings { target_kl: Some(f64::NAN), ..settings() }, "target_kl is NaN"),
    ] {
        let message = learner.learn(RolloutRows::from(&arena), &wrong, 0).unwrap_err().to_string();
        assert!(message.starts_with(says), "{message}");
    }
    let rows = RolloutRows::from(&arena);
    let Learner { engine, parameters, moments: [exp_avg, exp_avg_sq], steps, .. } = &mut learner;
    for rule in [Adam::new(0.0), Adam { betas: (1.0, 0.9), eps: 1e-5 }] {
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps };
        let values = parameters.values_mut();
        assert!(engine.ppo(values, &mut adam, rows, &settings(), |_, _| ()).is_err());
    }
    assert_eq!(*parameters, before);
    let nothing = RolloutRows { log_probs: &[], values: &[], advantages: &[], returns: &[], ..rows };
    let empty_message = learner.learn(nothing, &settings(), 0).unwrap_err().to_string();
    assert_eq!(empty_message, "rows of a rollout is 0, expected at least 1");
}

#[test]
fn actions_that_the_mask_forbids_are_refused() {
    let (mut learner, arena) = collect_rollout("CartPole-v1");
    let rows = RolloutRows::from(&arena);
    let actions = vec![1; N * T];
    for (row, says) in [
        ([true, false], "action of row 0 is 1, expected a choice that the row's mask allows"),
        ([false, false], "mask of row 0 is false for every choice, expected one that is allowed"),
    ] {
        let mask: Vec<bool> = row.into_iter().cycle().take(2 * N * T).collect();
        let actions_taken = rlox_nn::cpu::ActionsTaken::Choices(&actions, Some(&mask));
        let message = learner
            .learn(RolloutRows { actions: actions_taken, ..rows }, &settings(), 0)
            .unwrap_err()
            .to_string();
        assert_eq!(message, says);
    }
}

#[test]
fn an_update_can_be_interrupted() {
    let (mut learner, arena) = collect_rollout("CartPole-v1");
    let long = PpoSettings { n_epochs: 1_000_000, ..settings() };
    let result = interruptible(|| true, || learner.learn(RolloutRows::from(&arena), &long, 0));
    assert_eq!(result.unwrap_err(), Error::Interrupted);
}
