//! One iteration of PPO or A2C: collects a rollout, estimates advantages, and learns.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use rlox_core::advantage::Discount;
use rlox_core::advantage::gae::Out;
use rlox_core::env::Actions;
use rlox_core::rollout::{Columns, RolloutEnds, RolloutKey, RunningEpisodes, Scratch};
use rlox_core::stats::explained_variance;
use rlox_core::{Result, VectorEnv};

use super::a2c::{A2cSettings, A2cUpdate};
use super::acting::ActorCriticPolicy;
use super::engine::OnPolicyEngine;
use super::heads::ActionsTaken;
use super::optim::Optimizer;
use super::ppo::{PpoSettings, PpoUpdate};
use super::rows::RolloutRows;

/// A rollout in the caller's memory, which is collected and then learned from. The results have
/// the same bits as with separate calls that collect, estimate and learn.
pub struct Iteration<'a> {
    /// The columns that are collected.
    pub columns: Columns<'a>,
    /// The advantages and returns that are estimated, `[T, N]` each.
    pub estimates: Out<'a, f32>,
    /// The seed and the rollout's number in the run.
    pub key: RolloutKey,
    /// The number of steps for which gSDE uses the same noise.
    pub noise_kept: NonZeroUsize,
    /// The discount of the estimates.
    pub discount: Discount,
}

/// The result of learning in an iteration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IterationResult<U> {
    /// The result of the update.
    pub update: U,
    /// The explained variance of the returns by the rollout's values.
    pub explained_variance: f64,
    /// The time that learning took, including the estimation of advantages.
    pub learning_time: Duration,
}

impl Iteration<'_> {
    /// Collects T steps of every environment with the engine's policy. Row 0 of the
    /// observations must already hold the environments' present observations.
    ///
    /// # Errors
    /// As [`Columns::collect`].
    pub fn collect(
        &mut self,
        engine: &OnPolicyEngine<f32>,
        parameters: &[f32],
        envs: &mut dyn VectorEnv,
        running: &mut RunningEpisodes<'_>,
    ) -> Result<RolloutEnds> {
        let acting = ActorCriticPolicy::new(engine.net(), parameters, self.noise_kept);
        let (mut episode_ends, mut scratch) = (RolloutEnds::default(), Scratch::default());
        let buffers = (&mut episode_ends, &mut scratch);
        self.columns.collect(envs, &acting, self.key, running, buffers)?;
        Ok(episode_ends)
    }

    /// Takes one A2C step along the gradient of the whole rollout.
    ///
    /// # Errors
    /// As [`Columns::check_finite`], [`Columns::estimate`] and [`OnPolicyEngine::a2c`].
    pub fn a2c(
        &mut self,
        engine: &mut OnPolicyEngine<f32>,
        parameters: &mut [f32],
        optimizer: &mut Optimizer<'_, f32>,
        settings: &A2cSettings,
    ) -> Result<IterationResult<A2cUpdate>> {
        self.learn_rollout(|rows| engine.a2c(parameters, optimizer, rows, settings))
    }

    /// Runs PPO's epochs over the rollout. `order` writes the order of the rows for each epoch.
    ///
    /// # Errors
    /// As [`Columns::check_finite`], [`Columns::estimate`] and [`OnPolicyEngine::ppo`].
    pub fn ppo(
        &mut self,
        engine: &mut OnPolicyEngine<f32>,
        parameters: &mut [f32],
        optimizer: &mut Optimizer<'_, f32>,
        settings: &PpoSettings,
        order: impl FnMut(usize, &mut Vec<usize>),
    ) -> Result<IterationResult<PpoUpdate>> {
        self.learn_rollout(|rows| engine.ppo(parameters, optimizer, rows, settings, order))
    }

    fn learn_rollout<U>(
        &mut self,
        learn: impl FnOnce(RolloutRows<'_, f32>) -> Result<U>,
    ) -> Result<IterationResult<U>> {
        let start = Instant::now();
        let Self { columns, estimates, discount, .. } = self;
        columns.check_finite()?;
        let n = columns.rewards.len();
        let n_envs = columns.values.len().saturating_sub(n);
        let Out { advantages, returns } = estimates;
        columns.estimate(n_envs, *discount, Out { advantages, returns })?;
        let rows = RolloutRows {
            obs: &*columns.obs,
            obs_dim: columns.obs.len() / (n + n_envs).max(1),
            actions: match columns.actions.view() {
                Actions::Discrete(choices) => ActionsTaken::Choices(choices, None), // no action mask
                Actions::Box(vectors) => ActionsTaken::Vectors(vectors),
            },
            log_probs: &*columns.log_probs,
            values: columns.values.get(..n).unwrap_or_default(),
            advantages,
            returns,
        };
        let explained_variance = explained_variance(rows.values, rows.returns)?;
        let update = learn(rows)?;
        Ok(IterationResult { update, explained_variance, learning_time: start.elapsed() })
    }
}
