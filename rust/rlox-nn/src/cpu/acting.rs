//! Acts with an actor-critic during rollouts.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use rlox_core::Result;
use rlox_core::error::check_len;
use rlox_core::policy::{Acted, ActionsMut, Noise, Policy, Seen};
use rlox_core::threads;

use super::actor_critic::{ActorCritic, ActorCriticMemory};
use super::mlp::{Memory, Mlp};

/// Rows that one thread processes at once. The result of a row depends neither on the other rows
/// nor on this number.
const BLOCK: usize = 128;

/// An [`ActorCritic`] with parameters, as the policy that collects rollouts. Several threads share
/// the work when there are many rows.
#[derive(Debug)]
pub struct Acting<'a> {
    net: &'a ActorCritic,
    parameters: &'a [f32],
    noise_kept: NonZeroUsize,
    /// Buffers of earlier calls, one for each call that ran at the same time.
    memory: Mutex<Vec<ActorCriticMemory<f32>>>,
}

impl<'a> Acting<'a> {
    /// Returns the policy of these parameters. Under gSDE it keeps its noise for `noise_kept`
    /// steps.
    #[must_use]
    pub fn new(net: &'a ActorCritic, parameters: &'a [f32], noise_kept: NonZeroUsize) -> Self {
        Self { net, parameters, noise_kept, memory: Mutex::default() }
    }

    /// Acts as [`Policy::act`] does, but chooses only actions that the mask `[n, choices]` allows.
    ///
    /// # Errors
    /// For slices that do not fit, a row that allows no action, and a mask for actions that are
    /// vectors.
    pub fn act_within(
        &self,
        seen: Seen<'_>,
        allowed: Option<&[bool]>,
        acted: Acted<'_>,
    ) -> Result<()> {
        let n = acted.log_probs.len();
        check_len("values", acted.values.len(), n, "one for each observation")?;
        self.within(seen, allowed, acted)
    }

    /// Acts as [`Policy::act`] does, but without the critic, which costs as much as the actor.
    ///
    /// # Errors
    /// For slices that do not fit.
    pub(crate) fn act_alone(
        &self,
        seen: Seen<'_>,
        actions: ActionsMut<'_>,
        log_probs: &mut [f32],
    ) -> Result<()> {
        self.within(seen, None, Acted { actions, log_probs, values: &mut [] })
    }

    /// Checks the lengths and acts. Computes values only if their slice is not empty.
    fn within(&self, seen: Seen<'_>, allowed: Option<&[bool]>, acted: Acted<'_>) -> Result<()> {
        let n = acted.log_probs.len();
        check_len("obs", seen.obs.len(), n * self.net.actor.inputs(), "one for each log_prob")?;
        check_len("noise", seen.noise.len(), n * self.noise().dim(), "as the policy asks for")?;
        let allowed = allowed.map_or(Ok(None), |allowed| {
            check_len("mask", allowed.len(), n * self.net.actor.outputs(), "one for each choice")?;
            Ok::<_, rlox_core::Error>(Some(allowed))
        })?;
        self.shared(seen, allowed, acted)
    }

    fn shared(&self, seen: Seen<'_>, allowed: Option<&[bool]>, mut acted: Acted<'_>) -> Result<()> {
        let n = acted.log_probs.len();
        if n <= BLOCK {
            let ActorCritic { actor, critic, head } = self.net;
            return self.with_memory(|memory| {
                actor.infer(self.parameters, seen.obs, &mut memory.actor)?;
                let out = (acted.actions, acted.log_probs);
                let beside = (seen.noise, allowed);
                head.act(self.parameters, &memory.actor, beside, &mut memory.head, out)?;
                if !acted.values.is_empty() {
                    let values = critic.infer(self.parameters, seen.obs, &mut memory.critic)?;
                    acted.values.copy_from_slice(values);
                }
                Ok(())
            });
        }
        let first = (n.div_ceil(BLOCK) / 2) * BLOCK;
        let (obs, more_obs) = seen.obs.split_at(seen.obs.len() / n * first);
        let (noise, more_noise) = seen.noise.split_at(seen.noise.len() / n * first);
        let (mask, more_mask) =
            allowed.map(|allowed| allowed.split_at(allowed.len() / n * first)).unzip();
        let (actions, more_actions) = split(&mut acted.actions, n, first);
        let (log_probs, more_log_probs) = acted.log_probs.split_at_mut(first);
        let (values, more_values) = acted.values.split_at_mut(first.min(acted.values.len()));
        let (left, right) = threads::join(
            || self.shared(Seen { obs, noise }, mask, Acted { actions, log_probs, values }),
            || {
                let seen = Seen { obs: more_obs, noise: more_noise };
                let (log_probs, values) = (more_log_probs, more_values);
                self.shared(seen, more_mask, Acted { actions: more_actions, log_probs, values })
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
        self.inferred(actor, |memory| &mut memory.actor, obs, out)
    }

    /// Writes the outputs of a network; threads share the blocks of rows.
    fn inferred(
        &self,
        net: &Mlp,
        room: fn(&mut ActorCriticMemory<f32>) -> &mut Memory<f32>,
        obs: &[f32],
        out: &mut [f32],
    ) -> Result<()> {
        let (inputs, outputs) = (net.inputs(), net.outputs());
        let left = Mutex::new(Ok(()));
        threads::for_each_chunk(out, BLOCK * outputs, |i, out| {
            let obs = obs.get(i * BLOCK * inputs..).unwrap_or_default();
            let obs = obs.get(..out.len() / outputs * inputs).unwrap_or_default();
            let told = self.with_memory(|memory| {
                out.copy_from_slice(net.infer(self.parameters, obs, room(memory))?);
                Ok(())
            });
            if told.is_err() {
                *left.lock().unwrap_or_else(PoisonError::into_inner) = told;
            }
        });
        left.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with memory of an earlier call, or with new memory if other calls use all of
    /// it.
    fn with_memory<T>(&self, work: impl FnOnce(&mut ActorCriticMemory<f32>) -> T) -> T {
        let all = || self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let mut memory = all().pop().unwrap_or_default();
        let done = work(&mut memory);
        all().push(memory);
        done
    }
}

/// Splits actions of n rows into those of the first rows and the remaining ones.
fn split<'a>(
    actions: &'a mut ActionsMut<'_>,
    n: usize,
    first: usize,
) -> (ActionsMut<'a>, ActionsMut<'a>) {
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

impl Policy for Acting<'_> {
    fn noise(&self) -> Noise {
        self.net.head.noise()
    }

    fn noise_kept(&self) -> NonZeroUsize {
        self.noise_kept
    }

    fn act(&self, seen: Seen<'_>, acted: Acted<'_>) -> Result<()> {
        self.act_within(seen, None, acted)
    }

    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        check_len("obs", obs.len(), out.len() * self.net.critic.inputs(), "one for each value")?;
        self.inferred(&self.net.critic, |memory| &mut memory.critic, obs, out)
    }
}
