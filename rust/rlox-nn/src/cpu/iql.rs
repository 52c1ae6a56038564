//! Implicit Q-learning from batches of a dataset (Kostrikov et al. 2022, arXiv:2110.06169).

use std::ops::Range;

use rlox_core::Layout;
use rlox_core::error::Result;
use rlox_core::math::in_place;

use super::critics::{
    CriticTargets, Critics, CriticsMemory, StateActionPairs, TrainState, min_over_critics, polyak_update,
};
use super::engine::{check_parameters, require_finite, require_setting, require_step_settings};
use super::exploring::Exploration;
use super::gemm::Number;
use super::heads::bounded;
use super::mlp::{GradientBuffers, Memory, Mlp, resize, zeros};
use super::off_policy::{
    ActorAndCritics, Layouts, LearnCall, LearnInputs, Metrics, OffPolicyEngine, require_no_deviation,
    require_no_weights,
};
use super::replayed::{Batches, learn_batches};
use super::values::{Values, named_fields, take_fields};

/// Settings of one call of [`IqlEngine::learn`]. The caller applies schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IqlSettings {
    /// The learning rate of the critics and of the value network.
    pub learning_rate: f64,
    /// The learning rate of the actor.
    pub actor_learning_rate: f64,
    /// The norm to which each network's gradient is clipped.
    pub max_grad_norm: Option<f64>,
    /// The step of the target network towards the critics, from 0 to 1.
    pub tau: f64,
    /// The state value estimates this expectile of the action values.
    pub expectile: f64,
    /// beta: actions are cloned with weights e^(beta A).
    pub temperature: f64,
    /// The limit of those weights.
    pub max_weight: f64,
}

/// The result of [`IqlEngine::learn`], as means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct IqlUpdate {
    /// The critics' loss.
    pub critic: f64,
    /// The loss of the value network.
    pub value: f64,
    /// The loss of the actor.
    pub actor: f64,
    /// E\[Q\] of the batch's actions.
    pub q_mean: f64,
    /// E\[V\], before the value network's step.
    pub v_mean: f64,
    /// E\[w\], the mean weight of the actor's loss.
    pub weight: f64,
    /// The norm of the critics' gradient before clipping.
    pub grad_norm: f64,
}

/// The parameters of the networks that learn, and of the target network.
#[derive(Debug)]
pub struct IqlParameters<'a, F> {
    /// The policy.
    pub actor: TrainState<'a, F>,
    /// Q.
    pub critic: TrainState<'a, F>,
    /// V.
    pub value: TrainState<'a, F>,
    /// The parameters of the critics' target network.
    pub target: &'a mut [F],
}

/// A network, its parameters' layout, and buffers of a forward and a backward pass.
#[derive(Debug, Clone)]
struct Net<F> {
    mlp: Mlp,
    layout: Layout,
    memory: Memory<F>,
    gradient: Vec<F>,
}

impl<F: Number> Net<F> {
    fn new((mlp, layout): (Mlp, Layout)) -> Result<Self> {
        let gradient = zeros(layout.len())?;
        Ok(Self { mlp, layout, memory: Memory::default(), gradient })
    }

    /// Computes the gradient with respect to the parameters from that with respect to the outputs, and
    /// takes a step along it.
    /// Returns the norm before clipping.
    fn step(
        &mut self,
        state: &mut TrainState<'_, F>,
        (obs, to_outputs): (&[F], &[F]),
        (max_norm, lr): (Option<f64>, f64),
    ) -> Result<f64> {
        let buffers = GradientBuffers::parameters(self.gradient.as_mut_slice());
        self.mlp.backward(state.parameters, obs, &mut self.memory, to_outputs, buffers)?;
        state.step(&mut self.gradient, max_norm, lr)
    }
}

/// Learns a Gaussian policy with means in [-1, 1], critics and a state value. It never evaluates
/// actions outside the batch.
#[derive(Debug, Clone)]
pub struct IqlEngine<F> {
    actor: Net<F>,
    log_std: Range<usize>,
    value: Net<F>,
    critics: Critics,
    critics_layout: Layout,
    critics_memory: CriticsMemory<F>,
    gradient: Vec<F>,
    min_q: Vec<F>,
    argmin: Vec<usize>,
    td_targets: Vec<F>,
    weights: Vec<F>,
    slopes: Vec<F>,
    head: bounded::BoundedMemory<F>,
}

impl<F: Number> IqlEngine<F> {
    /// Returns an engine for networks whose parameters are at the ranges of the layouts. The
    /// actor's layout has `log_std` `[action_dim]` too.
    ///
    /// # Errors
    /// [`rlox_core::Error::UnknownName`] and [`rlox_core::Error::Shape`] for `log_std`;
    /// [`rlox_core::Error::Config`] if there is no memory for the gradients.
    pub fn new(
        (actor, actor_layout): (Mlp, Layout),
        (critics, critics_layout): (Critics, Layout),
        value: (Mlp, Layout),
    ) -> Result<Self> {
        let log_std = actor_layout.range("log_std", &[actor.outputs()])?;
        let gradient = zeros(critics_layout.len())?;
        Ok(Self {
            actor: Net::new((actor, actor_layout))?,
            log_std,
            value: Net::new(value)?,
            critics,
            critics_layout,
            critics_memory: CriticsMemory::default(),
            gradient,
            min_q: Vec::new(),
            argmin: Vec::new(),
            td_targets: Vec::new(),
            weights: Vec::new(),
            slopes: Vec::new(),
            head: bounded::BoundedMemory::default(),
        })
    }

    /// Takes one step of value, actor, critics and target for each batch (algorithm 1). `errors`
    /// `[k, rows]` receives the critics' mean absolute errors.
    ///
    /// # Errors
    /// [`rlox_core::Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`rlox_core::Error::Interrupted`]; [`rlox_core::Error::Shape`] for columns that do not fit;
    /// [`rlox_core::Error::Config`] for settings out of range. Earlier steps keep their effect.
    pub fn learn(
        &mut self,
        networks: &mut IqlParameters<'_, F>,
        batches: Batches<'_, F, F>,
        settings: &IqlSettings,
        errors: &mut [F],
    ) -> Result<IqlUpdate> {
        settings.check()?;
        for state in [&networks.actor, &networks.critic, &networks.value] {
            state.optimizer.check()?;
        }
        let count = batches.check(self.actor.mlp.outputs(), errors.len())?;
        let mut error_rows = errors.chunks_mut(batches.rows);
        let [critic, value, actor, q_mean, v_mean, weight, grad_norm] = learn_batches(count, |i| {
            let (batch, errors) = (batches.batch(i, count), error_rows.next().unwrap_or_default());
            let (update, norms) = self.step(networks, batch, settings, errors)?;
            let IqlUpdate { critic, value, actor, q_mean, v_mean, weight, grad_norm } = update;
            require_finite(i, [("critic loss", critic), ("value loss", value), ("actor loss", actor)])?;
            require_finite(i, [("values", q_mean), ("gradient norm", grad_norm)])?;
            require_finite(i, [("value's gradient norm", norms[0]), ("actor's gradient norm", norms[1])])?;
            Ok([critic, value, actor, q_mean, v_mean, weight, grad_norm])
        })?;
        check_parameters(&self.actor.layout, networks.actor.parameters)?;
        check_parameters(&self.critics_layout, networks.critic.parameters)?;
        check_parameters(&self.value.layout, networks.value.parameters)?;
        Ok(IqlUpdate { critic, value, actor, q_mean, v_mean, weight, grad_norm })
    }

    fn step(
        &mut self,
        networks: &mut IqlParameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &IqlSettings,
        errors: &mut [F],
    ) -> Result<(IqlUpdate, [f64; 2])> {
        let pairs = StateActionPairs { obs: batch.obs, actions: batch.actions };
        let critics = &self.critics;
        let q = critics.forward(networks.target, pairs, critics.members(), &mut self.critics_memory)?;
        min_over_critics(q, batch.rewards.len(), &mut self.min_q, &mut self.argmin);
        let (value, v_mean, value_norm) = self.improve_value(networks, batch, settings)?;
        let (actor, weight, actor_norm) = self.improve_actor(networks, batch, settings)?;
        self.compute_targets(networks, batch)?;
        let Self { critics, critics_memory, td_targets, gradient, .. } = self;
        critics.forward(networks.critic.parameters, pairs, critics.members(), critics_memory)?;
        let targets = CriticTargets { values: td_targets, weights: None, factor: 1.0 };
        let (critic, q_mean) =
            critics.gradient(networks.critic.parameters, critics_memory, targets, errors, gradient)?;
        let grad_norm = networks.critic.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        polyak_update(networks.target, networks.critic.parameters, settings.tau);
        let update = IqlUpdate { critic, value, actor, q_mean, v_mean, weight, grad_norm };
        Ok((update, [value_norm, actor_norm]))
    }

    /// Takes one step of V towards the expectile of the minimum Q' (equation 5). Returns the loss
    /// and the mean of V before the step, and the norm of the gradient.
    fn improve_value(
        &mut self,
        networks: &mut IqlParameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &IqlSettings,
    ) -> Result<(f64, f64, f64)> {
        let Self { value: net, min_q, slopes, .. } = self;
        let v = net.mlp.forward(networks.value.parameters, batch.obs, &mut net.memory)?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let n = v.len() as f64;
        let scale = F::from_f64(-2.0 / n);
        let (above, below) = (F::from_f64(settings.expectile), F::from_f64(1.0 - settings.expectile));
        let (mut loss, mut sum) = (0.0, 0.0);
        slopes.clear();
        for (&mut v, &q) in v.iter_mut().zip(&*min_q) {
            let error = q - v;
            let weight = if error < F::ZERO { below } else { above };
            loss += (weight * error * error).to_f64();
            sum += v.to_f64();
            slopes.push(weight * error * scale);
        }
        net.gradient.fill(F::ZERO);
        let step_settings = (settings.max_grad_norm, settings.learning_rate);
        let norm = net.step(&mut networks.value, (batch.obs, slopes), step_settings)?;
        Ok((loss / n, sum / n, norm))
    }

    /// Takes one step along the gradient of -E[w log pi(a | s)], where w is e^(beta (min Q' - V))
    /// up to a limit (equation 7). Returns that loss, E[w], and the norm of the gradient.
    fn improve_actor(
        &mut self,
        networks: &mut IqlParameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &IqlSettings,
    ) -> Result<(f64, f64, f64)> {
        let Self { actor, value, log_std, min_q, weights, slopes, head, .. } = self;
        let v = value.mlp.infer(networks.value.parameters, batch.obs, &mut value.memory)?;
        let (beta, limit) = (F::from_f64(settings.temperature), F::from_f64(settings.max_weight));
        weights.clear();
        weights.extend(min_q.iter().zip(v).map(|(&q, v)| beta * (q - *v)));
        in_place::exp(weights);
        for weight in weights.iter_mut().filter(|weight| **weight > limit) {
            *weight = limit;
        }
        let outputs = actor.mlp.forward(networks.actor.parameters, batch.obs, &mut actor.memory)?;
        in_place::tanh(outputs);
        let log_std_values = networks.actor.parameters.get(log_std.clone()).unwrap_or_default();
        bounded::score(outputs, log_std_values, batch.actions, head)?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let n = weights.len() as f64;
        let pairs = || weights.iter().zip(&head.log_probs);
        let loss = -pairs().map(|(&weight, &p)| (weight * p).to_f64()).sum::<f64>() / n;
        let mean = weights.iter().map(|weight| weight.to_f64()).sum::<f64>() / n;
        let share = F::from_f64(-1.0 / n);
        for weight in weights.iter_mut() {
            *weight = *weight * share;
        }
        actor.gradient.fill(F::ZERO);
        resize(slopes, outputs.len())?;
        let to_log_std = actor.gradient.get_mut(log_std.clone()).unwrap_or_default();
        bounded::backward(outputs, log_std_values, head, weights, (slopes, to_log_std));
        let step_settings = (settings.max_grad_norm, settings.actor_learning_rate);
        let norm = actor.step(&mut networks.actor, (batch.obs, slopes), step_settings)?;
        Ok((loss, mean, norm))
    }

    /// Computes the targets R + gamma^m V(s') (equation 6).
    fn compute_targets(&mut self, networks: &IqlParameters<'_, F>, batch: Batches<'_, F, F>) -> Result<()> {
        let Self { value, td_targets, .. } = self;
        let v = value.mlp.infer(networks.value.parameters, batch.next_obs, &mut value.memory)?;
        td_targets.clear();
        let transitions = batch.rewards.iter().zip(batch.discounts).zip(v);
        td_targets.extend(transitions.map(|((&reward, &discount), v)| reward + discount * *v));
        Ok(())
    }
}

impl<F: Number> IqlEngine<F> {
    /// Returns an engine for the networks `actor`, whose vector also has `log_std`, `critic` and
    /// `value`.
    pub(super) fn from_values(layouts: &mut Layouts, architecture: &mut Values) -> Result<Self> {
        let nets = ActorAndCritics::take(architecture)?;
        let actor = nets.make_actor(layouts, nets.size, &["log_std"])?;
        let critics = nets.make_critics(layouts)?;
        Self::new(actor, critics, nets.make_value(layouts)?)
    }
}

impl<F: Number> OffPolicyEngine<F> for IqlEngine<F> {
    fn obs_dim(&self) -> usize {
        self.actor.mlp.inputs()
    }

    fn action_dim(&self) -> usize {
        self.actor.mlp.outputs()
    }

    fn vector_lens(&self) -> Vec<(&'static str, usize)> {
        let (actor, critics, value) = (&self.actor.layout, &self.critics_layout, &self.value.layout);
        vec![("actor", actor.len()), ("critic", critics.len()), ("value", value.len())]
    }

    fn exploration(&self, deviation: f32) -> Result<(&'static str, Exploration)> {
        require_no_deviation(deviation)?;
        Ok(("actor", Exploration::ActionNoise(self.actor.mlp.clone(), 0.0)))
    }

    fn learn(&mut self, mut call: LearnCall<'_, F>) -> Result<Metrics> {
        let settings = take_fields!(
            call.settings,
            IqlSettings {
                learning_rate,
                actor_learning_rate,
                max_grad_norm,
                tau,
                expectile,
                temperature,
                max_weight
            }
        );
        let mut networks = IqlParameters {
            actor: call.learned.take("actor")?,
            critic: call.learned.take("critic")?,
            value: call.learned.take("value")?,
            target: call.targets.take("critic")?,
        };
        let LearnInputs { batches, errors, .. } = call.finish()?;
        let batches = batches.vectors()?;
        require_no_weights(batches.weights)?;
        let update = self.learn(&mut networks, batches, &settings, errors)?;
        Ok(named_fields!(update { critic, value, actor, q_mean, v_mean, weight, grad_norm }))
    }
}

impl IqlSettings {
    /// # Errors
    /// [`rlox_core::Error::Config`] for a setting out of its range.
    fn check(&self) -> Result<()> {
        let is_fraction = |x: f64| (0.0..=1.0).contains(&x);
        require_step_settings(self.learning_rate, self.max_grad_norm)?;
        let lr = self.actor_learning_rate;
        require_setting("actor_learning_rate", lr, lr >= 0.0, "at least 0")?;
        require_setting("tau", self.tau, is_fraction(self.tau), "0 to 1")?;
        require_setting("expectile", self.expectile, is_fraction(self.expectile), "0 to 1")?;
        require_setting("temperature", self.temperature, self.temperature >= 0.0, "at least 0")?;
        require_setting("max_weight", self.max_weight, self.max_weight > 0.0, "above 0")
    }
}
