//! SAC: learns from batches of transitions (Haarnoja et al. 2018, arXiv:1812.05905).

use rlox_core::error::{Error, Result, check_len};
use rlox_core::{Layout, interrupt};

use super::critics::{Aim, Critics, CriticsMemory, Learned, Pairs, follow, lowest};
use super::engine::{check_parameters, finite, within};
use super::gemm::Number;
use super::heads::squashed::Drawn;
use super::mlp::{Memory, Mlp, Wanted, resize};
use super::replayed::{Batches, part};

/// The factor of the critics' loss in equation 5.
const HALF: f64 = 0.5;

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
        log: Learned<'a, F>,
        /// The entropy that the policy shall have.
        target_entropy: f64,
    },
}

impl<F> Temperature<'_, F> {
    /// # Errors
    /// [`Error::Config`] for a number out of its range.
    fn check(&self) -> Result<()> {
        match *self {
            Self::Fixed(alpha) => within("alpha", alpha, alpha >= 0.0, "at least 0"),
            Self::Learned { target_entropy, .. } => {
                within("target_entropy", target_entropy, true, "a number")
            }
        }
    }
}

/// The parameters of the networks that learn, of the target network, and of alpha.
#[derive(Debug)]
pub struct SacParameters<'a, F> {
    /// The policy.
    pub actor: Learned<'a, F>,
    /// Q.
    pub critic: Learned<'a, F>,
    /// The parameters of the critics' target network.
    pub target: &'a mut [F],
    /// The temperature alpha.
    pub temperature: Temperature<'a, F>,
}

/// The result of [`SacEngine::learn`], means over its batches.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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
    acting: Memory<F>,
    drawn: Drawn<F>,
    /// Buffers for actions at next observations.
    acting_next: Memory<F>,
    drawn_next: Drawn<F>,
    valuing: CriticsMemory<F>,
    gradients: [Vec<F>; 2],
    goals: Vec<F>,
    whose: Vec<usize>,
    to_actions: Vec<F>,
    to_said: Vec<F>,
    to_q: Vec<F>,
    to_log: Vec<F>,
}

impl<F: Number> SacEngine<F> {
    /// Returns the actor's network, which outputs means and log deviations.
    #[must_use]
    pub const fn actor(&self) -> &Mlp {
        &self.actor
    }

    /// Returns an engine for networks whose parameters are at the ranges of the layouts. The actor
    /// outputs means and log deviations.
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
            drawn: Drawn::default(),
            acting_next: Memory::default(),
            drawn_next: Drawn::default(),
            valuing: CriticsMemory::default(),
            gradients,
            goals: Vec::new(),
            whose: Vec::new(),
            to_actions: Vec::new(),
            to_said: Vec::new(),
            to_q: Vec::new(),
            to_log: Vec::new(),
        })
    }

    /// Takes one step of temperature, critics and actor for each batch, and of the target network
    /// at its interval. The number beside the settings counts the batches of the run before these.
    /// `noise` is standard normal, `[k, 2, rows, action_dim]`: for actions at observations and at
    /// next observations. `errors` `[k, rows]` receives the critics' mean absolute errors.
    ///
    /// # Errors
    /// [`Error::NonFinite`] for a loss, a gradient or a parameter that is not finite;
    /// [`Error::Interrupted`]; [`Error::Shape`] for columns that do not fit; [`Error::Config`] for
    /// settings out of range. Earlier steps keep their effect.
    pub fn learn(
        &mut self,
        of: &mut SacParameters<'_, F>,
        batches: Batches<'_, F, F>,
        noise: &[F],
        (settings, first): (&SacSettings, u64),
        errors: &mut [F],
    ) -> Result<SacUpdate> {
        settings.check()?;
        of.temperature.check()?;
        of.actor.optimizer.check()?;
        of.critic.optimizer.check()?;
        let count = batches.check(self.actor.outputs() / 2, errors.len())?;
        check_len("noise", noise.len(), 2 * batches.actions.len(), "twice as the actions")?;
        let mut sums = SacUpdate::default();
        for (i, errors) in errors.chunks_mut(batches.rows).enumerate() {
            interrupt::check()?;
            let (batch, noise) = (batches.one(i, count), part(noise, i, count));
            let (mut told, norm) = self.step(of, batch, noise, settings, errors)?;
            finite(i, [("critic loss", told.critic), ("actor loss", told.actor)])?;
            finite(i, [("temperature loss", told.temperature), ("values", told.q_mean)])?;
            finite(i, [("entropy", told.entropy), ("gradient norm", told.grad_norm)])?;
            finite(i, [("actor's gradient norm", norm)])?;
            if (first + i as u64 + 1).is_multiple_of(settings.target_update_interval) {
                follow(of.target, of.critic.parameters, settings.tau);
            }
            for (sum, more) in sums.numbers().into_iter().zip(told.numbers()) {
                *sum += *more;
            }
        }
        let [of_actor, of_critics] = &self.layouts;
        check_parameters(of_actor, of.actor.parameters)?;
        check_parameters(of_critics, of.critic.parameters)?;
        #[expect(clippy::cast_precision_loss, reason = "batches of a training")]
        let n = count as f64;
        for sum in sums.numbers() {
            *sum /= n;
        }
        Ok(sums)
    }

    /// Takes a step of temperature, critics and actor. Returns the results and the norm of the
    /// actor's gradient before clipping.
    fn step(
        &mut self,
        of: &mut SacParameters<'_, F>,
        batch: Batches<'_, F, F>,
        noise: &[F],
        settings: &SacSettings,
        errors: &mut [F],
    ) -> Result<(SacUpdate, f64)> {
        let size = self.actor.outputs() / 2;
        let (now, next) = noise.split_at(noise.len() / 2);
        let said = self.actor.forward(of.actor.parameters, batch.obs, &mut self.acting)?;
        self.drawn.draw(said, now, size);
        let log_prob = mean(&self.drawn.log_probs);
        let (alpha, temperature) = self.temper(&mut of.temperature, log_prob, settings)?;
        self.aim(of, batch, next, alpha)?;
        let Self { critics, valuing, goals, gradients: [_, gradient], .. } = self;
        let pairs = Pairs { obs: batch.obs, actions: batch.actions };
        critics.forward(of.critic.parameters, pairs, critics.members(), valuing)?;
        let aim = Aim { goals, weights: batch.weights, factor: HALF };
        let (critic, q_mean) =
            critics.gradient(of.critic.parameters, valuing, aim, errors, gradient)?;
        let grad_norm = of.critic.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        let (actor, norm) = self.improve_actor(of, batch, alpha, settings)?;
        let (alpha, entropy) = (alpha.to_f64(), -log_prob);
        let update = SacUpdate { critic, actor, temperature, q_mean, entropy, alpha, grad_norm };
        Ok((update, norm))
    }

    /// Takes a step of a learned temperature. Returns alpha before the step and the loss -log alpha
    /// E[log pi + H], linear in log alpha (equation 18 with log alpha as its factor, as in the
    /// authors' code).
    fn temper(
        &mut self,
        temperature: &mut Temperature<'_, F>,
        log_prob: f64,
        settings: &SacSettings,
    ) -> Result<(F, f64)> {
        match temperature {
            Temperature::Fixed(alpha) => Ok((F::from_f64(*alpha), 0.0)),
            Temperature::Learned { log, target_entropy } => {
                log.optimizer.check()?;
                let now = log.parameters.first().copied().unwrap_or(F::ZERO).to_f64();
                let slope = -(log_prob + *target_entropy);
                self.to_log.clear();
                self.to_log.resize(log.parameters.len(), F::ZERO);
                if let Some(place) = self.to_log.first_mut() {
                    *place = F::from_f64(slope);
                }
                log.step(&mut self.to_log, None, settings.learning_rate)?;
                Ok((F::from_f64(now.exp()), now * slope))
            }
        }
    }

    /// Computes the targets R + gamma^m (min_i Q'_i(s', a') - alpha log pi(a' | s')).
    fn aim(
        &mut self,
        of: &SacParameters<'_, F>,
        batch: Batches<'_, F, F>,
        noise: &[F],
        alpha: F,
    ) -> Result<()> {
        let Self { actor, critics, acting_next, drawn_next, valuing, goals, whose, .. } = self;
        let said = actor.infer(of.actor.parameters, batch.next_obs, acting_next)?;
        drawn_next.draw(said, noise, actor.outputs() / 2);
        let pairs = Pairs { obs: batch.next_obs, actions: &drawn_next.actions };
        let q = critics.forward(of.target, pairs, critics.members(), valuing)?;
        lowest(q, batch.rewards.len(), goals, whose);
        let paid = batch.rewards.iter().zip(batch.discounts).zip(&drawn_next.log_probs);
        for (goal, ((&reward, &discount), &log_prob)) in goals.iter_mut().zip(paid) {
            *goal = reward + discount * (*goal - alpha * log_prob);
        }
        Ok(())
    }

    /// Takes one step along the gradient of E[alpha log pi(a | s) - min_i Q_i(s, a)] (equation 9).
    /// Returns that loss and the norm of the gradient before clipping.
    fn improve_actor(
        &mut self,
        of: &mut SacParameters<'_, F>,
        batch: Batches<'_, F, F>,
        alpha: F,
        settings: &SacSettings,
    ) -> Result<(f64, f64)> {
        let Self { actor, critics, acting, drawn, valuing, goals, whose, to_q, .. } = self;
        let (to_actions, to_said) = (&mut self.to_actions, &mut self.to_said);
        let pairs = Pairs { obs: batch.obs, actions: &drawn.actions };
        let q = critics.forward(of.critic.parameters, pairs, critics.members(), valuing)?;
        let n = batch.rewards.len();
        lowest(q, n, goals, whose);
        let loss = alpha.to_f64() * mean(&drawn.log_probs) - mean(goals);
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let share = F::from_f64(1.0 / n as f64);
        to_q.clear();
        to_q.resize(q.len(), F::ZERO);
        for (row, &member) in whose.iter().enumerate() {
            if let Some(place) = to_q.get_mut(member * n + row) {
                *place = -share;
            }
        }
        resize(to_actions, drawn.actions.len())?;
        critics.back(of.critic.parameters, valuing, to_q, to_actions)?;
        resize(to_said, acting.given().len())?;
        drawn.back(acting.given(), (to_actions, share * alpha), actor.outputs() / 2, to_said);
        let [gradient, _] = &mut self.gradients;
        gradient.fill(F::ZERO);
        let wanted = Wanted::parameters(gradient.as_mut_slice());
        actor.backward(of.actor.parameters, batch.obs, acting, to_said, wanted)?;
        let norm = of.actor.step(gradient, settings.max_grad_norm, settings.learning_rate)?;
        Ok((loss, norm))
    }
}

fn mean<F: Number>(values: &[F]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
    let n = values.len() as f64;
    values.iter().map(|value| value.to_f64()).sum::<f64>() / n
}

impl SacUpdate {
    const fn numbers(&mut self) -> [&mut f64; 7] {
        let Self { critic, actor, temperature, q_mean, entropy, alpha, grad_norm } = self;
        [critic, actor, temperature, q_mean, entropy, alpha, grad_norm]
    }
}

impl SacSettings {
    /// # Errors
    /// [`Error::Config`] for a setting out of its range.
    fn check(&self) -> Result<()> {
        within("learning_rate", self.learning_rate, self.learning_rate >= 0.0, "at least 0")?;
        let most = self.max_grad_norm.unwrap_or(1.0);
        within("max_grad_norm", most, most > 0.0, "above 0")?;
        within("tau", self.tau, (0.0..=1.0).contains(&self.tau), "0 to 1")?;
        if self.target_update_interval == 0 {
            return Err(Error::config("target_update_interval", 0, "at least 1"));
        }
        Ok(())
    }
}
