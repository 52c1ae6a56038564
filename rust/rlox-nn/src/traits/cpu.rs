//! Implements the traits for the engine `cpu`. Its engines (`OnPolicyEngine`, `DqnEngine`,
//! `Td3Engine`) keep their buffers from call to call and are faster; these methods allocate them in
//! each call.

use std::num::NonZeroUsize;

use rlox_core::Result;
use rlox_core::error::{Error, check_len};
use rlox_core::math::in_place;
use rlox_core::policy::{ActionsMut, Noise, Policy, Seen};

use super::{ActorCritic, DeterministicPolicy, Minibatch, QFunction, StochasticPolicy, Valued};
use crate::cpu::losses::{Goals, Ppo, PpoTerms, Said, Slopes, TdLoss};
use crate::cpu::{self, Acting, ActorCriticMemory, Memory, Mlp, QMemory, QNetwork, Wanted};

fn acting<'a>(net: &'a cpu::ActorCritic, parameters: &'a [f32]) -> Acting<'a> {
    Acting::new(net, parameters, NonZeroUsize::MIN)
}

impl StochasticPolicy for cpu::ActorCritic {
    fn noise(&self) -> Noise {
        acting(self, &[]).noise()
    }

    fn act(
        &self,
        parameters: &[f32],
        seen: Seen<'_>,
        actions: ActionsMut<'_>,
        log_probs: &mut [f32],
    ) -> Result<()> {
        acting(self, parameters).act_alone(seen, actions, log_probs)
    }
}

impl ActorCritic for cpu::ActorCritic {
    fn values(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        acting(self, parameters).values(obs, out)
    }

    fn ppo_gradient(
        &self,
        parameters: &[f32],
        batch: Minibatch<'_>,
        loss: &Ppo,
        gradient: &mut [f32],
    ) -> Result<PpoTerms> {
        let mut memory = ActorCriticMemory::default();
        let seen = (batch.obs, batch.done);
        let of_said = |said: Said<'_, f32>, to: Slopes<'_, f32>| {
            let (told, to_entropy) = loss.gradient(said, batch.collected, to)?;
            Ok((told, Some(to_entropy)))
        };
        self.gradient(parameters, seen, &mut memory, of_said, gradient)
    }
}

impl QFunction for QNetwork {
    fn choices(&self) -> usize {
        Self::choices(self)
    }

    fn q(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        let mut memory = QMemory::default();
        let q = self.forward(parameters, obs, &mut memory)?;
        copy("q", q, out)
    }

    fn td_gradient(
        &self,
        parameters: &[f32],
        batch: Valued<'_>,
        loss: TdLoss,
        gradient: &mut [f32],
    ) -> Result<f64> {
        let (mut memory, choices, n) = (QMemory::default(), self.choices(), batch.actions.len());
        let q = self.forward(parameters, batch.obs, &mut memory)?;
        check_len("actions", n, q.len() / choices, "one for each observation")?;
        let mut said = Vec::with_capacity(n);
        for (row, (q, &action)) in q.chunks_exact(choices).zip(batch.actions).enumerate() {
            let chosen = usize::try_from(action).ok().and_then(|action| q.get(action));
            said.push(*chosen.ok_or_else(|| no_choice(row, action, choices))?);
        }
        let (mut errors, mut slopes) = (vec![0.0; n], vec![0.0; n]);
        let goals = Goals { goals: batch.goals, weights: None };
        let told = loss.gradient(&said, goals, (&mut errors, &mut slopes))?;
        let mut to_q = vec![0.0; n * choices];
        let rows = to_q.chunks_exact_mut(choices).zip(batch.actions.iter().zip(slopes));
        for (to_q, (&action, slope)) in rows {
            let place = usize::try_from(action).ok().and_then(|action| to_q.get_mut(action));
            if let Some(place) = place {
                *place = slope;
            }
        }
        gradient.fill(0.0);
        self.backward(parameters, batch.obs, &mut memory, &to_q, gradient)?;
        Ok(told)
    }
}

/// Actions are tanh of the network's outputs, as in TD3.
impl DeterministicPolicy for Mlp {
    fn actions(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        let mut memory = Memory::default();
        let outputs = self.infer(parameters, obs, &mut memory)?;
        in_place::tanh(outputs);
        copy("actions", outputs, out)
    }

    fn gradient(
        &self,
        parameters: &[f32],
        obs: &[f32],
        to_actions: &[f32],
        gradient: &mut [f32],
    ) -> Result<()> {
        let mut memory = Memory::default();
        let mut actions = self.forward(parameters, obs, &mut memory)?.to_vec();
        check_len("gradient of the actions", to_actions.len(), actions.len(), "as the actions")?;
        in_place::tanh(&mut actions);
        let slopes = actions.iter().zip(to_actions);
        let to_outputs: Vec<f32> = slopes.map(|(&a, &slope)| slope * (1.0 - a * a)).collect();
        gradient.fill(0.0);
        self.backward(parameters, obs, &mut memory, &to_outputs, Wanted::parameters(gradient))
    }
}

fn copy(name: &'static str, from: &[f32], out: &mut [f32]) -> Result<()> {
    check_len(name, out.len(), from.len(), "as the network gives for these observations")?;
    out.copy_from_slice(from);
    Ok(())
}

fn no_choice(row: usize, action: i64, choices: usize) -> Error {
    let expected = format!("a choice from 0 to {}", choices.saturating_sub(1));
    Error::config(format!("action of row {row}"), action, expected)
}
