//! The engines that learn from batches of transitions, by the name of the algorithm. A new algorithm
//! implements [`OffPolicyEngine`] and has a line here.

use rlox_core::error::{Error, Result};

use super::cloning::CloningEngine;
use super::dqn::DqnEngine;
use super::gemm::Number;
use super::iql::IqlEngine;
use super::off_policy::{Layouts, OffPolicyEngine};
use super::sac::SacEngine;
use super::td3::Td3Engine;
use super::values::Values;

/// Returns the engine of an algorithm: `dqn`, `sac`, `td3` (also of DDPG and TD3+BC), `iql` or `bc`.
///
/// # Errors
/// [`Error::UnknownName`] for another algorithm, a parameter that is missing and a setting that the
/// networks do not have; [`Error::Shape`] for a parameter of another shape; [`Error::Config`] for a
/// network or a setting that is missing, and for a parameter too many.
///
/// # Examples
/// A policy without hidden layers, which learns to imitate actions.
/// ```
/// use rlox_core::Layout;
/// use rlox_nn::cpu::optim::{Adam, Optimizer};
/// use rlox_nn::cpu::{
///     Batches, LearnCall, Networks, TrainState, TransitionBatches, Value, Values, make_off_policy_engine,
/// };
///
/// let settings = |values: Vec<(&str, Value)>| -> Values {
///     values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
/// };
/// let layout = Layout::aligned(16, [("net.0.weight", vec![2, 3]), ("net.0.bias", vec![2])])?;
/// let architecture = settings(vec![
///     ("obs_dim", Value::Integer(3)),
///     ("size", Value::Integer(2)),
///     ("hidden", Value::Widths(Vec::new())),
///     ("activation", Value::Text("relu".into())),
///     ("gaussian", Value::Flag(false)),
/// ]);
/// let layouts = Networks::from_iter([("policy", layout)]);
/// let mut engine = make_off_policy_engine::<f32>("bc", layouts, architecture)?;
///
/// let (mut parameters, mut exp_avg, mut exp_avg_sq) = (vec![0.0; 32], vec![0.0; 32], vec![0.0; 32]);
/// let mut steps = 0;
/// let rule = Adam::new(1e-8);
/// let optimizer =
///     Optimizer::Adam { rule, exp_avg: &mut exp_avg, exp_avg_sq: &mut exp_avg_sq, steps: &mut steps };
/// let state = TrainState { parameters: &mut parameters, optimizer };
/// let (obs, rewards) = ([1.0, 0.0, -1.0, 0.5, 0.5, 0.0], [0.0; 2]);
/// let batches = Batches {
///     rows: 2,
///     obs: &obs,
///     actions: &[0, 1],
///     rewards: &rewards,
///     next_obs: &obs,
///     discounts: &rewards,
///     weights: None,
/// };
/// let metrics = engine.learn(LearnCall {
///     learned: Networks::from_iter([("policy", state)]),
///     targets: Networks::default(),
///     batches: TransitionBatches::Choices(batches),
///     noise: &[],
///     settings: settings(vec![
///         ("learning_rate", Value::Number(0.1)),
///         ("max_grad_norm", Value::None),
///         ("squared", Value::Flag(false)),
///     ]),
///     first: 0,
///     errors: &mut [0.0; 2],
/// })?;
/// let (name, loss) = metrics[0];
/// assert_eq!((name, steps), ("loss", 1));
/// assert!((loss - 2_f64.ln()).abs() < 1e-6); // two choices that are equally likely
/// # Ok::<(), rlox_core::Error>(())
/// ```
pub fn make_off_policy_engine<F: Number>(
    algorithm: &str,
    mut layouts: Layouts,
    mut architecture: Values,
) -> Result<Box<dyn OffPolicyEngine<F>>> {
    let (layouts_left, values) = (&mut layouts, &mut architecture);
    let engine: Box<dyn OffPolicyEngine<F>> = match algorithm {
        "dqn" => Box::new(DqnEngine::from_values(layouts_left, values)?),
        "sac" => Box::new(SacEngine::from_values(layouts_left, values)?),
        "td3" => Box::new(Td3Engine::from_values(layouts_left, values)?),
        "iql" => Box::new(IqlEngine::from_values(layouts_left, values)?),
        "bc" => Box::new(CloningEngine::from_values(layouts_left, values)?),
        _ => return Err(Error::unknown_name("algorithm", algorithm, &["dqn", "sac", "td3", "iql", "bc"])),
    };
    layouts.finish("network")?;
    architecture.finish()?;
    Ok(engine)
}
