//! Acts while transitions are collected for a replay buffer.

use rlox_core::Result;
use rlox_core::error::{Error, check_len};
use rlox_core::math::in_place;
use rlox_core::policy::ActionsMut;
use rlox_core::rollout::ExplorationPolicy;

use super::heads::squashed::SquashedSample;
use super::mlp::{Memory, Mlp};
use super::q_network::{QMemory, QNetwork, argmax};

/// A network and how actions are chosen from its outputs.
#[derive(Debug, Clone)]
pub enum Exploration {
    /// The action with the largest Q-value.
    Greedy(QNetwork),
    /// tanh(mean + deviation * noise); the network outputs means and log deviations.
    Squashed(Mlp),
    /// tanh of the network's outputs plus noise times this deviation, clipped to [-1, 1].
    ActionNoise(Mlp, f32),
    /// The network's outputs; the noise is not used.
    Outputs(Mlp),
}

/// A network that explores, with the buffers it needs.
#[derive(Debug, Clone)]
pub struct Explorer {
    exploration: Exploration,
    q_memory: QMemory<f32>,
    memory: Memory<f32>,
    sample: SquashedSample<f32>,
}

/// An [`Explorer`] with parameters and the noise of a chunk of steps.
#[derive(Debug)]
pub struct BoundExplorer<'a> {
    /// The explorer.
    pub explorer: &'a mut Explorer,
    /// The parameters of its network.
    pub parameters: &'a [f32],
    /// Standard normal noise of the steps whose actions the network chooses, `[steps, N,
    /// action_dim]`; empty for choices.
    pub noise: &'a [f32],
    /// The number of steps at the start of the chunk whose actions are already set.
    pub n_preset_steps: usize,
}

impl Explorer {
    /// Returns an explorer that chooses actions by `exploration`.
    #[must_use]
    pub fn new(exploration: Exploration) -> Self {
        let (q_memory, memory, sample) = (QMemory::default(), Memory::default(), SquashedSample::default());
        Self { exploration, q_memory, memory, sample }
    }

    /// Returns the length of an action; 0 for choices, which take no noise.
    #[must_use]
    pub fn action_dim(&self) -> usize {
        match &self.exploration {
            Exploration::Greedy(_) => 0,
            Exploration::Squashed(net) => net.outputs() / 2,
            Exploration::ActionNoise(net, _) | Exploration::Outputs(net) => net.outputs(),
        }
    }

    /// Chooses actions for `obs` `[n, obs_dim]`; vectors use `noise` `[n, action_dim]`. Of choices
    /// it sets only those that are negative; the others are already set.
    ///
    /// # Errors
    /// [`Error::Shape`] for slices that do not fit, [`Error::Config`] for actions of another kind.
    pub fn act(
        &mut self,
        parameters: &[f32],
        obs: &[f32],
        noise: &[f32],
        actions: ActionsMut<'_>,
    ) -> Result<()> {
        let Self { exploration, q_memory, memory, sample } = self;
        match (exploration, actions) {
            (Exploration::Greedy(net), ActionsMut::Discrete(actions)) => {
                if actions.iter().all(|&action| action >= 0) {
                    return Ok(());
                }
                let q = net.forward(parameters, obs, q_memory)?;
                check_len("actions", actions.len(), q.len() / net.choices(), "one for each row")?;
                for (action, q) in actions.iter_mut().zip(q.chunks_exact(net.choices())) {
                    if *action < 0 {
                        *action = i64::try_from(argmax(q)).unwrap_or(i64::MAX);
                    }
                }
            }
            (Exploration::Squashed(net), ActionsMut::Box(actions)) => {
                let (outputs, action_dim) = (net.infer(parameters, obs, memory)?, net.outputs() / 2);
                check_lengths(noise, actions, outputs.len() / 2)?;
                sample.draw(outputs, noise, action_dim);
                actions.copy_from_slice(&sample.actions);
            }
            (Exploration::ActionNoise(net, deviation), ActionsMut::Box(actions)) => {
                let means = net.infer(parameters, obs, memory)?;
                check_lengths(noise, actions, means.len())?;
                in_place::tanh(means);
                for ((action, &mean), &noise) in actions.iter_mut().zip(&*means).zip(noise) {
                    *action = (mean + *deviation * noise).clamp(-1.0, 1.0);
                }
            }
            (Exploration::Outputs(net), ActionsMut::Box(actions)) => {
                let outputs = net.infer(parameters, obs, memory)?;
                check_lengths(noise, actions, outputs.len())?;
                actions.copy_from_slice(outputs);
            }
            _ => return Err(Error::config("actions", "of another kind", "those of the engine")),
        }
        Ok(())
    }
}

/// Checks that noise and actions are as long as the network's outputs require.
fn check_lengths(noise: &[f32], actions: &[f32], expected: usize) -> Result<()> {
    check_len("noise", noise.len(), expected, "one for each number of an action")?;
    check_len("actions", actions.len(), expected, "one for each row of obs")
}

impl ExplorationPolicy for BoundExplorer<'_> {
    fn act(&mut self, t: usize, obs: &[f32], actions: ActionsMut<'_>) -> Result<()> {
        let Some(step) = t.checked_sub(self.n_preset_steps) else { return Ok(()) };
        let width = match &actions {
            ActionsMut::Discrete(_) => 0,
            ActionsMut::Box(numbers) => numbers.len(),
        };
        let noise = self.noise.get(step * width..(step + 1) * width).unwrap_or_default();
        self.explorer.act(self.parameters, obs, noise, actions)
    }
}
