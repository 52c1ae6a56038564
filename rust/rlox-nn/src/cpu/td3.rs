//! TD3: learns from batches of transitions (Fujimoto et al. 2018, arXiv:1802.09477).

use rlox_core::Layout;
use rlox_core::error::{Error, Result, check_len};
use rlox_core::math::in_place;

use super::critics::{
    CriticTargets, Critics, CriticsMemory, StateActionPairs, TrainState, min_over_critics, polyak_update,
};
use super::engine::{check_parameters, require_finite, require_setting, require_step_settings};
use super::exploring::Exploration;
use super::gemm::Number;
use super::mlp::{GradientBuffers, Memory, Mlp, resize, zeros};
use super::off_policy::{ActorAndCritics, Layouts, LearnCall, LearnInputs, Metrics, OffPolicyEngine};
use super::replayed::{Batches, learn_batches, part};
use super::values::{Values, named_fields, take_fields};

/// If the mean of |Q| is smaller than this, alpha is divided by this number instead.
const MIN_MEAN_ABS_Q: f64 = 1e-12;

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

/// The result of [`Td3Engine::learn`], as means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
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
    pub actor: TrainState<'a, F>,
    /// Q.
    pub critic: TrainState<'a, F>,
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
    actor_memory: Memory<F>,
    critics_memory: CriticsMemory<F>,
    gradients: [Vec<F>; 2],
    actions: Vec<F>,
    td_targets: Vec<F>,
    argmin: Vec<usize>,
    to_actions: Vec<F>,
    to_q: Vec<F>,
}

impl<F: Number> Td3Engine<F> {
    /// Returns an engine for networks whose parameters are at the ranges of the layouts.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no memory for the gradients.
    pub fn new(
        (actor, actor_layout): (Mlp, Layout),
        (critics, critics_layout): (Critics, Layout),
    ) -> Result<Self> {
        let gradients = [zeros(actor_layout.len())?, zeros(critics_layout.len())?];
        Ok(Self {
            actor,
            critics,
            layouts: [actor_layout, critics_layout],
            actor_memory: Memory::default(),
            critics_memory: CriticsMemory::default(),
            gradients,
            actions: Vec::new(),
            td_targets: Vec::new(),
            argmin: Vec::new(),
            to_actions: Vec::new(),
            to_q: Vec::new(),
        })
    }

    /// Takes one step of the critics for each batch, and one of the actor and the targets at every
    /// `policy_delay` batches. `first_batch` is the number of batches that the run learned from
    /// before. `noise` is standard normal, `[k, rows, action_dim]`, or empty without `target_noise`.
    /// `errors` `[k, rows]` receives the critics' mean absolute errors.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] for columns that do not fit; [`Error::Config`] for
    /// settings out of range. Earlier steps keep their effect.
    pub fn learn(
        &mut self,
        networks: &mut Td3Parameters<'_, F>,
        batches: Batches<'_, F, F>,
        noise: &[F],
        (settings, first_batch): (&Td3Settings, u64),
        errors: &mut [F],
    ) -> Result<Td3Update> {
        settings.check()?;
        networks.actor.optimizer.check()?;
        networks.critic.optimizer.check()?;
        let action_dim = self.actor.outputs();
        let count = batches.check(action_dim, errors.len())?;
        let expected = if settings.target_noise > 0.0 { batches.actions.len() } else { 0 };
        check_len("noise", noise.len(), expected, "as the actions where there is target_noise")?;
        let (mut error_rows, mut losses) = (errors.chunks_mut(batches.rows), (0.0, 0_u32));
        let [critic, q_mean, grad_norm] = learn_batches(count, |i| {
            let (batch, errors) = (batches.batch(i, count), error_rows.next().unwrap_or_default());
            self.compute_targets(networks, batch, part(noise, i, count), settings)?;
            let (loss, q, norm) = self.improve_critics(networks, batch, settings, errors)?;
            require_finite(i, [("critic loss", loss), ("values", q), ("gradient norm", norm)])?;
            if (first_batch + i as u64 + 1).is_multiple_of(settings.policy_delay) {
                let (loss, norm) = self.improve_actor(networks, batch, settings)?;
                require_finite(i, [("actor loss", loss), ("actor's gradient norm", norm)])?;
                losses = (losses.0 + loss, losses.1 + 1);
                polyak_update(networks.target_actor, networks.actor.parameters, settings.tau);
                polyak_update(networks.target_critic, networks.critic.parameters, settings.tau);
            }
            Ok([loss, q, norm])
        })?;
        let [actor_layout, critics_layout] = &self.layouts;
        check_parameters(actor_layout, networks.actor.parameters)?;
        check_parameters(critics_layout, networks.critic.parameters)?;
        let actor = (losses.1 > 0).then(|| losses.0 / f64::from(losses.1));
        Ok(Td3Update { critic, actor, q_mean, grad_norm })
    }

    /// Computes the targets R + gamma^m min_i Q'_i(s', clip(mu'(s') + clip(noise))) (equation 14,
    /// algorithm 1).
    fn compute_targets(
        &mut self,
        networks: &Td3Parameters<'_, F>,
        batch: Batches<'_, F, F>,
        noise: &[F],
        settings: &Td3Settings,
    ) -> Result<()> {
        let Self { actor, critics, actor_memory, critics_memory, actions, td_targets, argmin, .. } = self;
        actions.clear();
        actions.extend_from_slice(actor.infer(networks.target_actor, batch.next_obs, actor_memory)?);
        in_place::tanh(actions);
        let (scale, limit) = (F::from_f64(settings.target_noise), F::from_f64(settings.noise_clip));
        for (action, &noise) in actions.iter_mut().zip(noise) {
            *action = clamp(*action + clamp(scale * noise, limit), F::ONE);
        }
        let pairs = StateActionPairs { obs: batch.next_obs, actions };
        let q = critics.forward(networks.target_critic, pairs, critics.members(), critics_memory)?;
        min_over_critics(q, batch.rewards.len(), td_targets, argmin);
        let transitions = batch.rewards.iter().zip(batch.discounts);
        for (target, (&reward, &discount)) in td_targets.iter_mut().zip(transitions) {
            *target = reward + discount * *target;
        }
        Ok(())
    }

    fn improve_critics(
        &mut self,
        networks: &mut Td3Parameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &Td3Settings,
        errors: &mut [F],
    ) -> Result<(f64, f64, f64)> {
        let Self { critics, critics_memory, td_targets, gradients: [_, gradient], .. } = self;
        let pairs = StateActionPairs { obs: batch.obs, actions: batch.actions };
        critics.forward(networks.critic.parameters, pairs, critics.members(), critics_memory)?;
        let targets = CriticTargets { values: td_targets, weights: batch.weights, factor: 1.0 };
        let (loss, q) =
            critics.gradient(networks.critic.parameters, critics_memory, targets, errors, gradient)?;
        let norm = networks.critic.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        Ok((loss, q, norm))
    }

    /// Takes one step along the gradient of the first critic's negative mean value. With TD3+BC the
    /// loss is -lambda E[Q] + E[(mu - a)^2] (equations 3 and 5). Here lambda = alpha / E|Q| counts as a
    /// constant, and the squared error is a mean over rows and numbers. Returns the loss and the
    /// norm of the gradient before clipping.
    fn improve_actor(
        &mut self,
        networks: &mut Td3Parameters<'_, F>,
        batch: Batches<'_, F, F>,
        settings: &Td3Settings,
    ) -> Result<(f64, f64)> {
        let Self { actor, critics, actor_memory, critics_memory, actions, to_actions, to_q, .. } = self;
        actions.clear();
        actions.extend_from_slice(actor.forward(networks.actor.parameters, batch.obs, actor_memory)?);
        in_place::tanh(actions);
        let pairs = StateActionPairs { obs: batch.obs, actions };
        let q = critics.forward(networks.critic.parameters, pairs, 1, critics_memory)?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let n = q.len() as f64;
        let mean_abs_q = q.iter().map(|q| q.to_f64().abs()).sum::<f64>() / n;
        let weight = settings.alpha.map_or(1.0, |alpha| alpha / mean_abs_q.max(MIN_MEAN_ABS_Q));
        let mut loss = -weight * q.iter().map(|q| q.to_f64()).sum::<f64>() / n;
        to_q.clear();
        to_q.resize(q.len(), F::from_f64(-weight / n));
        resize(to_actions, actions.len())?;
        critics.backward(networks.critic.parameters, critics_memory, to_q, to_actions)?;
        if settings.alpha.is_some() {
            loss += add_cloning_gradient(actions, batch.actions, to_actions);
        }
        for (slope, &action) in to_actions.iter_mut().zip(&*actions) {
            *slope = *slope * (F::ONE - action * action);
        }
        let [gradient, _] = &mut self.gradients;
        gradient.fill(F::ZERO);
        let buffers = GradientBuffers::parameters(gradient.as_mut_slice());
        actor.backward(networks.actor.parameters, batch.obs, actor_memory, to_actions, buffers)?;
        let norm = networks.actor.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        Ok((loss, norm))
    }
}

/// Returns the mean squared error of `actions` with respect to the batch's, and adds its gradient.
fn add_cloning_gradient<F: Number>(actions: &[F], batch_actions: &[F], to_actions: &mut [F]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "numbers of a batch")]
    let n = actions.len() as f64;
    let (mut sum, scale) = (0.0, F::from_f64(2.0 / n));
    for ((slope, &action), &batch_action) in to_actions.iter_mut().zip(actions).zip(batch_actions) {
        let error = action - batch_action;
        sum += (error * error).to_f64();
        *slope += error * scale;
    }
    sum / n
}

/// Returns the number clipped to [-limit, limit].
fn clamp<F: Number>(number: F, limit: F) -> F {
    if number > limit {
        limit
    } else if number < -limit {
        -limit
    } else {
        number
    }
}

impl<F: Number> Td3Engine<F> {
    /// Returns an engine for the networks `actor`, with a tanh after its outputs, and `critic`.
    pub(super) fn from_values(layouts: &mut Layouts, architecture: &mut Values) -> Result<Self> {
        let nets = ActorAndCritics::take(architecture)?;
        Self::new(nets.make_actor(layouts, nets.size, &[])?, nets.make_critics(layouts)?)
    }
}

impl<F: Number> OffPolicyEngine<F> for Td3Engine<F> {
    fn obs_dim(&self) -> usize {
        self.actor.inputs()
    }

    fn action_dim(&self) -> usize {
        self.actor.outputs()
    }

    fn vector_lens(&self) -> Vec<(&'static str, usize)> {
        let [actor, critics] = &self.layouts;
        vec![("actor", actor.len()), ("critic", critics.len())]
    }

    fn noise_draws(&self) -> Option<usize> {
        Some(1)
    }

    fn exploration(&self, deviation: f32) -> Result<(&'static str, Exploration)> {
        Ok(("actor", Exploration::ActionNoise(self.actor.clone(), deviation)))
    }

    fn learn(&mut self, mut call: LearnCall<'_, F>) -> Result<Metrics> {
        let settings = take_fields!(
            call.settings,
            Td3Settings { learning_rate, max_grad_norm, tau, policy_delay, target_noise, noise_clip, alpha }
        );
        let mut networks = Td3Parameters {
            actor: call.learned.take("actor")?,
            critic: call.learned.take("critic")?,
            target_actor: call.targets.take("actor")?,
            target_critic: call.targets.take("critic")?,
        };
        let LearnInputs { batches, noise, first, errors } = call.finish()?;
        let update = self.learn(&mut networks, batches.vectors()?, noise, (&settings, first), errors)?;
        let mut metrics = named_fields!(update { critic, q_mean, grad_norm });
        metrics.extend(update.actor.map(|loss| ("actor", loss)));
        Ok(metrics)
    }
}

impl Td3Settings {
    /// # Errors
    /// [`Error::Config`] for a setting out of its range.
    fn check(&self) -> Result<()> {
        require_step_settings(self.learning_rate, self.max_grad_norm)?;
        require_setting("tau", self.tau, (0.0..=1.0).contains(&self.tau), "0 to 1")?;
        require_setting("target_noise", self.target_noise, self.target_noise >= 0.0, "at least 0")?;
        require_setting("noise_clip", self.noise_clip, self.noise_clip >= 0.0, "at least 0")?;
        let alpha = self.alpha.unwrap_or(0.0);
        require_setting("alpha", alpha, alpha >= 0.0, "at least 0")?;
        if self.policy_delay == 0 {
            return Err(Error::config("policy_delay", 0, "at least 1"));
        }
        Ok(())
    }
}
