//! A policy and a value function that share no parameters.

use rlox_core::error::{Error, check_len};
use rlox_core::policy::{ActionsMut, Noise, PolicyInput};
use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::{PpoLoss, PpoTerms};
use rlox_nn::cpu::{self, ActionKind, ActionsTaken, Architecture, Outputs, draw};
use rlox_nn::traits::{ActorCritic, Minibatch, StochasticPolicy};

use crate::loss::{self, NetOutputs};
use crate::net::{ArraySpec, Leaves, Net, copy_numbers, to_numbers};

/// An actor and a critic with one flat vector of parameters, computed by Burn.
#[derive(Debug, Clone)]
pub struct BurnActorCritic {
    actor: Net,
    critic: Net,
    /// Only for continuous actions.
    log_std: Option<ArraySpec>,
    kind: ActionKind,
    n_parameters: usize,
}

impl BurnActorCritic {
    /// Makes the networks of this architecture, with parameters as in `layout`.
    ///
    /// # Errors
    /// Same as [`cpu::ActorCritic::new`]; [`Error::Config`] for gSDE.
    pub fn new(layout: &Layout, architecture: &Architecture) -> Result<Self> {
        cpu::ActorCritic::new(layout, architecture)?; // checks the arguments
        let (outputs, log_std) = match architecture.kind {
            ActionKind::Choices(n) => (n, None),
            ActionKind::Gaussian(n) => (n, Some(ArraySpec::from_layout(layout, "log_std", &[n])?)),
            ActionKind::Sde(_) => {
                let expected = "choices or numbers; only the engine cpu has gSDE";
                return Err(Error::config("kind of action", "gSDE", expected));
            }
        };
        let net = |prefix, hidden: &[usize], outputs| {
            let sizes = [&[architecture.obs_dim], hidden, &[outputs]].concat();
            Net::new(layout, prefix, &sizes, architecture.activation)
        };
        let (actor, critic) =
            (net("actor", &architecture.actor, outputs)?, net("critic", &architecture.critic, 1)?);
        Ok(Self { actor, critic, log_std, kind: architecture.kind, n_parameters: layout.len() })
    }

    fn arrays(&self) -> impl Iterator<Item = &ArraySpec> {
        let nets = self.actor.layers.iter().chain(&self.critic.layers);
        nets.flatten().chain(&self.log_std)
    }

    /// Checks that there is an action for each observation, of the kind that the policy gives.
    fn check_actions(&self, batch: Minibatch<'_>) -> Result<()> {
        let (n, k) = (self.actor.n_rows(batch.obs)?, self.actor.outputs());
        match (batch.actions, &self.log_std) {
            (ActionsTaken::Choices(actions, None), None) => {
                check_len("actions", actions.len(), n, "one for each observation")?;
                check_choices(actions, k)
            }
            (ActionsTaken::Vectors(actions), Some(_)) => {
                check_len("actions", actions.len(), n * k, "one for each observation")
            }
            (ActionsTaken::Choices(_, Some(_)), None) => {
                let expected = "none; only the engine cpu has masks";
                Err(Error::config("mask", "given", expected))
            }
            _ => Err(Error::config("actions", "of another kind", "what the policy gives")),
        }
    }

    fn compute_outputs(&self, leaves: &Leaves, batch: Minibatch<'_>) -> Result<NetOutputs> {
        self.check_actions(batch)?;
        let outputs = self.actor.forward(leaves, batch.obs)?;
        let (log_probs, entropy) = match (batch.actions, &self.log_std) {
            (ActionsTaken::Vectors(actions), Some(log_std)) => {
                loss::gaussian(outputs, leaves.get(log_std)?, actions, &leaves.device)
            }
            (ActionsTaken::Choices(actions, _), _) => loss::categorical(outputs, actions, &leaves.device),
            (ActionsTaken::Vectors(_), None) => {
                return Err(Error::internal("actions of two kinds"));
            }
        };
        let values = self.critic.forward(leaves, batch.obs)?.squeeze_dim(1);
        Ok(NetOutputs { log_probs, entropy, values })
    }
}

/// Checks that every action is a choice below `choices`.
///
/// # Errors
/// [`Error::Config`] for a choice out of range.
pub(crate) fn check_choices(actions: &[i64], choices: usize) -> Result<()> {
    let is_valid = |&action: &i64| usize::try_from(action).is_ok_and(|action| action < choices);
    for (row, action) in actions.iter().enumerate() {
        if !is_valid(action) {
            let expected = format!("a choice from 0 to {}", choices.saturating_sub(1));
            return Err(Error::config(format!("action of row {row}"), action, expected));
        }
    }
    Ok(())
}

impl StochasticPolicy for BurnActorCritic {
    fn noise(&self) -> Noise {
        match self.kind {
            ActionKind::Choices(_) => Noise::Uniform(1),
            ActionKind::Gaussian(n) | ActionKind::Sde(n) => Noise::Normal(n),
        }
    }

    fn act(
        &self,
        parameters: &[f32],
        input: PolicyInput<'_>,
        actions: ActionsMut<'_>,
        log_probs: &mut [f32],
    ) -> Result<()> {
        let arrays = self.actor.layers.iter().flatten();
        let leaves = Leaves::new((parameters, self.n_parameters), arrays, false)?;
        self.actor.n_rows(input.obs)?; // checks the length
        let outputs = to_numbers(self.actor.forward(&leaves, input.obs)?)?;
        let distribution = match &self.log_std {
            None => Outputs::Logits(&outputs, self.actor.outputs()),
            Some(log_std) => Outputs::Means(&outputs, log_std.slice(parameters)),
        };
        draw(distribution, input.noise, actions, log_probs)
    }
}

impl ActorCritic for BurnActorCritic {
    fn values(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        let arrays = self.critic.layers.iter().flatten();
        let leaves = Leaves::new((parameters, self.n_parameters), arrays, false)?;
        self.critic.n_rows(obs)?; // checks the length
        copy_numbers("values", self.critic.forward(&leaves, obs)?, out)
    }

    fn ppo_gradient(
        &self,
        parameters: &[f32],
        batch: Minibatch<'_>,
        loss: &PpoLoss,
        gradient: &mut [f32],
    ) -> Result<PpoTerms> {
        let leaves = Leaves::new((parameters, self.n_parameters), self.arrays(), true)?;
        let outputs = self.compute_outputs(&leaves, batch)?;
        let (total, terms) = loss::ppo(loss, outputs, batch.rollout, &leaves.device)?;
        leaves.write_gradient(total.backward(), gradient)?;
        Ok(terms)
    }
}
