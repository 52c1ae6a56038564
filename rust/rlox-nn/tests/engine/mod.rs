//! Compares an engine of a tensor library with the engine `cpu` over whole iterations, and checks
//! that the engine refuses features that it does not support.

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::rollout::Arena;
use rlox_core::{Layout, Parameters, Result, VectorEnv};
use rlox_nn::cpu::losses::{ActorCriticLoss, PpoLoss, RolloutColumns, TdLoss};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    self, ActionKind, ActionsTaken, Activation, Architecture, PpoSettings, QArchitecture, RolloutRows, init,
    parameter_shapes,
};
use rlox_nn::traits::{ActorCritic, BoundPolicy, DeterministicPolicy, Minibatch, QFunction, TdBatch};

const LOSS: PpoLoss = PpoLoss {
    coefficients: ActorCriticLoss { vf_coef: 0.5, ent_coef: 0.01 },
    clip_eps: 0.2,
    clip_vloss: false,
};

fn architecture(obs_dim: usize, kind: ActionKind) -> Architecture {
    let hidden = vec![16, 16];
    Architecture { obs_dim, kind, actor: hidden.clone(), critic: hidden, activation: Activation::Tanh }
}

/// Returns the parameters before and after three rollouts with three epochs each.
fn train<N: ActorCritic>(
    env_id: &str,
    architecture: &Architecture,
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
) -> Result<(Vec<f32>, Vec<f32>)> {
    let layout = Layout::aligned(16, architecture.parameter_shapes())?;
    let net = make(&layout, architecture)?;
    let mut parameters = Parameters::from_layout(layout);
    init::orthogonal(architecture, &mut parameters, 1, -0.5)?;
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
        let policy = BoundPolicy { net: &net, parameters: parameters.values() };
        arena.collect(&mut envs, &policy, 3, Discount::new(0.98, 0.9)?)?;
        let rows = RolloutRows::from(&arena);
        let RolloutRows { actions: actions_taken, log_probs, values, advantages, returns, .. } = rows;
        let rollout = RolloutColumns { log_probs, values, advantages, returns };
        let batch =
            Minibatch { obs: &rows.obs[..rows.len() * rows.obs_dim], actions: actions_taken, rollout };
        let (exp_avg, exp_avg_sq) = (exp_avg.as_mut_slice(), exp_avg_sq.as_mut_slice());
        let mut adam = Optimizer::Adam { rule: Adam::new(1e-5), exp_avg, exp_avg_sq, steps: &mut steps };
        for _ in 0..3 {
            net.ppo_step(parameters.values_mut(), &mut adam, batch, &settings)?.unwrap();
        }
    }
    Ok((before, parameters.values().to_vec()))
}

fn norm(values: impl Iterator<Item = f32>) -> f64 {
    values.map(|x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt()
}

/// Checks that three iterations of collecting and learning end with the parameters of the engine
/// `cpu`.
pub fn check_iterations<N: ActorCritic>(make: impl Fn(&Layout, &Architecture) -> Result<N>) {
    for (env_id, obs_dim, kind) in
        [("CartPole-v1", 4, ActionKind::Choices(2)), ("Pendulum-v1", 3, ActionKind::Gaussian(1))]
    {
        let architecture = architecture(obs_dim, kind);
        let (before, actual) = train(env_id, &architecture, &make).unwrap();
        let (_, expected) = train(env_id, &architecture, cpu::ActorCritic::new).unwrap();
        let change = norm(expected.iter().zip(&before).map(|(a, b)| a - b));
        let error = norm(expected.iter().zip(&actual).map(|(a, b)| a - b));
        // Where a gradient is nearly 0, Adam's step follows its sign, so rounding shows in nine
        // such steps.
        assert!(error < 1e-3 * change, "{env_id}: {error:e} of {change:e}");
    }
}

fn refusal<T>(result: Result<T>) -> String {
    result.err().unwrap().to_string()
}

fn q_architecture(obs_dim: usize, dueling: bool) -> QArchitecture {
    QArchitecture { obs_dim, choices: 2, hidden: vec![4], activation: Activation::Silu, dueling }
}

/// Checks that gSDE, masks and dueling streams are refused by name, and so are invalid choices.
pub fn check_refusals<N: ActorCritic, Q: QFunction>(
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
    make_q: impl Fn(&Layout, &QArchitecture) -> Result<Q>,
) {
    let sde = architecture(3, ActionKind::Sde(1));
    let layout = Layout::sorted(sde.parameter_shapes()).unwrap();
    assert!(refusal(make(&layout, &sde)).starts_with("kind of action is gSDE"));
    let dueling_arch = q_architecture(3, true);
    let layout = Layout::sorted(dueling_arch.parameter_shapes()).unwrap();
    assert!(refusal(make_q(&layout, &dueling_arch)).starts_with("dueling is true"));
    let architecture = architecture(1, ActionKind::Choices(2));
    let layout = Layout::sorted(architecture.parameter_shapes()).unwrap();
    let (net, mut gradient) = (make(&layout, &architecture).unwrap(), vec![0.0; layout.len()]);
    let (parameters, one, mask) = (gradient.clone(), [0.0_f32], [true, true]);
    let rollout = RolloutColumns { log_probs: &one, values: &one, advantages: &one, returns: &one };
    let mut compute_gradient = |actions_taken| {
        let batch = Minibatch { obs: &one, actions: actions_taken, rollout };
        net.ppo_gradient(&parameters, batch, &LOSS, &mut gradient)
    };
    assert!(refusal(compute_gradient(ActionsTaken::Choices(&[0], Some(&mask)))).starts_with("mask is given"));
    assert!(refusal(compute_gradient(ActionsTaken::Choices(&[2], None))).starts_with("action of row 0 is 2"));
    assert!(
        refusal(compute_gradient(ActionsTaken::Choices(&[-1], None))).starts_with("action of row 0 is -1")
    );
    assert!(refusal(compute_gradient(ActionsTaken::Choices(&[0, 1], None))).starts_with("actions has"));
    assert!(compute_gradient(ActionsTaken::Choices(&[1], None)).is_ok());
}

/// Checks that a layout that lacks an array, or has it in another shape, is refused by the array's
/// name.
pub fn check_layouts<N: ActorCritic, D: DeterministicPolicy>(
    make: impl Fn(&Layout, &Architecture) -> Result<N>,
    make_deterministic: impl Fn(&Layout, &str, &[usize], Activation) -> Result<D>,
) {
    let layout = Layout::sorted(parameter_shapes("actor", &[3, 4, 2])).unwrap();
    let make_deterministic = |sizes: &[usize]| make_deterministic(&layout, "actor", sizes, Activation::Tanh);
    assert!(make_deterministic(&[3, 4, 2]).is_ok());
    assert!(refusal(make_deterministic(&[3, 5, 2])).contains("actor.0.weight"));
    let architecture = architecture(3, ActionKind::Choices(2));
    assert!(refusal(make(&layout, &architecture)).contains("actor.0.weight"));
}

/// Checks that an empty batch has no outputs and a loss of NaN, and that half a row is refused.
pub fn check_no_rows<Q: QFunction>(make: impl Fn(&Layout, &QArchitecture) -> Result<Q>) {
    let architecture = q_architecture(3, false);
    let layout = Layout::sorted(architecture.parameter_shapes()).unwrap();
    let (net, parameters) = (make(&layout, &architecture).unwrap(), vec![0.1; layout.len()]);
    net.q(&parameters, &[], &mut []).unwrap();
    assert!(refusal(net.q(&parameters, &[0.0; 3], &mut [])).starts_with("q has"));
    assert!(refusal(net.q(&parameters, &[0.0; 2], &mut [])).starts_with("obs has"));
    let (empty, mut gradient) = (TdBatch { obs: &[], actions: &[], td_targets: &[] }, parameters.clone());
    let loss = net.td_gradient(&parameters, empty, TdLoss::Huber, &mut gradient);
    assert!(loss.is_ok_and(f64::is_nan));
}
