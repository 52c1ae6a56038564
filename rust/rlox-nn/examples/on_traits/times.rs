//! Measures how many microseconds acting and a PPO step take, with any network that implements the
//! traits. The examples `step_times` of this crate and of the crates that wrap a tensor library use
//! it.

use std::time::Instant;

use rlox_core::policy::{ActionsMut, PolicyInput};
use rlox_core::seed::Stream;
use rlox_core::{Layout, Parameters, Result};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss, RolloutColumns};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{ActionKind, ActionsTaken, Activation, Architecture, PpoSettings, init};
use rlox_nn::traits::{ActorCritic, Minibatch};

const OBS_DIM: usize = 4;
const CHOICES: usize = 2;
/// Calls of one timed sample, and the number of samples; the median sample is reported.
const CALLS: usize = 50;
const SAMPLES: usize = 21;

const SETTINGS: PpoSettings = PpoSettings {
    loss: PpoLoss {
        coefficients: ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 },
        clip_eps: 0.2,
        clip_vloss: false,
    },
    learning_rate: 1e-5,
    n_epochs: 1,
    batch_size: 256,
    max_grad_norm: Some(0.5),
    normalize_advantages: true,
    target_kl: None,
};

/// Returns the median time of one call in microseconds.
#[expect(clippy::cast_precision_loss, reason = "a few calls")]
fn median_microseconds(mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut samples = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let start = Instant::now();
        for _ in 0..CALLS {
            call()?;
        }
        samples.push(start.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
    }
    samples.sort_by(f64::total_cmp);
    Ok(samples.get(SAMPLES / 2).copied().unwrap_or(f64::NAN))
}

fn normals(key: u64, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; n];
    Stream::new(0, "times", key).fill_normal(&mut out);
    out
}

/// Returns the times of acting and of a PPO step for `n` rows.
fn measure<N: ActorCritic>(net: &N, parameters: &mut [f32], n: usize) -> Result<[f64; 2]> {
    let (obs, noise) = (normals(0, n * OBS_DIM), vec![0.3_f32; n]);
    let (mut actions, mut log_probs, mut values) = (vec![0_i64; n], vec![0.0; n], vec![0.0; n]);
    let acting = median_microseconds(|| {
        let input = PolicyInput { obs: &obs, noise: &noise };
        net.act(parameters, input, ActionsMut::Discrete(&mut actions), &mut log_probs)?;
        net.values(parameters, &obs, &mut values)
    })?;
    let (advantages, returns) = (normals(1, n), normals(2, n));
    let zeros = vec![0.0; parameters.len()];
    let (mut exp_avg, mut exp_avg_sq, mut steps) = (zeros.clone(), zeros, 0);
    let rollout =
        RolloutColumns { log_probs: &log_probs, values: &values, advantages: &advantages, returns: &returns };
    let batch = Minibatch { obs: &obs, actions: ActionsTaken::Choices(&actions, None), rollout };
    let step = median_microseconds(|| {
        let (rule, exp_avg, exp_avg_sq) = (Adam::new(1e-5), &mut exp_avg, &mut exp_avg_sq);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut steps };
        net.ppo_step(parameters, &mut adam, batch, &SETTINGS).map(|_| ())
    })?;
    Ok([acting, step])
}

/// Prints the times for each number of rows, with an actor 4-64-64-2 and a critic 4-64-64-1.
pub(crate) fn print_times<N: ActorCritic>(
    name: &str,
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
) -> Result<()> {
    let architecture = Architecture {
        obs_dim: OBS_DIM,
        kind: ActionKind::Choices(CHOICES),
        actor: vec![64, 64],
        critic: vec![64, 64],
        activation: Activation::Tanh,
    };
    let layout = Layout::aligned(16, architecture.parameter_shapes())?;
    let net = make(&layout, &architecture)?;
    for n in [16, 64, 256] {
        let mut parameters = Parameters::from_layout(layout.clone());
        init::orthogonal(&architecture, &mut parameters, 0, 0.0)?;
        let [acting, step] = measure(&net, parameters.values_mut(), n)?;
        println!("| {name} | {n} | {acting:.0} | {step:.0} |");
    }
    Ok(())
}
