//! Compares an engine behind the traits with `golden.json`, which torch wrote (`make.py`).
//!
//! Each check builds the engine's network with `make` for every case, with a layout that has gaps.

use rlox_core::policy::{ActionsMut, Noise, PolicyInput};
use rlox_core::{Layout, Parameters};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss, PpoTerms, RolloutColumns, TdLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    self, ActionKind, ActionsTaken, Activation, Architecture, PpoSettings, QArchitecture, parameter_shapes,
};
use rlox_nn::traits::{ActorCritic, DeterministicPolicy, Minibatch, QFunction, StochasticPolicy, TdBatch};
use serde_json::Value;

const ROWS: usize = 12;
const OBS_DIM: usize = 3;
const HIDDEN: [usize; 2] = [6, 6];

/// The largest norm of a difference, relative to the norm of the expected array.
const TOLERANCE: f64 = 1e-5;

fn golden_cases(list: &str) -> Vec<Value> {
    let json: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    json[list].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f32> {
    #[expect(clippy::cast_possible_truncation, reason = "they are float32, written with nine digits")]
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn choices(value: &Value) -> Vec<i64> {
    value.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

fn activation(case: &Value) -> Activation {
    Activation::from_name(case["activation"].as_str().unwrap()).unwrap()
}

/// Returns arrays by name as one vector with this layout.
fn vector(layout: &Layout, arrays_json: &Value) -> Vec<f32> {
    let mut vector = Parameters::from_layout(layout.clone());
    assert_eq!(arrays_json.as_object().unwrap().len(), layout.arrays().len());
    for (name, shape, _) in layout.arrays() {
        vector.array_mut(name, shape).unwrap().copy_from_slice(&numbers(&arrays_json[name]));
    }
    vector.values().to_vec()
}

#[track_caller]
fn assert_close(name: &str, actual: &[f32], expected: &[f32]) {
    assert_eq!(actual.len(), expected.len(), "{name}");
    let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
    let pairs = actual.iter().zip(expected).map(|(&a, &b)| (f64::from(a), f64::from(b)));
    let error = norm(&mut pairs.clone().map(|(a, b)| a - b)) / norm(&mut pairs.map(|(_, b)| b));
    assert!(error <= TOLERANCE, "{name}: {error:e} of the norm");
}

/// Checks every array of a gradient separately, and that the gradient is 0 between arrays.
#[track_caller]
fn assert_arrays_close(label: &str, layout: &Layout, actual: &[f32], expected: &[f32]) {
    for (name, _, range) in layout.arrays() {
        assert_close(&format!("{label} of {name}"), &actual[range.clone()], &expected[range]);
    }
    let mut is_in_array = vec![false; layout.len()];
    layout.arrays().for_each(|(_, _, range)| is_in_array[range].fill(true));
    assert!(actual.iter().zip(is_in_array).all(|(&x, owned)| owned || x == 0.0), "{label} between arrays");
}

fn settings(case: &Value) -> PpoSettings {
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 };
    let clip_vloss = case["clip_vloss"].as_bool().unwrap();
    PpoSettings {
        loss: PpoLoss { coefficients: weights, clip_eps: 0.2, clip_vloss },
        learning_rate: 1e-3,
        n_epochs: 1,
        batch_size: ROWS,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    }
}

#[track_caller]
fn assert_terms_close(case: &Value, ppo_terms: &PpoTerms) {
    let terms = ppo_terms.terms;
    for (name, actual) in [
        ("policy", terms.policy),
        ("value", terms.value),
        ("entropy", terms.entropy),
        ("total", terms.total),
        ("approx_kl", ppo_terms.approx_kl),
        ("clip_fraction", ppo_terms.clip_fraction),
    ] {
        let expected = case["terms"][name].as_f64().unwrap();
        assert!(
            (actual - expected).abs() <= TOLERANCE * expected.abs().max(0.1),
            "{name}: {actual}, {expected}"
        );
    }
}

/// Checks that actions with the same noise, and their log-probabilities, equal those of the engine
/// `cpu`.
fn check_acting<N: ActorCritic>(net: &N, architecture: &Architecture, layout: &Layout, case: &Value) {
    let (cpu_net, flat_parameters) =
        (cpu::ActorCritic::new(layout, architecture).unwrap(), vector(layout, &case["parameters"]));
    let obs = numbers(&case["obs"]);
    let noise: Vec<f32> = match net.noise() {
        Noise::Uniform(_) => (0..ROWS).map(|i| i as f32 / ROWS as f32).collect(),
        Noise::Normal(k) => obs.iter().copied().take(ROWS * k).collect(),
    };
    assert_eq!(net.noise(), StochasticPolicy::noise(&cpu_net));
    let input = PolicyInput { obs: &obs, noise: &noise };
    let (mut log_probs, mut expected_log_probs) = (vec![0.0; ROWS], vec![0.0; ROWS]);
    if matches!(architecture.kind, ActionKind::Choices(_)) {
        let (mut actions, mut expected_choices) = (vec![0; ROWS], vec![0; ROWS]);
        net.act(&flat_parameters, input, ActionsMut::Discrete(&mut actions), &mut log_probs).unwrap();
        cpu_net
            .act(
                &flat_parameters,
                input,
                ActionsMut::Discrete(&mut expected_choices),
                &mut expected_log_probs,
            )
            .unwrap();
        assert_eq!(actions, expected_choices);
        assert!(actions.iter().any(|&action| action != actions[0]));
    } else {
        let (mut actions, mut expected_vectors) = (vec![0.0; noise.len()], vec![0.0; noise.len()]);
        net.act(&flat_parameters, input, ActionsMut::Box(&mut actions), &mut log_probs).unwrap();
        cpu_net
            .act(&flat_parameters, input, ActionsMut::Box(&mut expected_vectors), &mut expected_log_probs)
            .unwrap();
        assert_close("actions", &actions, &expected_vectors);
    }
    assert_close("log_probs of actions", &log_probs, &expected_log_probs);
    let short = PolicyInput { obs: &obs, noise: &noise[1..] };
    assert!(net.act(&flat_parameters, short, ActionsMut::Discrete(&mut [0; ROWS]), &mut log_probs).is_err());
}

/// Checks that values, terms, gradients and steps of PPO equal torch's.
pub fn check_actor_critic<N: ActorCritic>(make: impl Fn(&Layout, &Architecture) -> N) {
    let cases = golden_cases("on_policy");
    assert_eq!(cases.len(), 8);
    for case in cases {
        let kind = if case["kind"] == "choices" { ActionKind::Choices(3) } else { ActionKind::Gaussian(2) };
        let (actor, critic) = (HIDDEN.to_vec(), HIDDEN.to_vec());
        let architecture =
            Architecture { obs_dim: OBS_DIM, kind, actor, critic, activation: activation(&case) };
        let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
        let net = make(&layout, &architecture);
        let (mut flat_parameters, obs) = (vector(&layout, &case["parameters"]), numbers(&case["obs"]));
        let mut values = vec![0.0; ROWS];
        net.values(&flat_parameters, &obs, &mut values).unwrap();
        assert_close("values", &values, &numbers(&case["new_values"]));
        check_acting(&net, &architecture, &layout, &case);
        let (mut chosen, mut vectors) = (Vec::new(), Vec::new());
        let actions_taken = if case["kind"] == "choices" {
            chosen.extend(choices(&case["actions"]));
            ActionsTaken::Choices(&chosen, None)
        } else {
            vectors.extend(numbers(&case["actions"]));
            ActionsTaken::Vectors(&vectors)
        };
        let [log_probs, values, advantages, returns] =
            ["log_probs", "values", "advantages", "returns"].map(|name| numbers(&case[name]));
        let rollout = RolloutColumns {
            log_probs: &log_probs,
            values: &values,
            advantages: &advantages,
            returns: &returns,
        };
        let (batch, settings) = (Minibatch { obs: &obs, actions: actions_taken, rollout }, settings(&case));
        let mut gradient = vec![1.0; flat_parameters.len()];
        let ppo_terms = net.ppo_gradient(&flat_parameters, batch, &settings.loss, &mut gradient).unwrap();
        assert_terms_close(&case, &ppo_terms);
        assert_arrays_close("gradient", &layout, &gradient, &vector(&layout, &case["gradient"]));
        let (mut exp_avg, mut exp_avg_sq) =
            (vec![0.0; flat_parameters.len()], vec![0.0; flat_parameters.len()]);
        let (exp_avg, exp_avg_sq) = (exp_avg.as_mut_slice(), exp_avg_sq.as_mut_slice());
        let rule = Adam::new(1e-5);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut 0 };
        let (_, norm) = net.ppo_step(&mut flat_parameters, &mut adam, batch, &settings).unwrap().unwrap();
        assert!((norm / case["norm"].as_f64().unwrap() - 1.0).abs() < TOLERANCE);
        assert_arrays_close("after a step", &layout, &flat_parameters, &vector(&layout, &case["after"]));
        let short = Minibatch { rollout: RolloutColumns { returns: &returns[1..], ..rollout }, ..batch };
        assert!(net.ppo_gradient(&flat_parameters, short, &settings.loss, &mut gradient).is_err());
        assert!(net.ppo_gradient(&flat_parameters[1..], batch, &settings.loss, &mut gradient).is_err());
        let other = if chosen.is_empty() {
            ActionsTaken::Choices(&[0; ROWS], None)
        } else {
            ActionsTaken::Vectors(&obs)
        };
        let other = Minibatch { actions: other, ..batch };
        assert!(net.ppo_gradient(&flat_parameters, other, &settings.loss, &mut gradient).is_err());
    }
}

/// Checks that Q-values, losses and gradients equal torch's.
pub fn check_q_function<N: QFunction>(make: impl Fn(&Layout, &QArchitecture) -> N) {
    for case in golden_cases("values") {
        let (hidden, activation) = (HIDDEN.to_vec(), activation(&case));
        let architecture = QArchitecture { obs_dim: OBS_DIM, choices: 4, hidden, activation, dueling: false };
        let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
        let net = make(&layout, &architecture);
        let (flat_parameters, obs) = (vector(&layout, &case["parameters"]), numbers(&case["obs"]));
        let mut q = vec![0.0; ROWS * net.choices()];
        net.q(&flat_parameters, &obs, &mut q).unwrap();
        assert_close("q", &q, &numbers(&case["q"]));
        let (actions, td_targets) = (choices(&case["actions"]), numbers(&case["goals"]));
        let batch = TdBatch { obs: &obs, actions: &actions, td_targets: &td_targets };
        let mut gradient = vec![1.0; flat_parameters.len()];
        for (name, loss) in [("huber", TdLoss::Huber), ("squared", TdLoss::Squared)] {
            let mean_loss = net.td_gradient(&flat_parameters, batch, loss, &mut gradient).unwrap();
            let expected = case[name]["loss"].as_f64().unwrap();
            assert!((mean_loss / expected - 1.0).abs() <= TOLERANCE, "{name}: {mean_loss}, {expected}");
            assert_arrays_close(name, &layout, &gradient, &vector(&layout, &case[name]["gradient"]));
        }
        let invalid_choices = TdBatch { actions: &[4; ROWS], ..batch };
        let choice_error =
            net.td_gradient(&flat_parameters, invalid_choices, TdLoss::Huber, &mut gradient).unwrap_err();
        assert!(choice_error.to_string().starts_with("action of row 0 is 4"), "{choice_error}");
        let short = TdBatch { td_targets: &td_targets[1..], ..batch };
        assert!(net.td_gradient(&flat_parameters, short, TdLoss::Huber, &mut gradient).is_err());
        assert!(net.q(&flat_parameters, &obs[1..], &mut q).is_err());
    }
}

/// Checks that actions and gradients with respect to the parameters equal torch's.
pub fn check_deterministic<N: DeterministicPolicy>(make: impl Fn(&Layout, &str, &[usize], Activation) -> N) {
    let sizes = [OBS_DIM, HIDDEN[0], HIDDEN[1], 2];
    for case in golden_cases("deterministic") {
        let layout = Layout::aligned(16, parameter_shapes("actor", &sizes)).unwrap();
        let net = make(&layout, "actor", &sizes, activation(&case));
        let (flat_parameters, obs) = (vector(&layout, &case["parameters"]), numbers(&case["obs"]));
        let mut actions = vec![0.0; ROWS * 2];
        net.actions(&flat_parameters, &obs, &mut actions).unwrap();
        assert_close("actions", &actions, &numbers(&case["actions"]));
        let (slopes, mut gradient) = (numbers(&case["slopes"]), vec![1.0; flat_parameters.len()]);
        net.gradient(&flat_parameters, &obs, &slopes, &mut gradient).unwrap();
        assert_arrays_close("gradient", &layout, &gradient, &vector(&layout, &case["gradient"]));
        assert!(net.gradient(&flat_parameters, &obs, &slopes[1..], &mut gradient).is_err());
        assert!(net.gradient(&flat_parameters, &obs, &slopes, &mut gradient[1..]).is_err());
    }
}
