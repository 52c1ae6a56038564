//! SAC: learns from batches of transitions (Haarnoja et al. 2018, arXiv:1812.05905).

use rlox_core::Layout;
use rlox_core::error::{Error, Result, check_len};

use super::critics::{
    CriticTargets, Critics, CriticsMemory, StateActionPairs, TrainState, min_over_critics, polyak_update,
};
use super::engine::{check_parameters, require_finite, require_setting, require_step_settings};
use super::exploring::Exploration;
use super::gemm::Number;
use super::heads::squashed::SquashedSample;
use super::mlp::{GradientBuffers, Memory, Mlp, resize, zeros};
use super::off_policy::{
    ActorAndCritics, Layouts, LearnCall, LearnInputs, Metrics, OffPolicyEngine, require_no_deviation,
};
use super::replayed::{Batches, learn_batches, part};
use super::values::{Values, named_fields, take_fields};

/// The length of the temperature's vector: log alpha and its padding.
const TEMPERATURE_LEN: usize = 16;

/// The factor of the critics' loss in equation 5.
const CRITIC_LOSS_FACTOR: f64 = 0.5;

/// Settings of one call of [`SacEngine::learn`]. The caller applies schedules.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SacSettings {
    /// The learning rate of all optimizers.
    pub learning_rate: f64,
    /// The norm to which the critics' gradient and the actor's gradient are clipped.
    pub max_grad_norm: Option<f64>,
    /// The step of the target network towards the critics, from 0 to 1.
    pub tau: f64,
    /// The number of batches from one step of the target network to the next.
    pub target_update_interval: u64,
}

/// The weight alpha of the entropy in the reward.
#[derive(Debug)]
pub enum Temperature<'a, F> {
    /// A constant alpha.
    Fixed(f64),
    /// An alpha that is learned, so that the policy's entropy approaches `target_entropy` (section
    /// 5).
    Learned {
        /// The parameters whose first element is log alpha; the others are padding.
        log_alpha: TrainState<'a, F>,
        /// The entropy that the policy shall have.
        target_entropy: f64,
    },
}

impl<F> Temperature<'_, F> {
    /// # Errors
    /// [`Error::Config`] for a number out of its range.
    fn check(&self) -> Result<()> {
        match *self {
            Self::Fixed(alpha) => require_setting("alpha", alpha, alpha >= 0.0, "at least 0"),
            Self::Learned { target_entropy, .. } => {
                require_setting("target_entropy", target_entropy, true, "a number")
            }
        }
    }
}

/// The parameters of the networks that learn, of the target network, and of alpha.
#[derive(Debug)]
pub struct SacParameters<'a, F> {
    /// The policy.
    pub actor: TrainState<'a, F>,
    /// Q.
    pub critic: TrainState<'a, F>,
    /// The parameters of the critics' target network.
    pub target: &'a mut [F],
    /// The temperature alpha.
    pub temperature: Temperature<'a, F>,
}

/// The result of [`SacEngine::learn`], as means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct SacUpdate {
    /// The critics' loss.
    pub critic: f64,
    /// The actor's loss.
    pub actor: f64,
    /// The temperature's loss.
    pub temperature: f64,
    /// E\[Q\] of the batch's actions.
    pub q_mean: f64,
    /// -E\[log pi\].
    pub entropy: f64,
    /// alpha, before the step of the temperature.
    pub alpha: f64,
    /// The norm of the critics' gradient before clipping.
    pub grad_norm: f64,
}

/// Learns a squashed Gaussian policy and its critics.
#[derive(Debug, Clone)]
pub struct SacEngine<F> {
    actor: Mlp,
    critics: Critics,
    layouts: [Layout; 2],
    actor_memory: Memory<F>,
    sample: SquashedSample<F>,
    /// Buffers for actions at next observations.
    next_actor_memory: Memory<F>,
    next_sample: SquashedSample<F>,
    critics_memory: CriticsMemory<F>,
    gradients: [Vec<F>; 2],
    td_targets: Vec<F>,
    argmin: Vec<usize>,
    to_actions: Vec<F>,
    to_outputs: Vec<F>,
    to_q: Vec<F>,
    to_log_alpha: Vec<F>,
}

impl<F: Number> SacEngine<F> {
    /// Returns an engine for networks whose parameters are at the ranges of the layouts. The actor
    /// outputs means and log deviations.
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
            sample: SquashedSample::default(),
            next_actor_memory: Memory::default(),
            next_sample: SquashedSample::default(),
            critics_memory: CriticsMemory::default(),
            gradients,
            td_targets: Vec::new(),
            argmin: Vec::new(),
            to_actions: Vec::new(),
            to_outputs: Vec::new(),
            to_q: Vec::new(),
            to_log_alpha: Vec::new(),
        })
    }

    /// Takes one step of temperature, critics and actor for each batch, and of the target network
    /// at its interval. `first_batch` is the number of batches that the run learned from before.
    /// `noise` is standard normal, `[k, 2, rows, action_dim]`: for actions at observations and at
    /// next observations. `errors` `[k, rows]` receives the critics' mean absolute errors.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] for columns that do not fit; [`Error::Config`] for
    /// settings out of range. Earlier steps keep their effect.
    pub fn learn(
        &mut self,
        networks: &mut SacParameters<'_, F>,
        batches: Batches<'_, F, F>,
        noise: &[F],
        (settings, first_batch): (&SacSettings, u64),
        errors: &mut [F],
    ) -> Result<SacUpdate> {
        settings.check()?;
        networks.temperature.check()?;
        networks.actor.optimizer.check()?;
        networks.critic.optimizer.check()?;
        let count = batches.check(self.actor.outputs() / 2, errors.len())?;
        check_len("noise", noise.len(), 2 * batches.actions.len(), "twice as many as of the actions")?;
        let mut error_rows = errors.chunks_mut(batches.rows);
        let [critic, actor, temperature, q_mean, entropy, alpha, grad_norm] = learn_batches(count, |i| {
            let (batch, noise) = (batches.batch(i, count), part(noise, i, count));
            let errors = error_rows.next().unwrap_or_default();
            let (update, norm) = self.step(networks, batch, noise, settings, errors)?;
            let SacUpdate { critic, actor, temperature, q_mean, entropy, alpha, grad_norm } = update;
            require_finite(i, [("critic loss", critic), ("actor loss", actor)])?;
            require_finite(i, [("temperature loss", temperature), ("values", q_mean)])?;
            require_finite(i, [("entropy", entropy), ("gradient norm", grad_norm)])?;
            require_finite(i, [("actor's gradient norm", norm)])?;
            if (first_batch + i as u64 + 1).is_multiple_of(settings.target_update_interval) {
                polyak_update(networks.target, networks.critic.parameters, settings.tau);
            }
            Ok([critic, actor, temperature, q_mean, entropy, alpha, grad_norm])
        })?;
        let [actor_layout, critics_layout] = &self.layouts;
        check_parameters(actor_layout, networks.actor.parameters)?;
        check_parameters(critics_layout, networks.critic.parameters)?;
        Ok(SacUpdate { critic, actor, temperature, q_mean, entropy, alpha, grad_norm })
    }

    /// Takes a step of temperature, critics and actor. Returns the results and the norm of the
    /// actor's gradient before clipping.
    fn step(
        &mut self,
        networks: &mut SacParameters<'_, F>,
        batch: Batches<'_, F, F>,
        noise: &[F],
        settings: &SacSettings,
        errors: &mut [F],
    ) -> Result<(SacUpdate, f64)> {
        let action_dim = self.actor.outputs() / 2;
        let (current_noise, next_noise) = noise.split_at(noise.len() / 2);
        let outputs = self.actor.forward(networks.actor.parameters, batch.obs, &mut self.actor_memory)?;
        self.sample.draw(outputs, current_noise, action_dim);
        let log_prob = mean(&self.sample.log_probs);
        let (alpha, temperature) = self.step_temperature(&mut networks.temperature, log_prob, settings)?;
        self.compute_targets(networks, batch, next_noise, alpha)?;
        let Self { critics, critics_memory, td_targets, gradients: [_, gradient], .. } = self;
        let pairs = StateActionPairs { obs: batch.obs, actions: batch.actions };
        critics.forward(networks.critic.parameters, pairs, critics.members(), critics_memory)?;
        let targets =
            CriticTargets { values: td_targets, weights: batch.weights, factor: CRITIC_LOSS_FACTOR };
        let (critic, q_mean) =
            critics.gradient(networks.critic.parameters, critics_memory, targets, errors, gradient)?;
        let grad_norm = networks.critic.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        let (actor, norm) = self.improve_actor(networks, batch, alpha, settings)?;
        let (alpha, entropy) = (alpha.to_f64(), -log_prob);
        let update = SacUpdate { critic, actor, temperature, q_mean, entropy, alpha, grad_norm };
        Ok((update, norm))
    }

    /// Takes a step of a learned temperature. Returns alpha before the step, and the loss -log alpha
    /// E[log pi + H], where H is the target entropy. (Equation 18 has the factor alpha instead of log
    /// alpha; the authors' code has log alpha.)
    fn step_temperature(
        &mut self,
        temperature: &mut Temperature<'_, F>,
        log_prob: f64,
        settings: &SacSettings,
    ) -> Result<(F, f64)> {
        match temperature {
            Temperature::Fixed(alpha) => Ok((F::from_f64(*alpha), 0.0)),
            Temperature::Learned { log_alpha, target_entropy } => {
                log_alpha.optimizer.check()?;
                let value = log_alpha.parameters.first().copied().unwrap_or(F::ZERO).to_f64();
                let slope = -(log_prob + *target_entropy);
                self.to_log_alpha.clear();
                self.to_log_alpha.push(F::from_f64(slope));
                self.to_log_alpha.resize(log_alpha.parameters.len(), F::ZERO);
                log_alpha.step(&mut self.to_log_alpha, None, settings.learning_rate)?;
                Ok((F::from_f64(value.exp()), value * slope))
            }
        }
    }

    /// Computes the targets R + gamma^m (min_i Q'_i(s', a') - alpha log pi(a' | s')).
    fn compute_targets(
        &mut self,
        networks: &SacParameters<'_, F>,
        batch: Batches<'_, F, F>,
        noise: &[F],
        alpha: F,
    ) -> Result<()> {
        let Self {
            actor, critics, next_actor_memory, next_sample, critics_memory, td_targets, argmin, ..
        } = self;
        let outputs = actor.infer(networks.actor.parameters, batch.next_obs, next_actor_memory)?;
        next_sample.draw(outputs, noise, actor.outputs() / 2);
        let pairs = StateActionPairs { obs: batch.next_obs, actions: &next_sample.actions };
        let q = critics.forward(networks.target, pairs, critics.members(), critics_memory)?;
        min_over_critics(q, batch.rewards.len(), td_targets, argmin);
        let transitions = batch.rewards.iter().zip(batch.discounts).zip(&next_sample.log_probs);
        for (target, ((&reward, &discount), &log_prob)) in td_targets.iter_mut().zip(transitions) {
            *target = reward + discount * (*target - alpha * log_prob);
        }
        Ok(())
    }

    /// Takes one step along the gradient of E[alpha log pi(a | s) - min_i Q_i(s, a)] (equation 9).
    /// Returns that loss and the norm of the gradient before clipping.
    fn improve_actor(
        &mut self,
        networks: &mut SacParameters<'_, F>,
        batch: Batches<'_, F, F>,
        alpha: F,
        settings: &SacSettings,
    ) -> Result<(f64, f64)> {
        let Self {
            actor,
            critics,
            actor_memory,
            sample,
            critics_memory,
            td_targets: min_q,
            argmin,
            to_q,
            ..
        } = self;
        let (to_actions, to_outputs) = (&mut self.to_actions, &mut self.to_outputs);
        let pairs = StateActionPairs { obs: batch.obs, actions: &sample.actions };
        let q = critics.forward(networks.critic.parameters, pairs, critics.members(), critics_memory)?;
        let n = batch.rewards.len();
        min_over_critics(q, n, min_q, argmin);
        let loss = alpha.to_f64() * mean(&sample.log_probs) - mean(min_q);
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let share = F::from_f64(1.0 / n as f64);
        to_q.clear();
        to_q.resize(q.len(), F::ZERO);
        for (row, &member) in argmin.iter().enumerate() {
            if let Some(slot) = to_q.get_mut(member * n + row) {
                *slot = -share;
            }
        }
        resize(to_actions, sample.actions.len())?;
        critics.backward(networks.critic.parameters, critics_memory, to_q, to_actions)?;
        resize(to_outputs, actor_memory.last_outputs().len())?;
        sample.backward(
            actor_memory.last_outputs(),
            (to_actions, share * alpha),
            actor.outputs() / 2,
            to_outputs,
        );
        let [gradient, _] = &mut self.gradients;
        gradient.fill(F::ZERO);
        let buffers = GradientBuffers::parameters(gradient.as_mut_slice());
        actor.backward(networks.actor.parameters, batch.obs, actor_memory, to_outputs, buffers)?;
        let norm = networks.actor.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        Ok((loss, norm))
    }
}

fn mean<F: Number>(values: &[F]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    let n = values.len() as f64;
    values.iter().map(|value| value.to_f64()).sum::<f64>() / n
}

impl<F: Number> SacEngine<F> {
    /// Returns an engine for the networks `actor` and `critic`.
    pub(super) fn from_values(layouts: &mut Layouts, architecture: &mut Values) -> Result<Self> {
        let nets = ActorAndCritics::take(architecture)?;
        let outputs = nets.size.saturating_mul(2);
        Self::new(nets.make_actor(layouts, outputs, &[])?, nets.make_critics(layouts)?)
    }
}

impl<F: Number> OffPolicyEngine<F> for SacEngine<F> {
    fn obs_dim(&self) -> usize {
        self.actor.inputs()
    }

    fn action_dim(&self) -> usize {
        self.actor.outputs() / 2
    }

    fn vector_lens(&self) -> Vec<(&'static str, usize)> {
        let [actor, critics] = &self.layouts;
        vec![("actor", actor.len()), ("critic", critics.len()), ("temperature", TEMPERATURE_LEN)]
    }

    fn noise_draws(&self) -> Option<usize> {
        Some(2)
    }

    fn exploration(&self, deviation: f32) -> Result<(&'static str, Exploration)> {
        require_no_deviation(deviation)?;
        Ok(("actor", Exploration::Squashed(self.actor.clone())))
    }

    /// The temperature is learned, with the setting `target_entropy`, if it is among the networks; else
    /// it is the setting `alpha`.
    fn learn(&mut self, mut call: LearnCall<'_, F>) -> Result<Metrics> {
        let temperature = match call.learned.take_optional("temperature") {
            Some(log_alpha) => {
                Temperature::Learned { log_alpha, target_entropy: call.settings.take("target_entropy")? }
            }
            None => Temperature::Fixed(call.settings.take("alpha")?),
        };
        let settings = take_fields!(
            call.settings,
            SacSettings { learning_rate, max_grad_norm, tau, target_update_interval }
        );
        let mut networks = SacParameters {
            actor: call.learned.take("actor")?,
            critic: call.learned.take("critic")?,
            target: call.targets.take("critic")?,
            temperature,
        };
        let LearnInputs { batches, noise, first, errors } = call.finish()?;
        let update = self.learn(&mut networks, batches.vectors()?, noise, (&settings, first), errors)?;
        Ok(named_fields!(update { critic, actor, temperature, q_mean, entropy, alpha, grad_norm }))
    }
}

impl SacSettings {
    /// # Errors
    /// [`Error::Config`] for a setting out of its range.
    fn check(&self) -> Result<()> {
        require_step_settings(self.learning_rate, self.max_grad_norm)?;
        require_setting("tau", self.tau, (0.0..=1.0).contains(&self.tau), "0 to 1")?;
        if self.target_update_interval == 0 {
            return Err(Error::config("target_update_interval", 0, "at least 1"));
        }
        Ok(())
    }
}
