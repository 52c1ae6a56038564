//! Implements the traits for the engine `cpu`. Its engines (`OnPolicyEngine`, `DqnEngine`,
//! `Td3Engine`) keep their buffers from call to call and are faster; these methods allocate them in
//! each call.

use std::num::NonZeroUsize;

use rlox_core::Result;
use rlox_core::error::{Error, check_len};
use rlox_core::math::in_place;
use rlox_core::policy::{ActionsMut, Noise, Policy, PolicyInput, PolicyOutput};

use super::{ActorCritic, DeterministicPolicy, Minibatch, QFunction, StochasticPolicy, TdBatch};
use crate::cpu::losses::{Evaluation, PpoLoss, PpoTerms, Slopes, TdLoss, TdTargets};
use crate::cpu::{
    self, ActorCriticMemory, ActorCriticPolicy, GradientBuffers, Memory, Mlp, QMemory, QNetwork,
};

fn make_policy<'a>(net: &'a cpu::ActorCritic, parameters: &'a [f32]) -> ActorCriticPolicy<'a> {
    ActorCriticPolicy::new(net, parameters, NonZeroUsize::MIN)
}

impl StochasticPolicy for cpu::ActorCritic {
    fn noise(&self) -> Noise {
        make_policy(self, &[]).noise()
    }

    fn act(
        &self,
        parameters: &[f32],
        input: PolicyInput<'_>,
        actions: ActionsMut<'_>,
        log_probs: &mut [f32],
    ) -> Result<()> {
        make_policy(self, parameters).act(input, PolicyOutput { actions, log_probs, values: &mut [] })
    }
}

impl ActorCritic for cpu::ActorCritic {
    fn values(&self, parameters: &[f32], obs: &[f32], out: &mut [f32]) -> Result<()> {
        make_policy(self, parameters).values(obs, out)
    }

    fn ppo_gradient(
        &self,
        parameters: &[f32],
        batch: Minibatch<'_>,
        loss: &PpoLoss,
        gradient: &mut [f32],
    ) -> Result<PpoTerms> {
        let mut memory = ActorCriticMemory::default();
        let obs_and_actions = (batch.obs, batch.actions);
        let loss_of_evaluation = |evaluation: Evaluation<'_, f32>, slopes: Slopes<'_, f32>| {
            let (ppo_terms, to_entropy) = loss.gradient(evaluation, batch.rollout, slopes)?;
            Ok((ppo_terms, Some(to_entropy)))
        };
        self.gradient(parameters, obs_and_actions, &mut memory, loss_of_evaluation, gradient)
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
        batch: TdBatch<'_>,
        loss: TdLoss,
        gradient: &mut [f32],
    ) -> Result<f64> {
        let (mut memory, choices, n) = (QMemory::default(), self.choices(), batch.actions.len());
        let q = self.forward(parameters, batch.obs, &mut memory)?;
        check_len("actions", n, q.len() / choices, "one for each observation")?;
        let mut chosen_q = Vec::with_capacity(n);
        for (row, (q, &action)) in q.chunks_exact(choices).zip(batch.actions).enumerate() {
            let chosen = usize::try_from(action).ok().and_then(|action| q.get(action));
            chosen_q.push(*chosen.ok_or_else(|| invalid_choice(row, action, choices))?);
        }
        let (mut errors, mut slopes) = (vec![0.0; n], vec![0.0; n]);
        let targets = TdTargets { values: batch.td_targets, weights: None };
        let mean_loss = loss.gradient(&chosen_q, targets, (&mut errors, &mut slopes))?;
        let mut to_q = vec![0.0; n * choices];
        let rows = to_q.chunks_exact_mut(choices).zip(batch.actions.iter().zip(slopes));
        for (to_q, (&action, slope)) in rows {
            let slope_slot = usize::try_from(action).ok().and_then(|action| to_q.get_mut(action));
            if let Some(slot) = slope_slot {
                *slot = slope;
            }
        }
        gradient.fill(0.0);
        self.backward(parameters, batch.obs, &mut memory, &to_q, gradient)?;
        Ok(mean_loss)
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
        self.backward(parameters, obs, &mut memory, &to_outputs, GradientBuffers::parameters(gradient))
    }
}

fn copy(name: &'static str, from: &[f32], out: &mut [f32]) -> Result<()> {
    check_len(name, out.len(), from.len(), "as the network gives for these observations")?;
    out.copy_from_slice(from);
    Ok(())
}

fn invalid_choice(row: usize, action: i64, choices: usize) -> Error {
    let expected = format!("a choice from 0 to {}", choices.saturating_sub(1));
    Error::config(format!("action of row {row}"), action, expected)
}
