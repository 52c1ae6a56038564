//! Candle in the place of the engine `cpu`: whole iterations agree, and what Candle is not written for is refused.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use rlox_candle::{CandleActorCritic, CandleDeterministic, CandleQNetwork};
use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::rollout::Arena;
use rlox_core::{Layout, Parameters, Result, VectorEnv};
use rlox_nn::cpu::losses::{ActorCriticLoss, Collected, Ppo, TdLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    self, Activation, Architecture, Done, Kind, PpoSettings, QArchitecture, Rows, init, named,
};
use rlox_nn::traits::{ActorCritic, Bound, DeterministicPolicy, Minibatch, QFunction, Valued};

const LOSS: Ppo = Ppo {
    weights: ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 },
    clip_eps: 0.2,
    clip_vloss: false,
};

fn architecture(obs_dim: usize, kind: Kind) -> Architecture {
    let hidden = vec![16, 16];
    Architecture {
        obs_dim,
        kind,
        actor: hidden.clone(),
        critic: hidden,
        activation: Activation::Tanh,
    }
}

/// The parameters after three rollouts of which three epochs each were learned.
fn trained<N: ActorCritic>(
    env_id: &str,
    of: &Architecture,
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
) -> Result<(Vec<f32>, Vec<f32>)> {
    let layout = Layout::aligned(16, of.named())?;
    let net = make(&layout, of)?;
    let mut parameters = Parameters::of(layout);
    init::orthogonal(of, &mut parameters, 1, -0.5)?;
    let mut envs = VecEnv::new(env_id, 4, Seeding::Run(3))?;
    let mut arena = Arena::new(VectorEnv::spec(&envs), 16, 4)?;
    let settings = PpoSettings {
        loss: LOSS,
        learning_rate: 1e-3,
        n_epochs: 1,
        batch_size: 64,
        max_grad_norm: Some(0.5),
        normalize_advantages: true,
        target_kl: None,
    };
    let (before, n) = (parameters.values().to_vec(), parameters.values().len());
    let (mut exp_avg, mut exp_avg_sq, mut steps) = (vec![0.0; n], vec![0.0; n], 0);
    for _ in 0..3 {
        let policy = Bound { net: &net, parameters: parameters.values() };
        arena.collect(&mut envs, &policy, 3, Discount::new(0.98, 0.9)?)?;
        let rows = Rows::from(&arena);
        let Rows { done, log_probs, values, advantages, returns, .. } = rows;
        let collected = Collected { log_probs, values, advantages, returns };
        let batch = Minibatch { obs: &rows.obs[..rows.len() * rows.obs_dim], done, collected };
        let (exp_avg, exp_avg_sq) = (exp_avg.as_mut_slice(), exp_avg_sq.as_mut_slice());
        let mut adam =
            Optimizer::Adam { rule: Adam::new(1e-5), exp_avg, exp_avg_sq, steps: &mut steps };
        for _ in 0..3 {
            net.ppo_step(parameters.values_mut(), &mut adam, batch, &settings)?.unwrap();
        }
    }
    Ok((before, parameters.values().to_vec()))
}

fn norm(of: impl Iterator<Item = f32>) -> f64 {
    of.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

#[test]
fn iterations_of_collecting_and_learning_are_those_of_the_engine_cpu() {
    for (env_id, obs_dim, kind) in
        [("CartPole-v1", 4, Kind::Choices(2)), ("Pendulum-v1", 3, Kind::Numbers(1))]
    {
        let of = architecture(obs_dim, kind);
        let (before, ours) = trained(env_id, &of, CandleActorCritic::new).unwrap();
        let (_, theirs) = trained(env_id, &of, cpu::ActorCritic::new).unwrap();
        let moved = norm(theirs.iter().zip(&before).map(|(a, b)| a - b));
        let off = norm(theirs.iter().zip(&ours).map(|(a, b)| a - b));
        // Nine steps: an Adam's step where a slope is nearly 0 has its sign, so less is not to be had.
        assert!(off < 1e-3 * moved, "{env_id}: {off:e} of {moved:e}");
    }
}

fn refusal<T>(of: Result<T>) -> String {
    of.err().unwrap().to_string()
}

#[test]
fn what_is_left_to_the_engine_cpu_is_refused_by_name() {
    let sde = architecture(3, Kind::Sde(1));
    let layout = Layout::sorted(sde.named()).unwrap();
    assert!(refusal(CandleActorCritic::new(&layout, &sde)).starts_with("kind of action is gSDE"));
    let of = QArchitecture {
        obs_dim: 3,
        choices: 2,
        hidden: vec![4],
        activation: Activation::Relu,
        dueling: true,
    };
    let layout = Layout::sorted(of.named()).unwrap();
    assert!(refusal(CandleQNetwork::new(&layout, &of)).starts_with("dueling is true"));
    let of = architecture(1, Kind::Choices(2));
    let layout = Layout::sorted(of.named()).unwrap();
    let (net, mut gradient) =
        (CandleActorCritic::new(&layout, &of).unwrap(), vec![0.0; layout.len()]);
    let at = gradient.clone();
    let (one, mask) = ([0.0_f32], [true, true]);
    let collected = Collected { log_probs: &one, values: &one, advantages: &one, returns: &one };
    let mut of = |done| {
        let batch = Minibatch { obs: &one, done, collected };
        net.ppo_gradient(&at, batch, &LOSS, &mut gradient)
    };
    assert!(refusal(of(Done::Choices(&[0], Some(&mask)))).starts_with("mask is given"));
    assert!(refusal(of(Done::Choices(&[2], None))).starts_with("action of row 0 is 2"));
    assert!(refusal(of(Done::Choices(&[-1], None))).starts_with("action of row 0 is -1"));
    assert!(refusal(of(Done::Choices(&[0, 1], None))).starts_with("actions has"));
    assert!(of(Done::Choices(&[1], None)).is_ok());
}

#[test]
fn a_layout_that_lacks_an_array_is_refused_by_its_name() {
    let layout = Layout::sorted(named("actor", &[3, 4, 2])).unwrap();
    let tanh = Activation::Tanh;
    assert!(CandleDeterministic::new(&layout, "actor", &[3, 4, 2], tanh).is_ok());
    let other = CandleDeterministic::new(&layout, "actor", &[3, 5, 2], tanh);
    assert!(refusal(other).contains("actor.0.weight"));
    let of = architecture(3, Kind::Choices(2));
    assert!(refusal(CandleActorCritic::new(&layout, &of)).contains("actor.0.weight"));
}

#[test]
fn no_rows_are_nothing_to_say_of_and_nothing_to_learn_from() {
    let layout = Layout::sorted(named("q", &[3, 4, 2])).unwrap();
    let (hidden, activation) = (vec![4], Activation::Silu);
    let of = QArchitecture { obs_dim: 3, choices: 2, hidden, activation, dueling: false };
    let net = CandleQNetwork::new(&layout, &of).unwrap();
    let mut at = vec![0.1; layout.len()];
    net.q(&at.clone(), &[], &mut []).unwrap();
    assert!(refusal(net.q(&at, &[0.0; 3], &mut [])).starts_with("q has"));
    assert!(refusal(net.q(&at, &[0.0; 2], &mut [])).starts_with("obs has"));
    let none = Valued { obs: &[], actions: &[], goals: &[] };
    let told = net.td_gradient(&at.clone(), none, TdLoss::Huber, &mut at);
    assert!(told.is_ok_and(f64::is_nan));
    let layout = Layout::sorted(named("actor", &[3, 4, 2])).unwrap();
    let net = CandleDeterministic::new(&layout, "actor", &[3, 4, 2], activation).unwrap();
    net.actions(&vec![0.1; layout.len()], &[], &mut []).unwrap();
}
