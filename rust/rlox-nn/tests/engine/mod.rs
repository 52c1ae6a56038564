//! Compares an engine of a tensor library with the engine `cpu` over whole iterations, and checks
//! that the engine refuses features that it does not support.

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

/// Returns the parameters before and after three rollouts with three epochs each.
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

/// Checks that three iterations of collecting and learning end with the parameters of the engine
/// `cpu`.
pub fn check_iterations<N: ActorCritic>(make: impl Fn(&Layout, &Architecture) -> Result<N>) {
    for (env_id, obs_dim, kind) in
        [("CartPole-v1", 4, Kind::Choices(2)), ("Pendulum-v1", 3, Kind::Numbers(1))]
    {
        let of = architecture(obs_dim, kind);
        let (before, ours) = trained(env_id, &of, &make).unwrap();
        let (_, theirs) = trained(env_id, &of, cpu::ActorCritic::new).unwrap();
        let moved = norm(theirs.iter().zip(&before).map(|(a, b)| a - b));
        let off = norm(theirs.iter().zip(&ours).map(|(a, b)| a - b));
        // Where a gradient is nearly 0, Adam's step follows its sign, so rounding shows in nine
        // such steps.
        assert!(off < 1e-3 * moved, "{env_id}: {off:e} of {moved:e}");
    }
}

fn refusal<T>(of: Result<T>) -> String {
    of.err().unwrap().to_string()
}

fn values_of(obs_dim: usize, dueling: bool) -> QArchitecture {
    QArchitecture { obs_dim, choices: 2, hidden: vec![4], activation: Activation::Silu, dueling }
}

/// Checks that gSDE, masks and dueling streams are refused by name, and so are invalid choices.
pub fn check_refusals<N: ActorCritic, Q: QFunction>(
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
    make_q: impl Fn(&Layout, &QArchitecture) -> Result<Q>,
) {
    let sde = architecture(3, Kind::Sde(1));
    let layout = Layout::sorted(sde.named()).unwrap();
    assert!(refusal(make(&layout, &sde)).starts_with("kind of action is gSDE"));
    let of = values_of(3, true);
    let layout = Layout::sorted(of.named()).unwrap();
    assert!(refusal(make_q(&layout, &of)).starts_with("dueling is true"));
    let of = architecture(1, Kind::Choices(2));
    let layout = Layout::sorted(of.named()).unwrap();
    let (net, mut gradient) = (make(&layout, &of).unwrap(), vec![0.0; layout.len()]);
    let (at, one, mask) = (gradient.clone(), [0.0_f32], [true, true]);
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

/// Checks that a layout that lacks an array, or has it in another shape, is refused by the array's
/// name.
pub fn check_layouts<N: ActorCritic, D: DeterministicPolicy>(
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
    make_deterministic: impl Fn(&Layout, &str, &[usize], Activation) -> Result<D>,
) {
    let layout = Layout::sorted(named("actor", &[3, 4, 2])).unwrap();
    let make_deterministic =
        |sizes: &[usize]| make_deterministic(&layout, "actor", sizes, Activation::Tanh);
    assert!(make_deterministic(&[3, 4, 2]).is_ok());
    assert!(refusal(make_deterministic(&[3, 5, 2])).contains("actor.0.weight"));
    let of = architecture(3, Kind::Choices(2));
    assert!(refusal(make(&layout, &of)).contains("actor.0.weight"));
}

/// Checks that an empty batch has no outputs and a loss of NaN, and that half a row is refused.
pub fn check_no_rows<Q: QFunction>(make: impl Fn(&Layout, &QArchitecture) -> Result<Q>) {
    let of = values_of(3, false);
    let layout = Layout::sorted(of.named()).unwrap();
    let (net, at) = (make(&layout, &of).unwrap(), vec![0.1; layout.len()]);
    net.q(&at, &[], &mut []).unwrap();
    assert!(refusal(net.q(&at, &[0.0; 3], &mut [])).starts_with("q has"));
    assert!(refusal(net.q(&at, &[0.0; 2], &mut [])).starts_with("obs has"));
    let (none, mut gradient) = (Valued { obs: &[], actions: &[], goals: &[] }, at.clone());
    let told = net.td_gradient(&at, none, TdLoss::Huber, &mut gradient);
    assert!(told.is_ok_and(f64::is_nan));
}
