//! Updates of PPO and A2C on networks for CartPole, and their matrix products alone.

use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::{ActorCriticLoss, Ppo};
use rlox_nn::cpu::optim::{Adam, Optimizer, RmsProp};
use rlox_nn::cpu::{
    A2cSettings, Activation, ActorCritic, Architecture, Done, Kind, Matrix, Number, OnPolicyEngine,
    PpoSettings, Rows,
};

use crate::inputs::{normal, single};
use crate::{Kernel, Work};

const OBS: usize = 4;
const CHOICES: usize = 2;

pub(crate) fn kernels() -> Vec<Kernel> {
    let mut all = Vec::new();
    for (width, rows) in [(64, 256), (64, 64), (256, 256)] {
        let size = format!("f32/{width}x{width}/{rows}");
        all.push(Kernel::new(format!("nn/ppo/{size}"), rows, move || ppo(width, rows)));
        all.push(Kernel::new(format!("nn/products/{size}"), rows, move || {
            Ok(products(width, rows))
        }));
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
        let of = Architecture {
            obs_dim: OBS,
            kind: Kind::Choices(CHOICES),
            actor: vec![width; 2],
            critic: vec![width; 2],
            activation: Activation::Tanh,
        };
        let layout = Layout::aligned(16, of.named())?;
        let draw = |name, len, scale: f64| {
            let drawn: Vec<f64> = normal(name, len).into_iter().map(|x| scale * x).collect();
            single(&drawn)
        };
        let net = ActorCritic::new(&layout, &of)?;
        let zeros = vec![0.0; layout.len()];
        let column = |name| draw(name, rows, 0.1);
        Ok(Self {
            parameters: draw("parameters", layout.len(), 0.1),
            moments: [zeros.clone(), zeros],
            obs: draw("obs", rows * OBS, 1.0),
            actions: (0..rows).map(|row| i64::from(row % 3 == 0)).collect(),
            numbers: [
                column("log probs"),
                column("values"),
                column("advantages"),
                column("returns"),
            ],
            engine: OnPolicyEngine::new(net, layout)?,
        })
    }
}

/// Borrows the columns of a rollout.
fn rows<'a>(obs: &'a [f32], actions: &'a [i64], numbers: &'a [Vec<f32>; 4]) -> Rows<'a, f32> {
    let [log_probs, values, advantages, returns] = numbers;
    let done = Done::Choices(actions, None);
    Rows { obs, obs_dim: OBS, done, log_probs, values, advantages, returns }
}

fn ppo(width: usize, n: usize) -> Result<Work> {
    let mut case = Case::new(width, n)?;
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.0 };
    let settings = PpoSettings {
        loss: Ppo { weights, clip_eps: 0.2, clip_vloss: false },
        learning_rate: 1e-6,
        n_epochs: 1,
        batch_size: n,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    };
    let mut steps = 0;
    Ok(Box::new(move || {
        let Case { engine, parameters, moments: [exp_avg, exp_avg_sq], obs, actions, numbers } =
            &mut case;
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
        let Case { engine, parameters, moments: [square_avg, _], obs, actions, numbers } =
            &mut case;
        let rule = RmsProp { alpha: 0.99, eps: 1e-5, tf_like: false };
        let mut optimizer = Optimizer::RmsProp { rule, square_avg, steps: &mut 0 };
        engine.a2c(parameters, &mut optimizer, rows(obs, actions, numbers), &settings).map(|_| ())
    }))
}

/// Runs the matrix products of an update, for actor and critic: forward, the gradient of each
/// weight, and that of each input but the first. Heads are left out; they are not matrix products.
fn products(width: usize, n: usize) -> Work {
    let x = single(&normal("obs", n * OBS));
    let hidden = single(&normal("hidden", n * width));
    let (first, second) =
        (single(&normal("first", OBS * width)), single(&normal("second", width * width)));
    let (mut of_first, mut of_second) = (first.clone(), second.clone());
    let (mut out, mut back) = (hidden.clone(), hidden.clone());
    Box::new(move || {
        for _ in 0..2 {
            let rows = Matrix::new(&x, n, OBS);
            let weight = Matrix::new(&first, width, OBS).transposed();
            f32::multiply(rows, weight, true, &mut out)?;
            let given = Matrix::new(&hidden, n, width);
            let weight = Matrix::new(&second, width, width);
            f32::multiply(given, weight.transposed(), false, &mut out)?;
            f32::multiply(given.transposed(), given, false, &mut of_second)?;
            f32::multiply(given, weight, false, &mut back)?;
            f32::multiply(given.transposed(), rows, false, &mut of_first)?;
        }
        Ok(())
    })
}
