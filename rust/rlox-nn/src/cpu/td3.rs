//! TD3: what batches of transitions do to the parameters (Fujimoto et al. 2018, arXiv:1802.09477).

use rlox_core::error::{Error, Result, check_len};
use rlox_core::math::in_place;
use rlox_core::{Layout, interrupt};

use super::critics::{Aim, Critics, CriticsMemory, Learned, Pairs, follow, lowest};
use super::engine::{check_parameters, finite, within};
use super::gemm::Number;
use super::mlp::{Memory, Mlp, Wanted, resize};
use super::replayed::{Batches, part};

/// Of the mean size of values, which is divided by.
const LEAST: f64 = 1e-12;

/// Settings of a training; schedules are the caller's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Td3Settings {
    /// Of both optimizers.
    pub learning_rate: f64,
    /// To which the gradients of the critics, and of the actor, are cut.
    pub max_grad_norm: Option<f64>,
    /// How far the targets move, each time that the actor learns.
    pub tau: f64,
    /// The actor learns at every so many batches.
    pub policy_delay: u64,
    /// Deviation of the noise on the target's actions, 0: none.
    pub target_noise: f64,
    /// At which that noise is cut off.
    pub noise_clip: f64,
    /// Of TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): the actor is held to the batch's actions, and its value
    /// counts alpha / E|Q|.
    pub alpha: Option<f64>,
}

/// What a training did: means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Td3Update {
    /// The critics' loss.
    pub critic: f64,
    /// Of the batches at which the actor learned its loss; None: there was none.
    pub actor: Option<f64>,
    /// E\[Q\] of what was done.
    pub q_mean: f64,
    /// The norm of the critics' gradient before it was cut.
    pub grad_norm: f64,
}

/// The networks that learn, and those that follow them.
#[derive(Debug)]
pub struct Td3Parameters<'a, F> {
    /// mu.
    pub actor: Learned<'a, F>,
    /// Q.
    pub critic: Learned<'a, F>,
    /// The actor's target.
    pub target_actor: &'a mut [F],
    /// The critics'.
    pub target_critic: &'a mut [F],
}

/// Learns a deterministic policy, tanh of a network's output, and critics of it.
#[derive(Debug, Clone)]
pub struct Td3Engine<F> {
    actor: Mlp,
    critics: Critics,
    layouts: [Layout; 2],
    acting: Memory<F>,
    valuing: CriticsMemory<F>,
    gradients: [Vec<F>; 2],
    actions: Vec<F>,
    goals: Vec<F>,
    whose: Vec<usize>,
    to_actions: Vec<F>,
    to_q: Vec<F>,
}

impl<F: Number> Td3Engine<F> {
    /// The actor's network.
    #[must_use]
    pub const fn actor(&self) -> &Mlp {
        &self.actor
    }

    /// An engine for networks whose parameters lie as the layouts say.
    ///
    /// # Errors
    /// [`Error::Config`] if memory does not hold as many numbers again.
    pub fn new(
        (actor, of_actor): (Mlp, Layout),
        (critics, of_critics): (Critics, Layout),
    ) -> Result<Self> {
        let mut gradients = [Vec::new(), Vec::new()];
        for (gradient, layout) in gradients.iter_mut().zip([&of_actor, &of_critics]) {
            resize(gradient, layout.len())?;
        }
        Ok(Self {
            actor,
            critics,
            layouts: [of_actor, of_critics],
            acting: Memory::default(),
            valuing: CriticsMemory::default(),
            gradients,
            actions: Vec::new(),
            goals: Vec::new(),
            whose: Vec::new(),
            to_actions: Vec::new(),
            to_q: Vec::new(),
        })
    }

    /// One step of the critics for each batch, the first of which is `first` of the run; of the actor and the
    /// targets every `policy_delay`. `noise` is standard normal, `[k, rows, size]`, or empty without
    /// `target_noise`; `errors` `[k, rows]` become the critics' mean absolute errors.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is no number; [`Error::Interrupted`];
    /// [`Error::Shape`] for columns that do not fit. What was learned before stays.
    pub fn learn(
        &mut self,
        of: &mut Td3Parameters<'_, F>,
        batches: Batches<'_, F, F>,
        noise: &[F],
        (settings, first): (&Td3Settings, u64),
        errors: &mut [F],
    ) -> Result<Td3Update> {
        settings.check()?;
        of.actor.optimizer.check()?;
        of.critic.optimizer.check()?;
        let size = self.actor.outputs();
        let count = batches.check(size, errors.len())?;
        let expected = if settings.target_noise > 0.0 { batches.actions.len() } else { 0 };
        check_len("noise", noise.len(), expected, "as the actions where there is target_noise")?;
        let (mut sums, mut losses) = (Td3Update::default(), (0.0, 0_u32));
        for (i, errors) in errors.chunks_mut(batches.rows).enumerate() {
            interrupt::check()?;
            let batch = batches.one(i, count);
            self.aim(of, batch, part(noise, i, count), settings)?;
            let (loss, q, norm) = self.improve_critics(of, batch, settings, errors)?;
            finite(i, [("critic loss", loss), ("values", q), ("gradient norm", norm)])?;
            if (first + i as u64 + 1).is_multiple_of(settings.policy_delay) {
                let (loss, norm) = self.improve_actor(of, batch, settings)?;
                finite(i, [("actor loss", loss), ("actor's gradient norm", norm)])?;
                losses = (losses.0 + loss, losses.1 + 1);
                follow(of.target_actor, of.actor.parameters, settings.tau);
                follow(of.target_critic, of.critic.parameters, settings.tau);
            }
            sums.critic += loss;
            sums.q_mean += q;
            sums.grad_norm += norm;
        }
        let [of_actor, of_critics] = &self.layouts;
        check_parameters(of_actor, of.actor.parameters)?;
        check_parameters(of_critics, of.critic.parameters)?;
        #[expect(clippy::cast_precision_loss, reason = "batches of a training")]
        let n = count as f64;
        let actor = (losses.1 > 0).then(|| losses.0 / f64::from(losses.1));
        let Td3Update { critic, q_mean, grad_norm, .. } = sums;
        Ok(Td3Update { critic: critic / n, actor, q_mean: q_mean / n, grad_norm: grad_norm / n })
    }

    /// `goals` become R + gamma^m min_i Q'_i(s', clip(mu'(s') + clip(noise))) (equation 14, algorithm 1).
    fn aim(
        &mut self,
        of: &Td3Parameters<'_, F>,
        batch: Batches<'_, F, F>,
        noise: &[F],
        settings: &Td3Settings,
    ) -> Result<()> {
        let Self { actor, critics, acting, valuing, actions, goals, whose, .. } = self;
        actions.clear();
        actions.extend_from_slice(actor.infer(of.target_actor, batch.next_obs, acting)?);
        in_place::tanh(actions);
        let (scale, most) = (F::from_f64(settings.target_noise), F::from_f64(settings.noise_clip));
        for (action, &noise) in actions.iter_mut().zip(noise) {
            *action = within_of(*action + within_of(scale * noise, most), F::ONE);
        }
        let pairs = Pairs { obs: batch.next_obs, actions };
        let q = critics.forward(of.target_critic, pairs, critics.members(), valuing)?;
        lowest(q, batch.rewards.len(), goals, whose);
        let paid = batch.rewards.iter().zip(batch.discounts);
        for (goal, (&reward, &discount)) in goals.iter_mut().zip(paid) {
            *goal = reward + discount * *goal;
        }
        Ok(())
    }

    fn improve_critics(
        &mut self,
        of: &mut Td3Parameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &Td3Settings,
        errors: &mut [F],
    ) -> Result<(f64, f64, f64)> {
        let Self { critics, valuing, goals, gradients: [_, gradient], .. } = self;
        let pairs = Pairs { obs: batch.obs, actions: batch.actions };
        critics.forward(of.critic.parameters, pairs, critics.members(), valuing)?;
        let aim = Aim { goals, weights: batch.weights, factor: 1.0 };
        let (loss, q) = critics.gradient(of.critic.parameters, valuing, aim, errors, gradient)?;
        let norm = of.critic.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        Ok((loss, q, norm))
    }

    /// One step along the gradient of the first critic's values; their mean, negative. Under TD3+BC along that of
    /// -lambda E[Q] + E[(mu - a)^2] with lambda = alpha / E|Q|, of which no gradient is taken (equations 3 and 5;
    /// the error is a mean over numbers too).
    fn improve_actor(
        &mut self,
        of: &mut Td3Parameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &Td3Settings,
    ) -> Result<(f64, f64)> {
        let Self { actor, critics, acting, valuing, actions, to_actions, to_q, .. } = self;
        actions.clear();
        actions.extend_from_slice(actor.forward(of.actor.parameters, batch.obs, acting)?);
        in_place::tanh(actions);
        let pairs = Pairs { obs: batch.obs, actions };
        let q = critics.forward(of.critic.parameters, pairs, 1, valuing)?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let n = q.len() as f64;
        let sizes = q.iter().map(|q| q.to_f64().abs()).sum::<f64>() / n;
        let weight = settings.alpha.map_or(1.0, |alpha| alpha / sizes.max(LEAST));
        let mut loss = -weight * q.iter().map(|q| q.to_f64()).sum::<f64>() / n;
        to_q.clear();
        to_q.resize(q.len(), F::from_f64(-weight / n));
        resize(to_actions, actions.len())?;
        critics.back(of.critic.parameters, valuing, to_q, to_actions)?;
        if settings.alpha.is_some() {
            loss += cloning(actions, batch.actions, to_actions);
        }
        for (slope, &action) in to_actions.iter_mut().zip(&*actions) {
            *slope = *slope * (F::ONE - action * action);
        }
        let [gradient, _] = &mut self.gradients;
        gradient.fill(F::ZERO);
        let wanted = Wanted::parameters(gradient.as_mut_slice());
        actor.backward(of.actor.parameters, batch.obs, acting, to_actions, wanted)?;
        let norm = of.actor.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        Ok((loss, norm))
    }
}

/// The mean squared distance of `actions` from those of the batch, whose gradient is added.
fn cloning<F: Number>(actions: &[F], taken: &[F], to_actions: &mut [F]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of a batch")]
    let n = actions.len() as f64;
    let (mut sum, bend) = (0.0, F::from_f64(2.0 / n));
    for ((slope, &action), &taken) in to_actions.iter_mut().zip(actions).zip(taken) {
        let far = action - taken;
        sum += (far * far).to_f64();
        *slope += far * bend;
    }
    sum / n
}

/// The number, or the nearest in [-limit, limit].
fn within_of<F: Number>(number: F, limit: F) -> F {
    if number > limit {
        limit
    } else if number < -limit {
        -limit
    } else {
        number
    }
}

impl Td3Settings {
    /// # Errors
    /// [`Error::Config`] for a setting out of its range.
    fn check(&self) -> Result<()> {
        within("learning_rate", self.learning_rate, self.learning_rate >= 0.0, "at least 0")?;
        let most = self.max_grad_norm.unwrap_or(1.0);
        within("max_grad_norm", most, most > 0.0, "above 0")?;
        within("tau", self.tau, (0.0..=1.0).contains(&self.tau), "0 to 1")?;
        within("target_noise", self.target_noise, self.target_noise >= 0.0, "at least 0")?;
        within("noise_clip", self.noise_clip, self.noise_clip >= 0.0, "at least 0")?;
        let alpha = self.alpha.unwrap_or(0.0);
        within("alpha", alpha, alpha >= 0.0, "at least 0")?;
        if self.policy_delay == 0 {
            return Err(Error::config("policy_delay", 0, "at least 1"));
        }
        Ok(())
    }
}
