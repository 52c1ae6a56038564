//! What acts in rollouts.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};

use rlox_core::Result;
use rlox_core::error::check_len;
use rlox_core::policy::{Acted, Noise, Policy, Seen};

use super::actor_critic::{ActorCritic, ActorCriticMemory};

/// An [`ActorCritic`] with parameters, as a policy that rollouts are collected with.
#[derive(Debug)]
pub struct Acting<'a> {
    net: &'a ActorCritic,
    parameters: &'a [f32],
    noise_kept: NonZeroUsize,
    /// Room of the last call.
    memory: Mutex<ActorCriticMemory<f32>>,
}

impl<'a> Acting<'a> {
    /// The policy of these parameters, which under gSDE keeps its noise for so many steps.
    #[must_use]
    pub fn new(net: &'a ActorCritic, parameters: &'a [f32], noise_kept: NonZeroUsize) -> Self {
        Self { net, parameters, noise_kept, memory: Mutex::default() }
    }

    /// Calls `work` with room, that of the last call unless another thread has it.
    fn with_memory<T>(&self, work: impl FnOnce(&mut ActorCriticMemory<f32>) -> T) -> T {
        let mut memory =
            std::mem::take(&mut *self.memory.lock().unwrap_or_else(PoisonError::into_inner));
        let done = work(&mut memory);
        *self.memory.lock().unwrap_or_else(PoisonError::into_inner) = memory;
        done
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
        self.with_memory(|memory| {
            let ActorCritic { actor, critic, head } = self.net;
            actor.infer(self.parameters, seen.obs, &mut memory.actor)?;
            let out = (acted.actions, acted.log_probs);
            head.act(self.parameters, &memory.actor, seen.noise, &mut memory.head, out)?;
            let values = critic.infer(self.parameters, seen.obs, &mut memory.critic)?;
            check_len("values", acted.values.len(), values.len(), "one for each observation")?;
            acted.values.copy_from_slice(values);
            Ok(())
        })
    }

    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        self.with_memory(|memory| {
            let values = self.net.critic.infer(self.parameters, obs, &mut memory.critic)?;
            check_len("values", out.len(), values.len(), "one for each observation")?;
            out.copy_from_slice(values);
            Ok(())
        })
    }
}
