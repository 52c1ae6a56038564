//! Implicit Q-learning from batches of a dataset (Kostrikov et al. 2022, arXiv:2110.06169).

use std::ops::Range;

use rlox_core::error::Result;
use rlox_core::math::in_place;
use rlox_core::{Layout, interrupt};

use super::critics::{Aim, Critics, CriticsMemory, Learned, Pairs, follow, lowest};
use super::engine::{check_parameters, finite, within};
use super::gemm::Number;
use super::heads::bounded;
use super::mlp::{Memory, Mlp, Wanted, resize};
use super::replayed::Batches;

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
    /// The expectile of the action values that the state value estimates.
    pub expectile: f64,
    /// beta: actions are cloned with weights e^(beta A).
    pub temperature: f64,
    /// The limit of those weights.
    pub max_weight: f64,
}

/// The result of [`IqlEngine::learn`], means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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
    pub actor: Learned<'a, F>,
    /// Q.
    pub critic: Learned<'a, F>,
    /// V.
    pub value: Learned<'a, F>,
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
    fn of((mlp, layout): (Mlp, Layout)) -> Result<Self> {
        let mut gradient = Vec::new();
        resize(&mut gradient, layout.len())?;
        Ok(Self { mlp, layout, memory: Memory::default(), gradient })
    }

    /// Computes the parameters' gradient from that of the outputs, and takes a step along it.
    /// Returns the norm before clipping.
    fn step(
        &mut self,
        of: &mut Learned<'_, F>,
        (obs, to_outputs): (&[F], &[F]),
        (most, lr): (Option<f64>, f64),
    ) -> Result<f64> {
        let wanted = Wanted::parameters(self.gradient.as_mut_slice());
        self.mlp.backward(of.parameters, obs, &mut self.memory, to_outputs, wanted)?;
        of.step(&mut self.gradient, most, lr)
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
    of_critics: Layout,
    valuing: CriticsMemory<F>,
    gradient: Vec<F>,
    low: Vec<F>,
    whose: Vec<usize>,
    goals: Vec<F>,
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
        (actor, of_actor): (Mlp, Layout),
        (critics, of_critics): (Critics, Layout),
        value: (Mlp, Layout),
    ) -> Result<Self> {
        let log_std = of_actor.range("log_std", &[actor.outputs()])?;
        let mut gradient = Vec::new();
        resize(&mut gradient, of_critics.len())?;
        Ok(Self {
            actor: Net::of((actor, of_actor))?,
            log_std,
            value: Net::of(value)?,
            critics,
            of_critics,
            valuing: CriticsMemory::default(),
            gradient,
            low: Vec::new(),
            whose: Vec::new(),
            goals: Vec::new(),
            weights: Vec::new(),
            slopes: Vec::new(),
            head: bounded::BoundedMemory::default(),
        })
    }

    /// Returns the actor's network.
    #[must_use]
    pub const fn actor(&self) -> &Mlp {
        &self.actor.mlp
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
        of: &mut IqlParameters<'_, F>,
        batches: Batches<'_, F, F>,
        settings: &IqlSettings,
        errors: &mut [F],
    ) -> Result<IqlUpdate> {
        settings.check()?;
        for learned in [&of.actor, &of.critic, &of.value] {
            learned.optimizer.check()?;
        }
        let count = batches.check(self.actor.mlp.outputs(), errors.len())?;
        let mut sums = IqlUpdate::default();
        for (i, errors) in errors.chunks_mut(batches.rows).enumerate() {
            interrupt::check()?;
            let batch = batches.one(i, count);
            let (mut update, norms) = self.step(of, batch, settings, errors)?;
            finite(
                i,
                [
                    ("critic loss", update.critic),
                    ("value loss", update.value),
                    ("actor loss", update.actor),
                    ("values", update.q_mean),
                    ("gradient norm", update.grad_norm),
                    ("value's gradient norm", norms[0]),
                    ("actor's gradient norm", norms[1]),
                ],
            )?;
            for (sum, more) in sums.numbers().into_iter().zip(update.numbers()) {
                *sum += *more;
            }
        }
        check_parameters(&self.actor.layout, of.actor.parameters)?;
        check_parameters(&self.of_critics, of.critic.parameters)?;
        check_parameters(&self.value.layout, of.value.parameters)?;
        #[expect(clippy::cast_precision_loss, reason = "batches of a training")]
        let n = count as f64;
        for sum in sums.numbers() {
            *sum /= n;
        }
        Ok(sums)
    }

    fn step(
        &mut self,
        of: &mut IqlParameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &IqlSettings,
        errors: &mut [F],
    ) -> Result<(IqlUpdate, [f64; 2])> {
        let pairs = Pairs { obs: batch.obs, actions: batch.actions };
        let critics = &self.critics;
        let q = critics.forward(of.target, pairs, critics.members(), &mut self.valuing)?;
        lowest(q, batch.rewards.len(), &mut self.low, &mut self.whose);
        let (value, v_mean, of_value) = self.improve_value(of, batch, settings)?;
        let (actor, weight, of_actor) = self.improve_actor(of, batch, settings)?;
        self.aim(of, batch)?;
        let Self { critics, valuing, goals, gradient, .. } = self;
        critics.forward(of.critic.parameters, pairs, critics.members(), valuing)?;
        let aim = Aim { goals, weights: None, factor: 1.0 };
        let (critic, q_mean) =
            critics.gradient(of.critic.parameters, valuing, aim, errors, gradient)?;
        let grad_norm = of.critic.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        follow(of.target, of.critic.parameters, settings.tau);
        let update = IqlUpdate { critic, value, actor, q_mean, v_mean, weight, grad_norm };
        Ok((update, [of_value, of_actor]))
    }

    /// Takes one step of V towards the expectile of the minimum Q' (equation 5). Returns the loss
    /// and the mean of V before the step, and the norm of the gradient.
    fn improve_value(
        &mut self,
        of: &mut IqlParameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &IqlSettings,
    ) -> Result<(f64, f64, f64)> {
        let Self { value: net, low, slopes, .. } = self;
        let v = net.mlp.forward(of.value.parameters, batch.obs, &mut net.memory)?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let n = v.len() as f64;
        let bend = F::from_f64(-2.0 / n);
        let (above, below) =
            (F::from_f64(settings.expectile), F::from_f64(1.0 - settings.expectile));
        let (mut loss, mut sum) = (0.0, 0.0);
        slopes.clear();
        for (&mut v, &low) in v.iter_mut().zip(&*low) {
            let error = low - v;
            let weight = if error < F::ZERO { below } else { above };
            loss += (weight * error * error).to_f64();
            sum += v.to_f64();
            slopes.push(weight * error * bend);
        }
        net.gradient.fill(F::ZERO);
        let by = (settings.max_grad_norm, settings.learning_rate);
        let norm = net.step(&mut of.value, (batch.obs, slopes), by)?;
        Ok((loss / n, sum / n, norm))
    }

    /// Takes one step along the gradient of -E[w log pi(a | s)], where w is e^(beta (min Q' - V))
    /// up to a limit (equation 7). Returns that loss, E[w], and the norm of the gradient.
    fn improve_actor(
        &mut self,
        of: &mut IqlParameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &IqlSettings,
    ) -> Result<(f64, f64, f64)> {
        let Self { actor, value, log_std, low, weights, slopes, head, .. } = self;
        let v = value.mlp.infer(of.value.parameters, batch.obs, &mut value.memory)?;
        let (beta, most) = (F::from_f64(settings.temperature), F::from_f64(settings.max_weight));
        weights.clear();
        weights.extend(low.iter().zip(v).map(|(&low, v)| beta * (low - *v)));
        in_place::exp(weights);
        for weight in weights.iter_mut().filter(|weight| **weight > most) {
            *weight = most;
        }
        let said = actor.mlp.forward(of.actor.parameters, batch.obs, &mut actor.memory)?;
        in_place::tanh(said);
        let own = of.actor.parameters.get(log_std.clone()).unwrap_or_default();
        bounded::score(said, own, batch.actions, head)?;
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
        resize(slopes, said.len())?;
        let to_log_std = actor.gradient.get_mut(log_std.clone()).unwrap_or_default();
        bounded::back(said, own, head, weights, (slopes, to_log_std));
        let by = (settings.max_grad_norm, settings.actor_learning_rate);
        let norm = actor.step(&mut of.actor, (batch.obs, slopes), by)?;
        Ok((loss, mean, norm))
    }

    /// Computes the targets R + gamma^m V(s') (equation 6).
    fn aim(&mut self, of: &IqlParameters<'_, F>, batch: Batches<'_, F, F>) -> Result<()> {
        let Self { value, goals, .. } = self;
        let v = value.mlp.infer(of.value.parameters, batch.next_obs, &mut value.memory)?;
        goals.clear();
        let paid = batch.rewards.iter().zip(batch.discounts).zip(v);
        goals.extend(paid.map(|((&reward, &discount), v)| reward + discount * *v));
        Ok(())
    }
}

impl IqlUpdate {
    const fn numbers(&mut self) -> [&mut f64; 7] {
        let Self { critic, value, actor, q_mean, v_mean, weight, grad_norm } = self;
        [critic, value, actor, q_mean, v_mean, weight, grad_norm]
    }
}

impl IqlSettings {
    /// # Errors
    /// [`rlox_core::Error::Config`] for a setting out of its range.
    fn check(&self) -> Result<()> {
        let part = |x: f64| (0.0..=1.0).contains(&x);
        within("learning_rate", self.learning_rate, self.learning_rate >= 0.0, "at least 0")?;
        let lr = self.actor_learning_rate;
        within("actor_learning_rate", lr, lr >= 0.0, "at least 0")?;
        let most = self.max_grad_norm.unwrap_or(1.0);
        within("max_grad_norm", most, most > 0.0, "above 0")?;
        within("tau", self.tau, part(self.tau), "0 to 1")?;
        within("expectile", self.expectile, part(self.expectile), "0 to 1")?;
        within("temperature", self.temperature, self.temperature >= 0.0, "at least 0")?;
        within("max_weight", self.max_weight, self.max_weight > 0.0, "above 0")
    }
}
