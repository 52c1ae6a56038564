//! Trains PPO on CartPole-v1 without Python, with the hyperparameters of rl-zoo3.
//!
//! ```sh
//! cargo run --release -p rlox-nn --example train_cartpole -- [SEED]
//! ```
#![allow(missing_docs)]

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::rollout::Arena;
use rlox_core::seed::Stream;
use rlox_core::{EnvSpec, Layout, Parameters, Result, VectorEnv};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    ActionKind, Activation, ActorCritic, ActorCriticPolicy, Architecture, OnPolicyEngine, PpoSettings,
    PpoUpdate, RolloutRows, init,
};

const STEPS: usize = 100_000;
const ENVS: usize = 8;
/// Steps of each environment in a rollout.
const ROLLOUT_LENGTH: usize = 32;
const EPOCHS: usize = 20;
const LEARNING_RATE: f64 = 1e-3;
const CLIP_EPS: f64 = 0.2;

/// The networks with their engine, their parameters, and Adam's state.
struct Learner {
    engine: OnPolicyEngine<f32>,
    parameters: Parameters,
    moments: [Vec<f32>; 2],
    steps: u64,
    settings: PpoSettings,
    seed: u64,
}

impl Learner {
    fn new(spec: &EnvSpec, seed: u64) -> Result<Self> {
        let architecture = Architecture {
            obs_dim: spec.observation.dim(),
            kind: ActionKind::Choices(spec.action.size()),
            actor: vec![64, 64],
            critic: vec![64, 64],
            activation: Activation::Tanh,
        };
        let layout = Layout::aligned(16, architecture.parameter_shapes())?;
        let engine = OnPolicyEngine::new(ActorCritic::new(&layout, &architecture)?, layout.clone())?;
        let zeros = vec![0.0; layout.len()];
        let mut parameters = Parameters::from_layout(layout);
        init::orthogonal(&architecture, &mut parameters, seed, 0.0)?;
        let moments = [zeros.clone(), zeros];
        Ok(Self { engine, parameters, moments, steps: 0, settings: settings(), seed })
    }

    fn policy(&self) -> ActorCriticPolicy<'_> {
        ActorCriticPolicy::new(self.engine.net(), self.parameters.values(), NonZeroUsize::MIN)
    }

    /// Learns from rollout number `round`. The learning rate and the clip range shrink with the
    /// fraction of the training that remains.
    fn learn(&mut self, arena: &Arena, round: usize, remaining: f64) -> Result<PpoUpdate> {
        let [exp_avg, exp_avg_sq] = &mut self.moments;
        let (rule, steps) = (Adam::new(1e-5), &mut self.steps);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps };
        self.settings.learning_rate = LEARNING_RATE * remaining;
        self.settings.loss.clip_eps = CLIP_EPS * remaining;
        let (seed, rows) = (self.seed, RolloutRows::from(arena));
        let parameters = self.parameters.values_mut();
        self.engine.ppo(parameters, &mut adam, rows, &self.settings, |pass, order| {
            order.clear();
            order.extend(0..ENVS * ROLLOUT_LENGTH);
            let number = round * EPOCHS + pass;
            Stream::new(seed, "shuffle", number as u64).shuffle(order);
        })
    }
}

fn settings() -> PpoSettings {
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.0 };
    PpoSettings {
        loss: PpoLoss { coefficients: weights, clip_eps: CLIP_EPS, clip_vloss: false },
        learning_rate: LEARNING_RATE,
        n_epochs: EPOCHS,
        batch_size: 256,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few hundred rounds, 20 episodes")]
fn main() -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut envs = VecEnv::new("CartPole-v1", ENVS, Seeding::Run(seed))?;
    let spec = VectorEnv::spec(&envs).clone();
    let mut learner = Learner::new(&spec, seed)?;
    let mut arena = Arena::new(&spec, ROLLOUT_LENGTH, ENVS)?;
    let discount = Discount::new(0.98, 0.8)?;
    let (rounds, start) = (STEPS.div_ceil(ENVS * ROLLOUT_LENGTH), Instant::now());
    let (mut collecting, mut returns) = (Duration::ZERO, Vec::new());
    for round in 0..rounds {
        let collect_start = Instant::now();
        arena.collect(&mut envs, &learner.policy(), seed, discount)?;
        collecting += collect_start.elapsed();
        let update = learner.learn(&arena, round, 1.0 - round as f64 / rounds as f64)?;
        returns.extend(arena.episodes().iter().map(|episode| episode.total));
        if round % 50 == 49 || round + 1 == rounds {
            let last = returns.get(returns.len().saturating_sub(20)..).unwrap_or_default();
            let mean = last.iter().sum::<f64>() / last.len() as f64;
            let (steps, approx_kl) = ((round + 1) * ENVS * ROLLOUT_LENGTH, update.terms.approx_kl);
            println!("{steps:>7} steps: mean return of 20 episodes {mean:.1}, KL {approx_kl:.5}");
        }
    }
    println!("{:.2?}, of which collecting {collecting:.2?}", start.elapsed());
    Ok(())
}
