//! The work that `benchmarks/bench_nn_backends.py` times, with any networks that implement the
//! traits. The examples `steps_cpu`, `steps_candle` and `steps_burn` use it.
//!
//! `PROGRAM WORK OBS OUTPUTS WIDTH ROWS FOLDER` reads the arrays of the work from the folder: one
//! file `NAME.f32` each, float32 in the byte order of this CPU. Each line of standard input is a
//! command: a number runs the work that many times; `result` writes the result to `result.f32`. The
//! program answers each command with one line. The parameters are those of networks with two hidden
//! layers, in the order of torch's modules. The caller measures the CPU time of this process.

use std::fs;
use std::io::{BufRead, Write, stdin, stdout};
use std::path::Path;

use rlox_core::policy::{ActionsMut, PolicyInput};
use rlox_core::{Error, Layout, Result};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss, RolloutColumns, TdLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    ActionKind, ActionsTaken, Activation, Addend, Architecture, Matrix, Number, PpoSettings, QArchitecture,
};
use rlox_nn::traits::{ActorCritic, Minibatch, QFunction, TdBatch};

/// The learning rate of every step here, as in the benchmark's own steps.
const LEARNING_RATE: f64 = 1e-4;
const ADAM_EPS: f64 = 1e-5;

const SETTINGS: PpoSettings = PpoSettings {
    loss: PpoLoss {
        coefficients: ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 },
        clip_eps: 0.2,
        clip_vloss: false,
    },
    learning_rate: LEARNING_RATE,
    n_epochs: 1,
    batch_size: usize::MAX,
    max_grad_norm: Some(0.5),
    normalize_advantages: true,
    target_kl: None,
};

/// The length of an observation, the number of outputs, the width of both hidden layers, and the
/// rows of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) obs: usize,
    pub(crate) outputs: usize,
    pub(crate) width: usize,
    pub(crate) rows: usize,
}

/// A unit of work that runs many times and has a numeric result.
pub(crate) trait Work {
    /// Runs the work once.
    fn run_once(&mut self) -> Result<()>;

    /// Returns the result: learned parameters or outputs.
    fn result(&self) -> Vec<f32>;
}

/// A function that reads an array by its name.
pub(crate) type ReadArray<'a> = &'a dyn Fn(&'static str) -> Result<Vec<f32>>;

/// Returns the work called `name` on the arrays that `read` returns. `make_actor_critic` and
/// `make_q_function` build its networks.
pub(crate) fn prepare_work<A: ActorCritic + 'static, Q: QFunction + 'static>(
    name: &str,
    sizes: Sizes,
    read: ReadArray<'_>,
    make_actor_critic: impl Fn(&Layout, &Architecture) -> Result<A>,
    make_q_function: impl Fn(&Layout, &QArchitecture) -> Result<Q>,
) -> Result<Box<dyn Work>> {
    let Sizes { obs: obs_dim, outputs, width, .. } = sizes;
    let hidden = vec![width; 2];
    let policy = |kind| {
        let (actor, critic, activation) = (hidden.clone(), hidden.clone(), Activation::Tanh);
        let architecture = Architecture { obs_dim, kind, actor, critic, activation };
        make_actor_critic(&Layout::aligned(1, architecture.parameter_shapes())?, &architecture)
    };
    let values = |choices| {
        let (hidden, activation) = (hidden.clone(), Activation::Relu);
        let q_arch = QArchitecture { obs_dim, choices, hidden, activation, dueling: false };
        make_q_function(&Layout::aligned(1, q_arch.parameter_shapes())?, &q_arch)
    };
    Ok(match name {
        "act" => Box::new(Act::new(policy(ActionKind::Gaussian(outputs))?, sizes, read)?),
        "ppo" => Box::new(PpoStep::new(policy(ActionKind::Choices(outputs))?, read)?),
        "dqn" => Box::new(TdStep::new(values(outputs)?, TdLoss::Huber, Some(outputs), read)?),
        "critic" => Box::new(TdStep::new(values(1)?, TdLoss::Squared, None, read)?),
        "products" => Box::new(Products::new(sizes)),
        _ => return Err(Error::config("work", name, "act, ppo, dqn, critic or products")),
    })
}

/// Draws a squashed Gaussian action for each observation: tanh of the policy's sample.
struct Act<A> {
    net: A,
    parameters: Vec<f32>,
    obs: Vec<f32>,
    noise: Vec<f32>,
    actions: Vec<f32>,
    log_probs: Vec<f32>,
}

impl<A> Act<A> {
    fn new(net: A, sizes: Sizes, read: ReadArray<'_>) -> Result<Self> {
        let (actions, log_probs) = (vec![0.0; sizes.rows * sizes.outputs], vec![0.0; sizes.rows]);
        let (parameters, obs, noise) = (read("parameters")?, read("obs")?, read("noise")?);
        Ok(Self { net, parameters, obs, noise, actions, log_probs })
    }
}

impl<A: ActorCritic> Work for Act<A> {
    fn run_once(&mut self) -> Result<()> {
        let input = PolicyInput { obs: &self.obs, noise: &self.noise };
        let actions = ActionsMut::Box(&mut self.actions);
        self.net.act(&self.parameters, input, actions, &mut self.log_probs)?;
        for action in &mut self.actions {
            *action = action.tanh();
        }
        Ok(())
    }

    fn result(&self) -> Vec<f32> {
        self.actions.clone()
    }
}

/// Parameters and Adam's moments.
struct TrainState {
    parameters: Vec<f32>,
    moments: [Vec<f32>; 2],
    steps: u64,
}

impl TrainState {
    fn new(read: ReadArray<'_>) -> Result<Self> {
        let parameters = read("parameters")?;
        let zeros = vec![0.0; parameters.len()];
        Ok(Self { parameters, moments: [zeros.clone(), zeros], steps: 0 })
    }

    /// Returns the parameters and their optimizer.
    fn parameters_and_optimizer(&mut self) -> (&mut [f32], Optimizer<'_, f32>) {
        let [exp_avg, exp_avg_sq] = &mut self.moments;
        let (rule, steps) = (Adam::new(ADAM_EPS), &mut self.steps);
        (&mut self.parameters, Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps })
    }
}

/// A PPO step on one minibatch.
struct PpoStep<A> {
    net: A,
    state: TrainState,
    obs: Vec<f32>,
    actions: Vec<i64>,
    columns: [Vec<f32>; 4],
}

impl<A> PpoStep<A> {
    fn new(net: A, read: ReadArray<'_>) -> Result<Self> {
        let columns = [read("log_probs")?, read("values")?, read("advantages")?, read("returns")?];
        let actions = choices(&read("actions")?);
        Ok(Self { net, state: TrainState::new(read)?, obs: read("obs")?, actions, columns })
    }
}

impl<A: ActorCritic> Work for PpoStep<A> {
    fn run_once(&mut self) -> Result<()> {
        let [log_probs, values, advantages, returns] = &self.columns;
        let rollout = RolloutColumns { log_probs, values, advantages, returns };
        let actions_taken = ActionsTaken::Choices(&self.actions, None);
        let batch = Minibatch { obs: &self.obs, actions: actions_taken, rollout };
        let (parameters, mut adam) = self.state.parameters_and_optimizer();
        self.net.ppo_step(parameters, &mut adam, batch, &SETTINGS).map(|_| ())
    }

    fn result(&self) -> Vec<f32> {
        self.state.parameters.clone()
    }
}

/// A step of Q-values towards targets: r + discount max Q' of a target network, or fixed targets.
struct TdStep<Q> {
    net: Q,
    loss: TdLoss,
    state: TrainState,
    gradient: Vec<f32>,
    obs: Vec<f32>,
    actions: Vec<i64>,
    td_targets: Vec<f32>,
    target_network: Option<TargetNetwork>,
}

/// The target network and the columns from which targets are computed.
struct TargetNetwork {
    parameters: Vec<f32>,
    next_obs: Vec<f32>,
    rewards: Vec<f32>,
    discounts: Vec<f32>,
    q: Vec<f32>,
    choices: usize,
}

impl<Q> TdStep<Q> {
    fn new(net: Q, loss: TdLoss, n_target_choices: Option<usize>, read: ReadArray<'_>) -> Result<Self> {
        let (state, actions) = (TrainState::new(read)?, choices(&read("actions")?));
        let target = n_target_choices.map(|choices| {
            let (parameters, next_obs) = (read("target")?, read("next_obs")?);
            let (rewards, discounts) = (read("rewards")?, read("discounts")?);
            let q = vec![0.0; rewards.len() * choices];
            Ok::<_, Error>(TargetNetwork { parameters, next_obs, rewards, discounts, q, choices })
        });
        let target = target.transpose()?;
        let td_targets = if target.is_some() { vec![0.0; actions.len()] } else { read("goals")? };
        let gradient = vec![0.0; state.parameters.len()];
        Ok(Self {
            net,
            loss,
            state,
            gradient,
            obs: read("obs")?,
            actions,
            td_targets,
            target_network: target,
        })
    }
}

impl<Q: QFunction> Work for TdStep<Q> {
    fn run_once(&mut self) -> Result<()> {
        if let Some(target) = &mut self.target_network {
            self.net.q(&target.parameters, &target.next_obs, &mut target.q)?;
            let rows = target.q.chunks_exact(target.choices);
            let transitions = target.rewards.iter().zip(&target.discounts);
            for ((td_target, q), (reward, discount)) in self.td_targets.iter_mut().zip(rows).zip(transitions)
            {
                *td_target = reward + discount * q.iter().copied().fold(f32::MIN, f32::max);
            }
        }
        let batch = TdBatch { obs: &self.obs, actions: &self.actions, td_targets: &self.td_targets };
        let (parameters, mut adam) = self.state.parameters_and_optimizer();
        self.net.td_gradient(parameters, batch, self.loss, &mut self.gradient)?;
        adam.step(parameters, &self.gradient, LEARNING_RATE)
    }

    fn result(&self) -> Vec<f32> {
        self.state.parameters.clone()
    }
}

/// The three matrix products of a hidden layer, `[rows, width]` by `[width, width]`: the forward
/// pass and the gradients of inputs and weights. The engine `cpu` computes them whatever the
/// networks are.
struct Products {
    sizes: Sizes,
    x: Vec<f32>,
    weight: Vec<f32>,
    y: Vec<f32>,
    to_x: Vec<f32>,
    to_weight: Vec<f32>,
}

impl Products {
    fn new(sizes: Sizes) -> Self {
        let rows = vec![0.5; sizes.rows * sizes.width];
        let square = vec![0.25; sizes.width * sizes.width];
        let (y, to_x) = (rows.clone(), rows.clone());
        Self { sizes, x: rows, to_weight: square.clone(), weight: square, y, to_x }
    }
}

impl Work for Products {
    fn run_once(&mut self) -> Result<()> {
        let Sizes { rows, width, .. } = self.sizes;
        let (x, weight) = (Matrix::new(&self.x, rows, width), Matrix::new(&self.weight, width, width));
        f32::multiply(x, weight.transposed(), Addend::Nothing, &mut self.y)?;
        let y = Matrix::new(&self.y, rows, width);
        f32::multiply(y, weight, Addend::Nothing, &mut self.to_x)?;
        f32::multiply(y.transposed(), x, Addend::Nothing, &mut self.to_weight)
    }

    fn result(&self) -> Vec<f32> {
        self.y.clone()
    }
}

#[expect(clippy::cast_possible_truncation, reason = "whole numbers of choices")]
fn choices(numbers: &[f32]) -> Vec<i64> {
    numbers.iter().map(|&number| number as i64).collect()
}

/// Runs the work that the command line names, as the lines of standard input request.
pub(crate) fn serve<A: ActorCritic + 'static, Q: QFunction + 'static>(
    make_actor_critic: impl Fn(&Layout, &Architecture) -> Result<A>,
    make_q_function: impl Fn(&Layout, &QArchitecture) -> Result<Q>,
) -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [work, obs, outputs, width, rows, folder] = arguments.as_slice() else {
        let expected = "WORK OBS OUTPUTS WIDTH ROWS FOLDER";
        return Err(Error::config("command line", arguments.join(" "), expected));
    };
    let [obs, outputs, width, rows] =
        [parse_number(obs)?, parse_number(outputs)?, parse_number(width)?, parse_number(rows)?];
    let (sizes, folder) = (Sizes { obs, outputs, width, rows }, Path::new(folder));
    let read = |name: &'static str| read_array(&folder.join(format!("{name}.f32")));
    let mut work = prepare_work(work, sizes, &read, make_actor_critic, make_q_function)?;
    let mut out = stdout();
    for line in stdin().lock().lines() {
        let line = line.map_err(|error| io_failure("read a line", &error))?;
        if line == "result" {
            let bytes: Vec<u8> = work.result().iter().flat_map(|x| x.to_ne_bytes()).collect();
            let write_result = fs::write(folder.join("result.f32"), bytes);
            write_result.map_err(|error| io_failure("write result.f32", &error))?;
        } else {
            for _ in 0..parse_number(&line)? {
                work.run_once()?;
            }
        }
        writeln!(out, "done").and_then(|()| out.flush()).map_err(|error| io_failure("answer", &error))?;
    }
    Ok(())
}

fn parse_number(text: &str) -> Result<usize> {
    text.parse().map_err(|_| Error::config("number", text, "a whole number"))
}

fn read_array(path: &Path) -> Result<Vec<f32>> {
    let bytes = fs::read(path).map_err(|error| io_failure(&path.display().to_string(), &error))?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_ne_bytes(bytes)).collect())
}

fn io_failure(action: &str, error: &std::io::Error) -> Error {
    Error::Internal { what: format!("{action}: {error}") }
}
