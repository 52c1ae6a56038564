//! An iteration in one call gives the same bits as its parts.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use std::num::NonZeroUsize;

use rlox_core::advantage::Discount;
use rlox_core::advantage::gae::Out;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::policy::ActionsMut;
use rlox_core::rollout::{Arena, Columns, Episode, RolloutKey, RunningEpisodes};
use rlox_core::{Error, Layout, Parameters, Result, VectorEnv};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    A2cSettings, ActionKind, Activation, ActorCritic, ActorCriticPolicy, Architecture, Iteration,
    IterationResult, OnPolicyEngine, PpoSettings, RolloutRows, init,
};

const N: usize = 6;
const T: usize = 50;
const SEED: u64 = 5;

fn discount() -> Discount {
    Discount::new(0.98, 0.9).unwrap()
}

/// An environment, an engine, and the parameters that it learns.
struct Run {
    envs: VecEnv,
    engine: OnPolicyEngine<f32>,
    parameters: Parameters,
    moments: [Vec<f32>; 2],
    steps: u64,
    rounds: u64,
}

impl Run {
    fn new(env_id: &str) -> Self {
        let envs = VecEnv::new(env_id, N, Seeding::Run(SEED)).unwrap();
        let spec = VectorEnv::spec(&envs);
        let size = spec.action.size();
        let kind = if spec.action.bounds().is_none() {
            ActionKind::Choices(size)
        } else {
            ActionKind::Gaussian(size)
        };
        let architecture = Architecture {
            obs_dim: spec.observation.dim(),
            kind,
            actor: vec![16],
            critic: vec![12, 12],
            activation: Activation::Tanh,
        };
        let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
        let net = ActorCritic::new(&layout, &architecture).unwrap();
        let mut parameters = Parameters::from_layout(layout.clone());
        init::orthogonal(&architecture, &mut parameters, 1, -0.5).unwrap();
        let zeros = vec![0.0; layout.len()];
        let engine = OnPolicyEngine::new(net, layout).unwrap();
        Self { envs, engine, parameters, moments: [zeros.clone(), zeros], steps: 0, rounds: 0 }
    }

    fn ppo(&mut self, rows: RolloutRows<'_, f32>) -> Result<f64> {
        let [exp_avg, exp_avg_sq] = &mut self.moments;
        let rule = Adam::new(1e-5);
        let mut adam = Optimizer::Adam { rule, exp_avg, exp_avg_sq, steps: &mut self.steps };
        let values = self.parameters.values_mut();
        let update = self.engine.ppo(values, &mut adam, rows, &ppo_settings(), write_order)?;
        Ok(update.terms.terms.total)
    }
}

fn ppo_settings() -> PpoSettings {
    let weights = ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 };
    PpoSettings {
        loss: PpoLoss { coefficients: weights, clip_eps: 0.2, clip_vloss: false },
        learning_rate: 1e-3,
        n_epochs: 2,
        batch_size: 64,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    }
}

fn write_order(_: usize, order: &mut Vec<usize>) {
    order.clear();
    order.extend(0..N * T);
}

/// Columns of a rollout outside an arena.
struct RolloutMemory {
    obs: Vec<f32>,
    choices: Vec<i64>,
    vectors: Vec<f32>,
    flags: [Vec<bool>; 2],
    numbers: [Vec<f32>; 5],
    values: Vec<f32>,
    totals: Vec<f64>,
    steps: Vec<u64>,
}

impl RolloutMemory {
    /// Allocates the columns, and resets the environments.
    fn new(envs: &mut VecEnv) -> Self {
        let width = N * VectorEnv::spec(envs).observation.dim();
        let mut obs = vec![0.0; (T + 1) * width];
        VectorEnv::reset(envs, &mut obs[..width]).unwrap();
        Self {
            obs,
            choices: vec![0; N * T],
            vectors: vec![0.0; N * T],
            flags: [vec![false; N * T], vec![false; N * T]],
            numbers: std::array::from_fn(|_| vec![0.0; N * T]),
            values: vec![0.0; N * T + N],
            totals: vec![0.0; N],
            steps: vec![0; N],
        }
    }

    /// Runs an iteration of PPO. Returns the episodes that ended and the update.
    fn ppo(&mut self, run: &mut Run, discrete: bool) -> Result<(Vec<Episode>, IterationResult<f64>)> {
        let [terminated, truncated] = &mut self.flags;
        let [rewards, log_probs, next_values, advantages, returns] = &mut self.numbers;
        let actions = if discrete {
            ActionsMut::Discrete(&mut self.choices)
        } else {
            ActionsMut::Box(&mut self.vectors)
        };
        let (obs, values) = (&mut self.obs, &mut self.values);
        let mut iteration = Iteration {
            columns: Columns { obs, actions, rewards, terminated, truncated, log_probs, values, next_values },
            estimates: Out { advantages, returns },
            key: RolloutKey { seed: SEED, rollout: run.rounds },
            noise_kept: NonZeroUsize::MIN,
            discount: discount(),
        };
        let mut running = RunningEpisodes { totals: &mut self.totals, steps: &mut self.steps };
        let Run { envs, engine, parameters, moments: [exp_avg, exp_avg_sq], steps, rounds } = run;
        let episode_ends = iteration.collect(engine, parameters.values(), envs, &mut running)?;
        *rounds += 1;
        let mut adam = Optimizer::Adam { rule: Adam::new(1e-5), exp_avg, exp_avg_sq, steps };
        let values = parameters.values_mut();
        let result = iteration.ppo(engine, values, &mut adam, &ppo_settings(), write_order)?;
        let width = self.obs.len() / (T + 1);
        self.obs.copy_within(T * width.., 0);
        let IterationResult { update, explained_variance, learning_time: learning } = result;
        let update = update.terms.terms.total;
        Ok((episode_ends.episodes, IterationResult { update, explained_variance, learning_time: learning }))
    }
}

#[test]
fn an_iteration_gives_the_bits_of_collecting_and_learning_apart() {
    for (env_id, discrete) in [("CartPole-v1", true), ("Pendulum-v1", false)] {
        let (mut fused, mut separate) = (Run::new(env_id), Run::new(env_id));
        let mut memory = RolloutMemory::new(&mut fused.envs);
        let mut arena = Arena::new(VectorEnv::spec(&separate.envs), T, N).unwrap();
        for _ in 0..5 {
            let (episodes, result) = memory.ppo(&mut fused, discrete).unwrap();
            let values = separate.parameters.values().to_vec();
            let net = separate.engine.net().clone();
            let acting = ActorCriticPolicy::new(&net, &values, NonZeroUsize::MIN);
            arena.collect(&mut separate.envs, &acting, SEED, discount()).unwrap();
            let total = separate.ppo(RolloutRows::from(&arena)).unwrap();
            assert_eq!(result.update.to_bits(), total.to_bits(), "{env_id}");
            assert_eq!(episodes, arena.episodes());
            assert!(result.explained_variance <= 1.0 && !result.learning_time.is_zero());
        }
        assert_eq!(fused.parameters, separate.parameters);
        assert_eq!((fused.moments, fused.steps), (separate.moments, separate.steps));
    }
}

#[test]
fn a_non_finite_value_of_a_rollout_is_an_error_before_anything_is_learned() {
    let mut run = Run::new("CartPole-v1");
    let mut memory = RolloutMemory::new(&mut run.envs);
    run.parameters.array_mut("critic.4.bias", &[1]).unwrap()[0] = f32::NAN;
    let Err(Error::NonFinite { name, index: 0, .. }) = memory.ppo(&mut run, true) else {
        panic!("values that are NaN were learned from");
    };
    assert_eq!((name.as_ref(), run.steps, run.rounds), ("values", 0, 1));
}

#[test]
fn a2c_learns_once_from_all_rows_of_an_iteration() {
    let mut run = Run::new("CartPole-v1");
    let mut memory = RolloutMemory::new(&mut run.envs);
    memory.ppo(&mut run, true).unwrap(); // fills the columns
    let (before, steps) = (run.parameters.clone(), run.steps);
    let [terminated, truncated] = &mut memory.flags;
    let [rewards, log_probs, next_values, advantages, returns] = &mut memory.numbers;
    let (obs, actions) = (&mut memory.obs, ActionsMut::Discrete(&mut memory.choices));
    let values = &mut memory.values;
    let columns = Columns { obs, actions, rewards, terminated, truncated, log_probs, values, next_values };
    let mut iteration = Iteration {
        columns,
        estimates: Out { advantages, returns },
        key: RolloutKey { seed: SEED, rollout: 9 },
        noise_kept: NonZeroUsize::MIN,
        discount: discount(),
    };
    let settings = A2cSettings {
        loss: ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.0 },
        learning_rate: 1e-2,
        max_grad_norm: None,
        normalize_advantages: false,
    };
    let Run { engine, parameters, moments: [exp_avg, exp_avg_sq], steps: step_count, .. } = &mut run;
    let mut adam = Optimizer::Adam { rule: Adam::new(1e-5), exp_avg, exp_avg_sq, steps: step_count };
    let result = iteration.a2c(engine, parameters.values_mut(), &mut adam, &settings).unwrap();
    assert!(result.update.grad_norm > 0.0);
    assert_eq!(run.steps, steps + 1);
    assert_ne!(run.parameters, before);
}
