//! A policy and a value function that share no parameters.

use candle_core::Result as Candle;
use rlox_core::error::{Error, check_len};
use rlox_core::policy::{ActionsMut, Noise, Seen};
use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::{Ppo, PpoTerms};
use rlox_nn::cpu::{self, Architecture, Done, Kind, Outputs, draw};
use rlox_nn::traits::{ActorCritic, Minibatch, StochasticPolicy};

use crate::error::internal;
use crate::loss::{self, Said};
use crate::net::{Leaves, Net, Place, copy, numbers};

/// An actor and a critic with one flat vector of parameters, computed by Candle.
#[derive(Debug, Clone)]
pub struct CandleActorCritic {
    actor: Net,
    critic: Net,
    /// Only for continuous actions.
    log_std: Option<Place>,
    kind: Kind,
    len: usize,
}

impl CandleActorCritic {
    /// Makes the networks of this architecture, with parameters as in `layout`.
    ///
    /// # Errors
    /// Same as [`cpu::ActorCritic::new`]; [`Error::Config`] for gSDE.
    pub fn new(layout: &Layout, of: &Architecture) -> Result<Self> {
        cpu::ActorCritic::new(layout, of)?;
        let (outputs, log_std) = match of.kind {
            Kind::Choices(n) => (n, None),
            Kind::Numbers(n) => (n, Some(Place::of(layout, "log_std", &[n])?)),
            Kind::Sde(_) => {
                let expected = "choices or numbers; gSDE is the engine cpu's";
                return Err(Error::config("kind of action", "gSDE", expected));
            }
        };
        let net = |prefix, hidden: &[usize], outputs| {
            let sizes = [&[of.obs_dim], hidden, &[outputs]].concat();
            Net::new(layout, prefix, &sizes, of.activation)
        };
        let (actor, critic) = (net("actor", &of.actor, outputs)?, net("critic", &of.critic, 1)?);
        Ok(Self { actor, critic, log_std, kind: of.kind, len: layout.len() })
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        let nets = self.actor.places.iter().chain(&self.critic.places);
        nets.flatten().chain(&self.log_std)
    }

    fn said(&self, leaves: &Leaves, batch: Minibatch<'_>) -> Result<Said> {
        let (obs, k) = (self.actor.rows(batch.obs)?, self.actor.outputs());
        let n = obs.dims().first().copied().unwrap_or(0);
        match (batch.done, &self.log_std) {
            (Done::Choices(actions, None), None) => {
                check_len("actions", actions.len(), n, "one for each observation")?;
                check_choices(actions, k)?;
            }
            (Done::Vectors(actions), Some(_)) => {
                check_len("actions", actions.len(), n * k, "one for each observation")?;
            }
            (Done::Choices(_, Some(_)), None) => {
                let expected = "none; masks are the engine cpu's";
                return Err(Error::config("mask", "given", expected));
            }
            _ => return Err(Error::config("actions", "of another kind", "what the policy gives")),
        }
        let said = || {
            let outputs = self.actor.forward(leaves, &obs)?;
            let (log_probs, entropy) = match (batch.done, &self.log_std) {
                (Done::Vectors(actions), Some(log_std)) => {
                    loss::gaussian(&outputs, leaves.get(log_std)?, actions)?
                }
                (Done::Choices(actions, _), _) => loss::categorical(&outputs, actions)?,
                (Done::Vectors(_), None) => loss::categorical(&outputs, &[])?,
            };
            let values = self.critic.forward(leaves, &obs)?.squeeze(1)?;
            Candle::Ok(Said { log_probs, entropy, values })
        };
        said().map_err(internal)
    }
}

/// Checks that every action is a choice below `choices`.
///
/// # Errors
/// [`Error::Config`] for a choice out of range.
pub(crate) fn check_choices(actions: &[i64], choices: usize) -> Result<()> {
    let fits = |&action: &i64| usize::try_from(action).is_ok_and(|action| action < choices);
    for (row, action) in actions.iter().enumerate() {
        if !fits(action) {
            let expected = format!("a choice from 0 to {}", choices.saturating_sub(1));
            return Err(Error::config(format!("action of row {row}"), action, expected));
        }
    }
    Ok(())
}

impl StochasticPolicy for CandleActorCritic {
    fn noise(&self) -> Noise {
        match self.kind {
            Kind::Choices(_) => Noise::Uniform(1),
            Kind::Numbers(n) | Kind::Sde(n) => Noise::Normal(n),
        }
    }

    fn act(
        &self,
        parameters: &[f32],
        seen: Seen<'_>,
        actions: ActionsMut<'_>,
        log_probs: &mut [f32],
    ) -> Result<()> {
        let places = self.actor.places.iter().flatten();
        let leaves = Leaves::new((parameters, self.len), places, false)?;
        let outputs = self.actor.forward(&leaves, &self.actor.rows(seen.obs)?).map_err(internal)?;
        let outputs = numbers(&outputs)?;
        let of = match &self.log_std {
            None => Outputs::Logits(&outputs, self.actor.outputs()),
            Some(log_std) => Outputs::Means(&outputs, log_std.numbers(parameters)),
        };
        draw(of, seen.noise, actions, log_probs)
    }
}

impl ActorCritic for CandleActorCritic {
    fn values(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        let places = self.critic.places.iter().flatten();
        let leaves = Leaves::new((parameters, self.len), places, false)?;
        let values = self.critic.forward(&leaves, &self.critic.rows(obs)?).map_err(internal)?;
        copy("values", &values, out)
    }

    fn ppo_gradient(
        &self,
        parameters: &[f32],
        batch: Minibatch<'_>,
        loss: &Ppo,
        gradient: &mut [f32],
    ) -> Result<PpoTerms> {
        let leaves = Leaves::new((parameters, self.len), self.places(), true)?;
        let said = self.said(&leaves, batch)?;
        let (total, terms) = loss::ppo(loss, &said, batch.collected)?;
        leaves.gradient(&total.backward().map_err(internal)?, gradient)?;
        Ok(terms)
    }
}
