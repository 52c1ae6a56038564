//! Compares an engine behind the traits with `golden.json`, which torch wrote (`make.py`).
//!
//! Each check builds the engine's network with `make` for every case, with a layout that has gaps.

use rlox_core::policy::{ActionsMut, Noise, Seen};
use rlox_core::{Layout, Parameters};
use rlox_nn::cpu::losses::{ActorCriticLoss, Collected, Ppo, PpoTerms, TdLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{self, Activation, Architecture, Done, Kind, PpoSettings, QArchitecture, named};
use rlox_nn::traits::{
    ActorCritic, DeterministicPolicy, Minibatch, QFunction, StochasticPolicy, Valued,
};
use serde_json::Value;

const ROWS: usize = 12;
const OBS: usize = 3;
const HIDDEN: [usize; 2] = [6, 6];

/// The largest norm of a difference, relative to the norm of the expected array.
const TOLERANCE: f64 = 1e-5;

fn golden(list: &str) -> Vec<Value> {
    let golden: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    golden[list].as_array().unwrap().clone()
}

fn numbers(of: &Value) -> Vec<f32> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "they are float32, written with nine digits"
    )]
    of.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn choices(of: &Value) -> Vec<i64> {
    of.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

fn activation(case: &Value) -> Activation {
    Activation::named(case["activation"].as_str().unwrap()).unwrap()
}

/// Returns arrays by name as one vector with this layout.
fn vector(layout: &Layout, of: &Value) -> Vec<f32> {
    let mut vector = Parameters::of(layout.clone());
    assert_eq!(of.as_object().unwrap().len(), layout.arrays().len());
    for (name, shape, _) in layout.arrays() {
        vector.array_mut(name, shape).unwrap().copy_from_slice(&numbers(&of[name]));
    }
    vector.values().to_vec()
}

#[track_caller]
fn close(what: &str, got: &[f32], right: &[f32]) {
    assert_eq!(got.len(), right.len(), "{what}");
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let pairs = got.iter().zip(right).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let off = norm(&mut pairs.clone().map(|(a, b)| a - b)) / norm(&mut pairs.map(|(_, b)| b));
    assert!(off <= TOLERANCE, "{what}: {off:e} of the norm");
}

/// Checks every array of a gradient separately, and that the gradient is 0 between arrays.
#[track_caller]
fn close_arrays(what: &str, layout: &Layout, got: &[f32], right: &[f32]) {
    for (name, _, range) in layout.arrays() {
        close(&format!("{what} of {name}"), &got[range.clone()], &right[range]);
    }
    let mut owned = vec![false; layout.len()];
    layout.arrays().for_each(|(_, _, range)| owned[range].fill(true));
    assert!(got.iter().zip(owned).all(|(&x, owned)| owned || x == 0.0), "{what} between arrays");
}

fn settings(case: &Value) -> PpoSettings {
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 };
    let clip_vloss = case["clip_vloss"].as_bool().unwrap();
    PpoSettings {
        loss: Ppo { weights, clip_eps: 0.2, clip_vloss },
        learning_rate: 1e-3,
        n_epochs: 1,
        batch_size: ROWS,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    }
}

#[track_caller]
fn close_terms(case: &Value, told: &PpoTerms) {
    let terms = told.terms;
    for (name, got) in [
        ("policy", terms.policy),
        ("value", terms.value),
        ("entropy", terms.entropy),
        ("total", terms.total),
        ("approx_kl", told.approx_kl),
        ("clip_fraction", told.clip_fraction),
    ] {
        let right = case["terms"][name].as_f64().unwrap();
        assert!((got - right).abs() <= TOLERANCE * right.abs().max(0.1), "{name}: {got}, {right}");
    }
}

/// Checks that actions with the same noise, and their log-probabilities, equal those of the engine
/// `cpu`.
fn check_acting<N: ActorCritic>(net: &N, of: &Architecture, layout: &Layout, case: &Value) {
    let (ours, at) =
        (cpu::ActorCritic::new(layout, of).unwrap(), vector(layout, &case["parameters"]));
    let obs = numbers(&case["obs"]);
    let noise: Vec<f32> = match net.noise() {
        Noise::Uniform(_) => (0..ROWS).map(|i| i as f32 / ROWS as f32).collect(),
        Noise::Normal(k) => obs.iter().copied().take(ROWS * k).collect(),
    };
    assert_eq!(net.noise(), StochasticPolicy::noise(&ours));
    let seen = Seen { obs: &obs, noise: &noise };
    let (mut log_probs, mut right) = (vec![0.0; ROWS], vec![0.0; ROWS]);
    if matches!(of.kind, Kind::Choices(_)) {
        let (mut actions, mut same) = (vec![0; ROWS], vec![0; ROWS]);
        net.act(&at, seen, ActionsMut::Discrete(&mut actions), &mut log_probs).unwrap();
        ours.act(&at, seen, ActionsMut::Discrete(&mut same), &mut right).unwrap();
        assert_eq!(actions, same);
        assert!(actions.iter().any(|&action| action != actions[0]));
    } else {
        let (mut actions, mut same) = (vec![0.0; noise.len()], vec![0.0; noise.len()]);
        net.act(&at, seen, ActionsMut::Box(&mut actions), &mut log_probs).unwrap();
        ours.act(&at, seen, ActionsMut::Box(&mut same), &mut right).unwrap();
        close("actions", &actions, &same);
    }
    close("log_probs of actions", &log_probs, &right);
    let short = Seen { obs: &obs, noise: &noise[1..] };
    assert!(net.act(&at, short, ActionsMut::Discrete(&mut [0; ROWS]), &mut log_probs).is_err());
}

/// Checks that values, terms, gradients and steps of PPO equal torch's.
pub fn check_actor_critic<N: ActorCritic>(make: impl Fn(&Layout, &Architecture) -> N) {
    let cases = golden("on_policy");
    assert_eq!(cases.len(), 8);
    for case in cases {
        let kind = if case["kind"] == "choices" { Kind::Choices(3) } else { Kind::Numbers(2) };
        let (actor, critic) = (HIDDEN.to_vec(), HIDDEN.to_vec());
        let of = Architecture { obs_dim: OBS, kind, actor, critic, activation: activation(&case) };
        let layout = Layout::aligned(16, of.named()).unwrap();
        let net = make(&layout, &of);
        let (mut at, obs) = (vector(&layout, &case["parameters"]), numbers(&case["obs"]));
        let mut values = vec![0.0; ROWS];
        net.values(&at, &obs, &mut values).unwrap();
        close("values", &values, &numbers(&case["new_values"]));
        check_acting(&net, &of, &layout, &case);
        let (mut chosen, mut vectors) = (Vec::new(), Vec::new());
        let done = if case["kind"] == "choices" {
            chosen.extend(choices(&case["actions"]));
            Done::Choices(&chosen, None)
        } else {
            vectors.extend(numbers(&case["actions"]));
            Done::Vectors(&vectors)
        };
        let [log_probs, values, advantages, returns] =
            ["log_probs", "values", "advantages", "returns"].map(|name| numbers(&case[name]));
        let collected = Collected {
            log_probs: &log_probs,
            values: &values,
            advantages: &advantages,
            returns: &returns,
        };
        let (batch, settings) = (Minibatch { obs: &obs, done, collected }, settings(&case));
        let mut gradient = vec![1.0; at.len()];
        let told = net.ppo_gradient(&at, batch, &settings.loss, &mut gradient).unwrap();
        close_terms(&case, &told);
        close_arrays("gradient", &layout, &gradient, &vector(&layout, &case["gradient"]));
        let (mut exp_avg, mut exp_avg_sq) = (vec![0.0; at.len()], vec![0.0; at.len()]);
        let (exp_avg, exp_avg_sq) = (exp_avg.as_mut_slice(), exp_avg_sq.as_mut_slice());
        let rule = Adam::new(1e-5);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut 0 };
        let (_, norm) = net.ppo_step(&mut at, &mut adam, batch, &settings).unwrap().unwrap();
        assert!((norm / case["norm"].as_f64().unwrap() - 1.0).abs() < TOLERANCE);
        close_arrays("after a step", &layout, &at, &vector(&layout, &case["after"]));
        let short =
            Minibatch { collected: Collected { returns: &returns[1..], ..collected }, ..batch };
        assert!(net.ppo_gradient(&at, short, &settings.loss, &mut gradient).is_err());
        assert!(net.ppo_gradient(&at[1..], batch, &settings.loss, &mut gradient).is_err());
        let other =
            if chosen.is_empty() { Done::Choices(&[0; ROWS], None) } else { Done::Vectors(&obs) };
        let other = Minibatch { done: other, ..batch };
        assert!(net.ppo_gradient(&at, other, &settings.loss, &mut gradient).is_err());
    }
}

/// Checks that Q-values, losses and gradients equal torch's.
pub fn check_q_function<N: QFunction>(make: impl Fn(&Layout, &QArchitecture) -> N) {
    for case in golden("values") {
        let (hidden, activation) = (HIDDEN.to_vec(), activation(&case));
        let of = QArchitecture { obs_dim: OBS, choices: 4, hidden, activation, dueling: false };
        let layout = Layout::aligned(16, of.named()).unwrap();
        let net = make(&layout, &of);
        let (at, obs) = (vector(&layout, &case["parameters"]), numbers(&case["obs"]));
        let mut q = vec![0.0; ROWS * net.choices()];
        net.q(&at, &obs, &mut q).unwrap();
        close("q", &q, &numbers(&case["q"]));
        let (actions, goals) = (choices(&case["actions"]), numbers(&case["goals"]));
        let batch = Valued { obs: &obs, actions: &actions, goals: &goals };
        let mut gradient = vec![1.0; at.len()];
        for (name, loss) in [("huber", TdLoss::Huber), ("squared", TdLoss::Squared)] {
            let told = net.td_gradient(&at, batch, loss, &mut gradient).unwrap();
            let right = case[name]["loss"].as_f64().unwrap();
            assert!((told / right - 1.0).abs() <= TOLERANCE, "{name}: {told}, {right}");
            close_arrays(name, &layout, &gradient, &vector(&layout, &case[name]["gradient"]));
        }
        let none = Valued { actions: &[4; ROWS], ..batch };
        let refused = net.td_gradient(&at, none, TdLoss::Huber, &mut gradient).unwrap_err();
        assert!(refused.to_string().starts_with("action of row 0 is 4"), "{refused}");
        let short = Valued { goals: &goals[1..], ..batch };
        assert!(net.td_gradient(&at, short, TdLoss::Huber, &mut gradient).is_err());
        assert!(net.q(&at, &obs[1..], &mut q).is_err());
    }
}

/// Checks that actions and their value's gradient equal torch's.
pub fn check_deterministic<N: DeterministicPolicy>(
    make: impl Fn(&Layout, &str, &[usize], Activation) -> N,
) {
    let sizes = [OBS, HIDDEN[0], HIDDEN[1], 2];
    for case in golden("deterministic") {
        let layout = Layout::aligned(16, named("actor", &sizes)).unwrap();
        let net = make(&layout, "actor", &sizes, activation(&case));
        let (at, obs) = (vector(&layout, &case["parameters"]), numbers(&case["obs"]));
        let mut actions = vec![0.0; ROWS * 2];
        net.actions(&at, &obs, &mut actions).unwrap();
        close("actions", &actions, &numbers(&case["actions"]));
        let (slopes, mut gradient) = (numbers(&case["slopes"]), vec![1.0; at.len()]);
        net.gradient(&at, &obs, &slopes, &mut gradient).unwrap();
        close_arrays("gradient", &layout, &gradient, &vector(&layout, &case["gradient"]));
        assert!(net.gradient(&at, &obs, &slopes[1..], &mut gradient).is_err());
        assert!(net.gradient(&at, &obs, &slopes, &mut gradient[1..]).is_err());
    }
}
