//! Compares gradients of the engines that learn from datasets with finite differences.
//!
//! With a step size of 0 nothing changes, and the optimizer's first moment after one batch is a
//! tenth of the gradient.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use rlox_core::Layout;
use rlox_core::Result;
use rlox_core::seed::Stream;
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    ActionKind, ActionsTaken, Activation, Batches, CloningEngine, CloningSettings, Critics,
    CriticsArchitecture, IqlEngine, IqlParameters, IqlSettings, Mlp, TrainState, parameter_shapes,
};

const ROWS: usize = 7;
const OBS_DIM: usize = 3;
const ACTION_DIM: usize = 2;
const STEP: f64 = 1e-6;
const HIDDEN: [usize; 2] = [5, 4];

fn normals(stream: &mut Stream, n: usize) -> Vec<f64> {
    (0..n).map(|_| stream.normal()).collect()
}

/// Returns parameters with their optimizer. After one step of size 0 its first moment is a tenth of
/// the gradient.
fn with_adam<'a>(
    parameters: &'a mut [f64],
    [first, second]: &'a mut [Vec<f64>; 2],
    steps: &'a mut u64,
) -> TrainState<'a, f64> {
    let rule = Adam::new(1e-8);
    let optimizer = Optimizer::Adam { rule, exp_avg: first, exp_avg_sq: second, steps };
    TrainState { parameters, optimizer }
}

/// Returns the largest difference of the gradient from finite differences of the loss, relative to
/// the norm of the finite differences.
fn gradient_error(parameters: &[f64], gradient: &[f64], loss: impl Fn(&[f64]) -> f64) -> f64 {
    let (mut worst, mut norm) = (0.0_f64, 0.0_f64);
    for (i, slope) in gradient.iter().enumerate() {
        let (mut above, mut below) = (parameters.to_vec(), parameters.to_vec());
        above[i] += STEP;
        below[i] -= STEP;
        let difference = (loss(&above) - loss(&below)) / (2.0 * STEP);
        worst = worst.max((difference - slope).abs());
        norm += difference * difference;
    }
    assert!(norm > 0.0);
    worst / norm.sqrt()
}

fn with_log_std(prefix: &str, sizes: &[usize]) -> Layout {
    let log_std_shape = ("log_std".to_owned(), vec![ACTION_DIM]);
    Layout::aligned(16, [vec![log_std_shape], parameter_shapes(prefix, sizes)].concat()).unwrap()
}

#[test]
fn gradients_of_cloning_are_those_of_finite_differences() {
    let sizes = [OBS_DIM, HIDDEN[0], HIDDEN[1], ACTION_DIM];
    for activation in Activation::ALL {
        for (kind, squared) in [
            (ActionKind::Choices(ACTION_DIM), false),
            (ActionKind::Gaussian(ACTION_DIM), false),
            (ActionKind::Gaussian(ACTION_DIM), true),
        ] {
            let layout = with_log_std("net", &sizes);
            let net = Mlp::new(&layout, "net", &sizes, activation).unwrap();
            let mut stream = Stream::new(3, "clone", 0);
            let parameters = normals(&mut stream, layout.len());
            let obs = normals(&mut stream, ROWS * OBS_DIM);
            let (vectors, choices) = (normals(&mut stream, ROWS * ACTION_DIM), [0, 1, 1, 0, 1, 0, 0]);
            let loss_and_gradient = |point: &[f64]| -> Result<(f64, Vec<f64>)> {
                let mut values = point.to_vec();
                let mut moments = [vec![0.0; values.len()], vec![0.0; values.len()]];
                let mut steps = 0;
                let mut engine = CloningEngine::new(net.clone(), layout.clone(), kind)?;
                let settings = CloningSettings { learning_rate: 0.0, max_grad_norm: None, squared };
                let actions_taken = match kind {
                    ActionKind::Choices(_) => ActionsTaken::Choices(&choices, None),
                    _ => ActionsTaken::Vectors(&vectors),
                };
                let mut state = with_adam(&mut values, &mut moments, &mut steps);
                let loss = engine.learn(&mut state, (&obs, actions_taken), ROWS, &settings)?.loss;
                let [first, _] = moments;
                Ok((loss, first.iter().map(|m| 10.0 * m).collect()))
            };
            let (_, gradient) = loss_and_gradient(&parameters).unwrap();
            let error = gradient_error(&parameters, &gradient, |at| loss_and_gradient(at).unwrap().0);
            assert!(error < 1e-6, "{activation:?} {kind:?} {squared}: {error}");
        }
    }
}

/// Networks with one activation, their parameters, and a batch.
struct IqlCase {
    nets: (Mlp, Critics, Mlp),
    /// The layouts of actor, critics and value.
    layouts: [Layout; 3],
    parameters: [Vec<f64>; 3],
    target: Vec<f64>,
    columns: [Vec<f64>; 4],
}

impl IqlCase {
    fn new(activation: Activation) -> Self {
        let (sizes, value_sizes) =
            ([OBS_DIM, HIDDEN[0], HIDDEN[1], ACTION_DIM], [OBS_DIM, HIDDEN[0], HIDDEN[1], 1]);
        let hidden = HIDDEN.to_vec();
        let critics =
            CriticsArchitecture { members: 2, obs_dim: OBS_DIM, action_dim: ACTION_DIM, hidden, activation };
        let layouts = [
            with_log_std("actor", &sizes),
            Layout::aligned(16, critics.parameter_shapes()).unwrap(),
            Layout::aligned(16, parameter_shapes("value", &value_sizes)).unwrap(),
        ];
        let nets = (
            Mlp::new(&layouts[0], "actor", &sizes, activation).unwrap(),
            Critics::new(&layouts[1], &critics).unwrap(),
            Mlp::new(&layouts[2], "value", &value_sizes, activation).unwrap(),
        );
        let mut stream = Stream::new(4, "iql", 0);
        let parameters = layouts
            .each_ref()
            .map(|layout| normals(&mut stream, layout.len()).iter().map(|x| 0.5 * x).collect::<Vec<_>>());
        let target = parameters[1].iter().map(|x| 0.7 * x).collect();
        let columns =
            [ROWS * OBS_DIM, ROWS * ACTION_DIM, ROWS, ROWS * OBS_DIM].map(|n| normals(&mut stream, n));
        Self { nets, layouts, parameters, target, columns }
    }

    /// Returns the losses of actor, critics and value at these parameters, and their gradients.
    fn losses(&self, parameters: &[Vec<f64>; 3]) -> Result<([f64; 3], [Vec<f64>; 3])> {
        let [mut a, mut c, mut v] = parameters.clone();
        let mut moments = [&a, &c, &v].map(|vector| [vec![0.0; vector.len()], vec![0.0; vector.len()]]);
        let (mut steps, mut errors, mut target) = ([0; 3], [0.0; ROWS], self.target.clone());
        let ([moments_a, moments_c, moments_v], [steps_a, steps_c, steps_v]) = (&mut moments, &mut steps);
        let mut networks = IqlParameters {
            actor: with_adam(&mut a, moments_a, steps_a),
            critic: with_adam(&mut c, moments_c, steps_c),
            value: with_adam(&mut v, moments_v, steps_v),
            target: &mut target,
        };
        let [obs, actions, rewards, next_obs] = &self.columns;
        let discounts = &[0.9, 0.0, 0.9, 0.9, 0.0, 0.9, 0.9];
        let batches = Batches { rows: ROWS, obs, actions, rewards, next_obs, discounts, weights: None };
        let ((actor, critics, value), [la, lc, lv]) = (self.nets.clone(), self.layouts.clone());
        let mut engine = IqlEngine::new((actor, la), (critics, lc), (value, lv))?;
        let update = engine.learn(&mut networks, batches, &SETTINGS, &mut errors)?;
        let gradients = moments.map(|[first, _]| first.iter().map(|m| 10.0 * m).collect());
        Ok(([update.actor, update.critic, update.value], gradients))
    }
}

const SETTINGS: IqlSettings = IqlSettings {
    learning_rate: 0.0,
    actor_learning_rate: 0.0,
    max_grad_norm: None,
    tau: 0.5,
    expectile: 0.8,
    temperature: 1.5,
    max_weight: 3.0,
};

#[test]
fn gradients_of_implicit_q_learning_are_those_of_finite_differences() {
    for activation in Activation::ALL {
        let case = IqlCase::new(activation);
        let (_, gradients) = case.losses(&case.parameters).unwrap();
        for (net, gradient) in gradients.iter().enumerate() {
            let loss = |net_parameters: &[f64]| {
                let mut parameters = case.parameters.clone();
                parameters[net] = net_parameters.to_vec();
                case.losses(&parameters).unwrap().0[net]
            };
            let error = gradient_error(&case.parameters[net], gradient, loss);
            assert!(error < 1e-6, "{activation:?} net {net}: {error}");
        }
    }
}
