//! Trains PPO on CartPole-v1 with any network that implements the traits, with the hyperparameters
//! of rl-zoo3. The examples `train_cartpole` of the crates that wrap a tensor library use it.

use std::time::Instant;

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::rollout::Arena;
use rlox_core::{EnvSpec, Layout, Parameters, Result, VectorEnv};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss, RolloutColumns};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{ActionKind, Activation, Architecture, PpoSettings, RolloutRows, init};
use rlox_nn::traits::{ActorCritic, BoundPolicy, Minibatch};

const STEPS: usize = 100_000;
const ENVS: usize = 8;
/// Steps of each environment in a rollout.
const LENGTH: usize = 32;
const EPOCHS: usize = 20;
const LEARNING_RATE: f64 = 1e-3;
const CLIP_EPS: f64 = 0.2;
/// The number of episodes over which the trained policy is scored.
const SCORED_EPISODES: usize = 100;

/// A network, its parameters, and Adam's state.
struct Learner<N> {
    net: N,
    parameters: Parameters,
    moments: [Vec<f32>; 2],
    steps: u64,
    settings: PpoSettings,
    seed: u64,
}

impl<N: ActorCritic> Learner<N> {
    fn new(spec: &EnvSpec, seed: u64, make: impl Fn(&Layout, &Architecture) -> Result<N>) -> Result<Self> {
        let architecture = Architecture {
            obs_dim: spec.observation.dim(),
            kind: ActionKind::Choices(spec.action.size()),
            actor: vec![64, 64],
            critic: vec![64, 64],
            activation: Activation::Tanh,
        };
        let layout = Layout::aligned(16, architecture.parameter_shapes())?;
        let (net, zeros) = (make(&layout, &architecture)?, vec![0.0; layout.len()]);
        let mut parameters = Parameters::from_layout(layout);
        init::orthogonal(&architecture, &mut parameters, seed, 0.0)?;
        let moments = [zeros.clone(), zeros];
        Ok(Self { net, parameters, moments, steps: 0, settings: settings(), seed })
    }

    fn collect(&self, arena: &mut Arena, envs: &mut VecEnv) -> Result<()> {
        let policy = BoundPolicy { net: &self.net, parameters: self.parameters.values() };
        arena.collect(envs, &policy, self.seed, Discount::new(0.98, 0.8)?)
    }

    /// Learns from a rollout, with one minibatch of all rows. The learning rate and the clip range
    /// shrink with the fraction of the training that remains.
    fn learn(&mut self, arena: &Arena, remaining: f64) -> Result<()> {
        let [exp_avg, exp_avg_sq] = &mut self.moments;
        let (rule, steps) = (Adam::new(1e-5), &mut self.steps);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps };
        self.settings.learning_rate = LEARNING_RATE * remaining;
        self.settings.loss.clip_eps = CLIP_EPS * remaining;
        let rows = RolloutRows::from(arena);
        let RolloutRows { actions: actions_taken, log_probs, values, advantages, returns, .. } = rows;
        let rollout = RolloutColumns { log_probs, values, advantages, returns };
        let obs = rows.obs.get(..rows.len() * rows.obs_dim).unwrap_or_default();
        for _ in 0..EPOCHS {
            let batch = Minibatch { obs, actions: actions_taken, rollout };
            self.net.ppo_step(self.parameters.values_mut(), &mut adam, batch, &self.settings)?;
        }
        Ok(())
    }
}

fn settings() -> PpoSettings {
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.0 };
    PpoSettings {
        loss: PpoLoss { coefficients: weights, clip_eps: CLIP_EPS, clip_vloss: false },
        learning_rate: LEARNING_RATE,
        n_epochs: EPOCHS,
        batch_size: ENVS * LENGTH,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    }
}

fn returns(arena: &Arena) -> impl Iterator<Item = f64> {
    arena.episodes().iter().map(|episode| episode.total)
}

#[expect(clippy::cast_precision_loss, reason = "some hundred episodes")]
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Trains with the seed of the command line (default 0), prints the progress, and scores the final
/// policy.
#[expect(clippy::cast_precision_loss, reason = "a few hundred rounds")]
pub(crate) fn train_cartpole<N: ActorCritic>(
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
) -> Result<()> {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let mut envs = VecEnv::new("CartPole-v1", ENVS, Seeding::Run(seed))?;
    let spec = VectorEnv::spec(&envs).clone();
    let mut learner = Learner::new(&spec, seed, make)?;
    let mut arena = Arena::new(&spec, LENGTH, ENVS)?;
    let (rounds, start, mut totals) = (STEPS.div_ceil(ENVS * LENGTH), Instant::now(), Vec::new());
    for round in 0..rounds {
        learner.collect(&mut arena, &mut envs)?;
        learner.learn(&arena, 1.0 - round as f64 / rounds as f64)?;
        totals.extend(returns(&arena));
        if round % 50 == 49 || round + 1 == rounds {
            let last = totals.get(totals.len().saturating_sub(20)..).unwrap_or_default();
            let steps = (round + 1) * ENVS * LENGTH;
            println!("{steps:>7} steps: mean return of 20 episodes {:.1}", mean(last));
        }
    }
    println!("trained in {:.2?}", start.elapsed());
    // Every environment scores its first episode, so short episodes do not count more often.
    let mut envs = VecEnv::new("CartPole-v1", SCORED_EPISODES, Seeding::Run(seed + 1))?;
    let mut arena = Arena::new(&spec, 500, SCORED_EPISODES)?;
    learner.collect(&mut arena, &mut envs)?;
    let mut first = vec![None; SCORED_EPISODES];
    for episode in arena.episodes() {
        if let Some(score) = first.get_mut(episode.env) {
            score.get_or_insert(episode.total);
        }
    }
    let scores: Vec<f64> = first.into_iter().flatten().collect();
    println!("mean return of {} episodes of the trained policy {:.1}", scores.len(), mean(&scores));
    Ok(())
}
