//! TD3: learns from batches of transitions (Fujimoto et al. 2018, arXiv:1802.09477).

use rlox_core::error::{Error, Result, check_len};
use rlox_core::math::in_place;
use rlox_core::{Layout, interrupt};

use super::critics::{Aim, Critics, CriticsMemory, Learned, Pairs, follow, lowest};
use super::engine::{check_parameters, finite, within};
use super::gemm::Number;
use super::mlp::{Memory, Mlp, Wanted, resize};
use super::replayed::{Batches, part};

/// The smallest divisor in place of the mean of |Q|.
const LEAST: f64 = 1e-12;

/// Settings of one call of [`Td3Engine::learn`]. The caller applies schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Td3Settings {
    /// The learning rate of both optimizers.
    pub learning_rate: f64,
    /// The norm to which the critics' gradient and the actor's gradient are clipped.
    pub max_grad_norm: Option<f64>,
    /// The step of the targets towards the networks after each step of the actor, from 0 to 1.
    pub tau: f64,
    /// The number of batches from one step of the actor to the next.
    pub policy_delay: u64,
    /// The standard deviation of the noise on the target's actions; 0: no noise.
    pub target_noise: f64,
    /// The absolute value to which that noise is clipped.
    pub noise_clip: f64,
    /// alpha of TD3+BC (Fujimoto & Gu 2021, arXiv:2106.06860): the actor also learns to imitate the
    /// batch's actions, and its value loss has the weight alpha / E|Q|. None: plain TD3.
    pub alpha: Option<f64>,
}

/// The result of [`Td3Engine::learn`], means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Td3Update {
    /// The critics' loss.
    pub critic: f64,
    /// The mean loss of the actor over the batches at which it learned; None if there was no such
    /// batch.
    pub actor: Option<f64>,
    /// E\[Q\] of the batch's actions.
    pub q_mean: f64,
    /// The norm of the critics' gradient before clipping.
    pub grad_norm: f64,
}

/// The parameters of the networks that learn, and of the target networks.
#[derive(Debug)]
pub struct Td3Parameters<'a, F> {
    /// mu.
    pub actor: Learned<'a, F>,
    /// Q.
    pub critic: Learned<'a, F>,
    /// The parameters of the actor's target network.
    pub target_actor: &'a mut [F],
    /// The parameters of the critics' target network.
    pub target_critic: &'a mut [F],
}

/// Learns a deterministic policy, tanh of a network's outputs, and its critics.
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
    /// Returns the actor's network.
    #[must_use]
    pub const fn actor(&self) -> &Mlp {
        &self.actor
    }

    /// Returns an engine for networks whose parameters are at the ranges of the layouts.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no memory for the gradients.
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

    /// Takes one step of the critics for each batch, and one of the actor and the targets at every
    /// `policy_delay` batches. The number beside the settings counts the batches of the run before
    /// these. `noise` is standard normal, `[k, rows, action_dim]`, or empty without `target_noise`.
    /// `errors` `[k, rows]` receives the critics' mean absolute errors.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] for columns that do not fit; [`Error::Config`] for
    /// settings out of range. Earlier steps keep their effect.
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

    /// Computes the targets R + gamma^m min_i Q'_i(s', clip(mu'(s') + clip(noise))) (equation 14,
    /// algorithm 1).
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

    /// Takes one step along the gradient of the first critic's negative mean value. With TD3+BC the
    /// loss is -lambda E[Q] + E[(mu - a)^2] with lambda = alpha / E|Q|, which has no gradient
    /// (equations 3 and 5; the squared error is a mean over numbers too). Returns the loss and the
    /// norm of the gradient before clipping.
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

/// Returns the mean squared error of `actions` with respect to the batch's, and adds its gradient.
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

/// Returns the number clipped to [-limit, limit].
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
