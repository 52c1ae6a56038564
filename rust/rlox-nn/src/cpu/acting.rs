//! Acts with an actor-critic during rollouts.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use rlox_core::Result;
use rlox_core::error::check_len;
use rlox_core::policy::{ActionsMut, Noise, Policy, PolicyInput, PolicyOutput};
use rlox_core::threads;

use super::actor_critic::{ActorCritic, ActorCriticMemory};
use super::mlp::{Memory, Mlp};

/// Rows that one thread processes at once. The result of a row depends neither on the other rows
/// nor on this number.
const BLOCK: usize = 128;

/// An [`ActorCritic`] with parameters, as the policy that collects rollouts. Several threads share
/// the work when there are many rows.
#[derive(Debug)]
pub struct ActorCriticPolicy<'a> {
    net: &'a ActorCritic,
    parameters: &'a [f32],
    noise_kept: NonZeroUsize,
    /// Buffers of earlier calls, one for each call that ran at the same time.
    memory: Mutex<Vec<ActorCriticMemory<f32>>>,
}

impl<'a> ActorCriticPolicy<'a> {
    /// Returns the policy of these parameters. Under gSDE it keeps its noise for `noise_kept`
    /// steps.
    #[must_use]
    pub fn new(net: &'a ActorCritic, parameters: &'a [f32], noise_kept: NonZeroUsize) -> Self {
        Self { net, parameters, noise_kept, memory: Mutex::default() }
    }

    /// Acts as [`Policy::act`] does, but chooses only actions that the mask `[n, choices]` allows.
    /// Computes values only if their slice is not empty.
    ///
    /// # Errors
    /// For slices that do not fit, a row that allows no action, and a mask for actions that are
    /// vectors.
    pub fn act_masked(
        &self,
        input: PolicyInput<'_>,
        action_mask: Option<&[bool]>,
        output: PolicyOutput<'_>,
    ) -> Result<()> {
        let n = output.log_probs.len();
        if !output.values.is_empty() {
            check_len("values", output.values.len(), n, "one for each observation, or none")?;
        }
        check_len("obs", input.obs.len(), n * self.net.actor.inputs(), "one for each log_prob")?;
        check_len("noise", input.noise.len(), n * self.noise().dim(), "as the policy asks for")?;
        let checked_mask = action_mask.map_or(Ok(None), |allowed| {
            check_len("mask", allowed.len(), n * self.net.actor.outputs(), "one for each choice")?;
            Ok::<_, rlox_core::Error>(Some(allowed))
        })?;
        self.act_parallel(input, checked_mask, output)
    }

    fn act_parallel(
        &self,
        input: PolicyInput<'_>,
        action_mask: Option<&[bool]>,
        mut output: PolicyOutput<'_>,
    ) -> Result<()> {
        let n = output.log_probs.len();
        if n <= BLOCK {
            let ActorCritic { actor, critic, head } = self.net;
            return self.with_memory(|memory| {
                actor.infer(self.parameters, input.obs, &mut memory.actor)?;
                let out = (output.actions, output.log_probs);
                let noise_and_mask = (input.noise, action_mask);
                head.act(self.parameters, &memory.actor, noise_and_mask, &mut memory.head, out)?;
                if !output.values.is_empty() {
                    let values = critic.infer(self.parameters, input.obs, &mut memory.critic)?;
                    output.values.copy_from_slice(values);
                }
                Ok(())
            });
        }
        let first = (n.div_ceil(BLOCK) / 2) * BLOCK;
        let (obs, more_obs) = input.obs.split_at(input.obs.len() / n * first);
        let (noise, more_noise) = input.noise.split_at(input.noise.len() / n * first);
        let (mask, more_mask) =
            action_mask.map(|allowed| allowed.split_at(allowed.len() / n * first)).unzip();
        let (actions, more_actions) = split(&mut output.actions, n, first);
        let (log_probs, more_log_probs) = output.log_probs.split_at_mut(first);
        let (values, more_values) = output.values.split_at_mut(first.min(output.values.len()));
        let (left, right) = threads::join(
            || {
                self.act_parallel(
                    PolicyInput { obs, noise },
                    mask,
                    PolicyOutput { actions, log_probs, values },
                )
            },
            || {
                let more_input = PolicyInput { obs: more_obs, noise: more_noise };
                let (log_probs, values) = (more_log_probs, more_values);
                self.act_parallel(
                    more_input,
                    more_mask,
                    PolicyOutput { actions: more_actions, log_probs, values },
                )
            },
        );
        left.and(right)
    }

    /// Writes the outputs of the actor's network, logits or means, for observations `[n, inputs]`
    /// into `[n, outputs]`.
    ///
    /// # Errors
    /// For slices that do not fit.
    pub fn outputs(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        let actor = &self.net.actor;
        let rows = out.len() / actor.outputs();
        check_len("outputs", out.len(), rows * actor.outputs(), "whole rows")?;
        check_len("obs", obs.len(), rows * actor.inputs(), "one for each row of outputs")?;
        self.infer_parallel(actor, |memory| &mut memory.actor, obs, out)
    }

    /// Writes the outputs of a network; threads share the blocks of rows.
    fn infer_parallel(
        &self,
        net: &Mlp,
        select_memory: fn(&mut ActorCriticMemory<f32>) -> &mut Memory<f32>,
        obs: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let (inputs, outputs) = (net.inputs(), net.outputs());
        let result = Mutex::new(Ok(()));
        threads::for_each_chunk(out, BLOCK * outputs, |i, out| {
            let obs = obs.get(i * BLOCK * inputs..).unwrap_or_default();
            let obs = obs.get(..out.len() / outputs * inputs).unwrap_or_default();
            let chunk_result = self.with_memory(|memory| {
                out.copy_from_slice(net.infer(self.parameters, obs, select_memory(memory))?);
                Ok(())
            });
            if chunk_result.is_err() {
                *result.lock().unwrap_or_else(PoisonError::into_inner) = chunk_result;
            }
        });
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with memory of an earlier call, or with new memory if other calls use all of
    /// it.
    fn with_memory<T>(&self, work: impl FnOnce(&mut ActorCriticMemory<f32>) -> T) -> T {
        let pool = || self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = pool().pop().unwrap_or_default();
        let result = work(&mut memory);
        pool().push(memory);
        result
    }
}

/// Splits actions of n rows into those of the first rows and the remaining ones.
fn split<'a>(actions: &'a mut ActionsMut<'_>, n: usize, first: usize) -> (ActionsMut<'a>, ActionsMut<'a>) {
    match actions {
        ActionsMut::Discrete(all) => {
            let (actions, more) = all.split_at_mut(all.len() / n * first);
            (ActionsMut::Discrete(actions), ActionsMut::Discrete(more))
        }
        ActionsMut::Box(all) => {
            let (actions, more) = all.split_at_mut(all.len() / n * first);
            (ActionsMut::Box(actions), ActionsMut::Box(more))
        }
    }
}

impl Policy for ActorCriticPolicy<'_> {
    fn noise(&self) -> Noise {
        self.net.head.noise()
    }

    fn steps_per_noise(&self) -> NonZeroUsize {
        self.noise_kept
    }

    fn act(&self, input: PolicyInput<'_>, output: PolicyOutput<'_>) -> Result<()> {
        self.act_masked(input, None, output)
    }

    fn has_separate_values(&self) -> bool {
        true
    }

    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        check_len("obs", obs.len(), out.len() * self.net.critic.inputs(), "one for each value")?;
        self.infer_parallel(&self.net.critic, |memory| &mut memory.critic, obs, out)
    }
}
