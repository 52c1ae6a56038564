//! Implicit Q-learning: what batches of a dataset do to the parameters (Kostrikov et al. 2022,
//! arXiv:2110.06169).

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

/// Settings of a training; schedules are the caller's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IqlSettings {
    /// Of the critics and of the value.
    pub learning_rate: f64,
    /// Of the actor.
    pub actor_learning_rate: f64,
    /// To which the gradients of each network are cut.
    pub max_grad_norm: Option<f64>,
    /// How far the target moves.
    pub tau: f64,
    /// Which expectile of the action values the state value is.
    pub expectile: f64,
    /// beta: actions are cloned with weights e^(beta A).
    pub temperature: f64,
    /// Limit of that weight.
    pub max_weight: f64,
}

/// What a training did: means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct IqlUpdate {
    /// The critics' loss.
    pub critic: f64,
    /// The value's.
    pub value: f64,
    /// The actor's.
    pub actor: f64,
    /// E\[Q\] of what was done.
    pub q_mean: f64,
    /// E\[V\], before its step.
    pub v_mean: f64,
    /// E\[w\].
    pub weight: f64,
    /// The norm of the critics' gradient before it was cut.
    pub grad_norm: f64,
}

/// The networks that learn, and what follows them.
#[derive(Debug)]
pub struct IqlParameters<'a, F> {
    /// The policy.
    pub actor: Learned<'a, F>,
    /// Q.
    pub critic: Learned<'a, F>,
    /// V.
    pub value: Learned<'a, F>,
    /// The critics' target.
    pub target: &'a mut [F],
}

/// A network and where its parameters lie, with room for a pass and the way back.
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

    /// A step along what the outputs' gradient makes of the parameters'; the norm before it was cut.
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

/// Learns a Gaussian policy whose means are in [-1, 1], critics and a value of the state. No value is asked for of
/// an action that is not the batch's.
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
    /// An engine for networks whose parameters lie as the layouts say; the actor's has `log_std` `[size]` too.
    ///
    /// # Errors
    /// [`rlox_core::Error::UnknownName`] and [`rlox_core::Error::Shape`] where `log_std` is not there; [`rlox_core::Error::Config`] if memory
    /// does not hold as many numbers again.
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

    /// The actor's network.
    #[must_use]
    pub const fn actor(&self) -> &Mlp {
        &self.actor.mlp
    }

    /// One step of value, actor, critics and target for each batch (algorithm 1); `errors` `[k, rows]` become
    /// the critics' mean absolute errors.
    ///
    /// # Errors
    /// [`rlox_core::Error::NonFinite`] for a loss, a gradient or a parameter that is no number; [`rlox_core::Error::Interrupted`];
    /// [`rlox_core::Error::Shape`] for columns that do not fit. What was learned before stays.
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

    /// One step of V towards the expectile of the lowest Q' (equation 5); its loss and mean before that.
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

    /// One step of -E[w log pi(a | s)] with w = e^(beta (min Q' - V)), cut off (equation 7); that and E[w].
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

    /// `goals` become R + gamma^m V(s') (equation 6).
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
