//! Updates of PPO and A2C on networks for CartPole, and their matrix products alone.

use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer, RmsProp};
use rlox_nn::cpu::{
    A2cSettings, ActionKind, ActionsTaken, Activation, ActorCritic, Addend, Architecture, Matrix, Number,
    OnPolicyEngine, PpoSettings, RolloutRows,
};

use crate::inputs::{normal, to_f32};
use crate::{Kernel, Work};

const OBS_DIM: usize = 4;
const N_CHOICES: usize = 2;

pub(crate) fn kernels() -> Vec<Kernel> {
    let mut all = Vec::new();
    for (width, rows) in [(64, 256), (64, 64), (256, 256)] {
        let size = format!("f32/{width}x{width}/{rows}");
        all.push(Kernel::new(format!("nn/ppo/{size}"), rows, move || ppo(width, rows)));
        all.push(Kernel::new(format!("nn/products/{size}"), rows, move || Ok(products(width, rows))));
    }
    all.push(Kernel::new("nn/a2c/f32/64x64/40", 40, || a2c(64, 40)));
    all
}

/// An engine, its parameters and a rollout.
struct Case {
    engine: OnPolicyEngine<f32>,
    parameters: Vec<f32>,
    moments: [Vec<f32>; 2],
    obs: Vec<f32>,
    actions: Vec<i64>,
    numbers: [Vec<f32>; 4],
}

impl Case {
    fn new(width: usize, rows: usize) -> Result<Self> {
        let architecture = Architecture {
            obs_dim: OBS_DIM,
            kind: ActionKind::Choices(N_CHOICES),
            actor: vec![width; 2],
            critic: vec![width; 2],
            activation: Activation::Tanh,
        };
        let layout = Layout::aligned(16, architecture.parameter_shapes())?;
        let draw = |name, len, scale: f64| {
            let scaled: Vec<f64> = normal(name, len).into_iter().map(|x| scale * x).collect();
            to_f32(&scaled)
        };
        let net = ActorCritic::new(&layout, &architecture)?;
        let zeros = vec![0.0; layout.len()];
        let column = |name| draw(name, rows, 0.1);
        Ok(Self {
            parameters: draw("parameters", layout.len(), 0.1),
            moments: [zeros.clone(), zeros],
            obs: draw("obs", rows * OBS_DIM, 1.0),
            actions: (0..rows).map(|row| i64::from(row % 3 == 0)).collect(),
            numbers: [column("log probs"), column("values"), column("advantages"), column("returns")],
            engine: OnPolicyEngine::new(net, layout)?,
        })
    }
}

/// Borrows the columns of a rollout.
fn rows<'a>(obs: &'a [f32], actions: &'a [i64], numbers: &'a [Vec<f32>; 4]) -> RolloutRows<'a, f32> {
    let [log_probs, values, advantages, returns] = numbers;
    let actions_taken = ActionsTaken::Choices(actions, None);
    RolloutRows { obs, obs_dim: OBS_DIM, actions: actions_taken, log_probs, values, advantages, returns }
}

fn ppo(width: usize, n: usize) -> Result<Work> {
    let mut case = Case::new(width, n)?;
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.0 };
    let settings = PpoSettings {
        loss: PpoLoss { coefficients: weights, clip_eps: 0.2, clip_vloss: false },
        learning_rate: 1e-6,
        n_epochs: 1,
        batch_size: n,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    };
    let mut steps = 0;
    Ok(Box::new(move || {
        let Case { engine, parameters, moments: [exp_avg, exp_avg_sq], obs, actions, numbers } = &mut case;
        let rule = Adam::new(1e-5);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut steps };
        let columns = rows(obs, actions, numbers);
        let update = engine.ppo(parameters, &mut adam, columns, &settings, |_, order| {
            order.clear();
            order.extend(0..n);
        });
        update.map(|_| ())
    }))
}

fn a2c(width: usize, n: usize) -> Result<Work> {
    let mut case = Case::new(width, n)?;
    let settings = A2cSettings {
        loss: ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.0 },
        learning_rate: 1e-6,
        max_grad_norm: Some(0.5),
        normalize_advantages: false,
    };
    Ok(Box::new(move || {
        let Case { engine, parameters, moments: [square_avg, _], obs, actions, numbers } = &mut case;
        let rule = RmsProp { alpha: 0.99, eps: 1e-5, tf_like: false };
        let mut optimizer = Optimizer::RmsProp { rule, square_avg, steps: &mut 0 };
        engine.a2c(parameters, &mut optimizer, rows(obs, actions, numbers), &settings).map(|_| ())
    }))
}

/// Runs the matrix products of an update, for actor and critic: forward, the gradient of each
/// weight, and that of each input but the first. Heads are left out; they are not matrix products.
fn products(width: usize, n: usize) -> Work {
    let x = to_f32(&normal("obs", n * OBS_DIM));
    let hidden = to_f32(&normal("hidden", n * width));
    let (first_weight, second_weight) =
        (to_f32(&normal("first", OBS_DIM * width)), to_f32(&normal("second", width * width)));
    let (mut first_gradient, mut second_gradient) = (first_weight.clone(), second_weight.clone());
    let (mut out, mut input_gradient) = (hidden.clone(), hidden.clone());
    Box::new(move || {
        for _ in 0..2 {
            let rows = Matrix::new(&x, n, OBS_DIM);
            let weight = Matrix::new(&first_weight, width, OBS_DIM).transposed();
            f32::multiply(rows, weight, Addend::Result, &mut out)?;
            let hidden_rows = Matrix::new(&hidden, n, width);
            let weight = Matrix::new(&second_weight, width, width);
            f32::multiply(hidden_rows, weight.transposed(), Addend::Nothing, &mut out)?;
            f32::multiply(hidden_rows.transposed(), hidden_rows, Addend::Nothing, &mut second_gradient)?;
            f32::multiply(hidden_rows, weight, Addend::Nothing, &mut input_gradient)?;
            f32::multiply(hidden_rows.transposed(), rows, Addend::Nothing, &mut first_gradient)?;
        }
        Ok(())
    })
}
