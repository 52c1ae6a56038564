//! Filling the memory of a rollout.

use super::arena::{Arena, Final, row, row_mut};
use crate::advantage::{Discount, Ends, gae};
use crate::env::StepOut;
use crate::env::vector_env::VectorEnv;
use crate::error::{Error, Result, check_len};
use crate::interrupt;
use crate::policy::{Acted, Noise, Policy, Seen};
use crate::seed::Stream;

/// Name of the stream that the noise of a rollout is drawn from.
const STREAM: &str = "action";

impl Arena {
    /// T steps of every environment, then values of final observations, then advantages.
    ///
    /// The first call resets the environments; episodes go on across calls. Rollout number i draws its
    /// noise from stream (`run_seed`, "action", i), step by step (where the policy keeps its noise, at the
    /// steps that it is drawn anew), environment by environment (normal
    /// numbers by [`Stream::fill_normal`]), so no generator has to be saved and nothing else can
    /// shift it.
    ///
    /// # Errors
    /// [`Error::Config`] for environments of another kind or number; [`Error::NonFinite`] for NaN or
    /// infinity in what was collected; [`Error::Interrupted`]; whatever environments and policy refuse.
    /// The environments stand where they were stopped then, and the next call goes on from there; the
    /// steps of this one are lost.
    pub fn collect(
        &mut self,
        envs: &mut dyn VectorEnv,
        policy: &dyn Policy,
        run_seed: u64,
        discount: Discount,
    ) -> Result<()> {
        self.check(envs)?;
        self.start(envs)?;
        let mut stream = Stream::new(run_seed, STREAM, self.progress.rollouts);
        self.progress.rollouts += 1;
        self.noise.resize(self.n_envs * policy.noise().dim(), 0.0);
        for t in 0..self.n_steps {
            if let Err(error) = self.step(envs, policy, &mut stream, t) {
                let here = t * self.n_envs * self.obs_dim;
                let width = self.n_envs * self.obs_dim;
                self.obs.copy_within(here..here + width, self.n_steps * width);
                return Err(error);
            }
        }
        self.value_ends(policy)?;
        self.check_finite()?;
        self.estimate(discount)
    }

    fn check(&self, envs: &dyn VectorEnv) -> Result<()> {
        let spec = envs.spec();
        let own = (self.n_envs, self.obs_dim, self.action_dim);
        let given = (envs.n_envs(), spec.observation.dim(), spec.action.dim());
        if own == given {
            return Ok(());
        }
        let got = format!("{given:?} for {}", spec.id);
        Err(Error::config("(n_envs, obs_dim, action_dim)", got, format!("{own:?} as in the arena")))
    }

    /// Row 0 becomes where the environments stand.
    fn start(&mut self, envs: &mut dyn VectorEnv) -> Result<()> {
        let width = self.n_envs * self.obs_dim;
        if self.started {
            self.obs.copy_within(self.n_steps * width.., 0);
        } else {
            envs.reset(row_mut(&mut self.obs, 0, width))?;
            self.started = true;
        }
        self.finals.clear();
        self.final_obs.clear();
        self.episodes.clear();
        Ok(())
    }

    fn step(
        &mut self,
        envs: &mut dyn VectorEnv,
        policy: &dyn Policy,
        stream: &mut Stream,
        t: usize,
    ) -> Result<()> {
        interrupt::check()?;
        let (n, width) = (self.n_envs, self.n_envs * self.obs_dim);
        if t.is_multiple_of(policy.noise_kept().get()) {
            draw(policy.noise(), stream, &mut self.noise);
        }
        let (before, after) = self.obs.split_at_mut((t + 1) * width);
        let seen = Seen { obs: row(before, t, width), noise: &self.noise };
        policy.act(
            seen,
            Acted {
                actions: self.actions.row_mut(t, n * self.action_dim),
                log_probs: row_mut(&mut self.log_probs, t, n),
                values: row_mut(&mut self.values, t, n),
            },
        )?;
        let out = StepOut {
            obs: row_mut(after, 0, width),
            rewards: &mut self.step_rewards,
            terminated: row_mut(&mut self.terminated, t, n),
            truncated: row_mut(&mut self.truncated, t, n),
        };
        envs.step(self.actions.row_mut(t, n * self.action_dim).view(), out)?;
        for (place, reward) in row_mut(&mut self.rewards, t, n).iter_mut().zip(&self.step_rewards) {
            *place = single(*reward);
        }
        self.progress.add(&self.step_rewards);
        let ended = envs.finals();
        self.progress.finish(ended.indices, &mut self.episodes);
        self.finals.extend(ended.indices.iter().map(|&env| Final { step: t, env }));
        self.final_obs.extend_from_slice(ended.obs);
        Ok(())
    }

    /// Values of what every step reached.
    fn value_ends(&mut self, policy: &dyn Policy) -> Result<()> {
        let (n, size) = (self.n_envs, self.n_steps * self.n_envs);
        let last = row(&self.obs, self.n_steps, n * self.obs_dim);
        policy.values(last, row_mut(&mut self.values, self.n_steps, n))?;
        self.next_values.copy_from_slice(self.values.get(n..).unwrap_or_default());
        let mut values = vec![0.0; self.finals.len()];
        check_len("final_obs", self.final_obs.len(), values.len() * self.obs_dim, "one per end")?;
        policy.values(&self.final_obs, &mut values)?;
        for (end, value) in self.finals.iter().zip(values) {
            let place = end.step * n + end.env;
            // Terminated ones are worth nothing, whatever their last observation looks like.
            if place < size && self.terminated.get(place) == Some(&false) {
                row_mut(&mut self.next_values, place, 1).fill(value);
            }
        }
        Ok(())
    }

    fn check_finite(&self) -> Result<()> {
        for (name, column) in [
            ("obs", &self.obs),
            ("rewards", &self.rewards),
            ("log_probs", &self.log_probs),
            ("values", &self.values),
            ("next_values", &self.next_values),
        ] {
            if column.iter().fold(true, |all, value| all & value.is_finite()) {
                continue;
            }
            let found = column.iter().enumerate().find(|(_, value)| !value.is_finite());
            if let Some((index, &value)) = found {
                return Err(Error::NonFinite { name: name.into(), index, value: value.into() });
            }
        }
        Ok(())
    }

    fn estimate(&mut self, discount: Discount) -> Result<()> {
        let size = self.n_steps * self.n_envs;
        let input = gae::TimeMajor {
            rewards: &self.rewards,
            values: self.values.get(..size).unwrap_or_default(),
            next: gae::Next::Values(&self.next_values),
            ends: Ends { terminated: &self.terminated, truncated: &self.truncated },
            n_envs: self.n_envs,
        };
        let (advantages, returns) = (&mut self.advantages, &mut self.returns);
        gae::time_major(input, discount, gae::Out { advantages, returns })
    }
}

/// The noise of one step.
fn draw(noise: Noise, stream: &mut Stream, out: &mut [f32]) {
    match noise {
        Noise::Uniform(_) => out.fill_with(|| below_one(stream.uniform())),
        Noise::Normal(_) => stream.fill_normal(out),
    }
}

/// A number in [0, 1) as float32, which would round the largest ones up to 1.
fn below_one(uniform: f64) -> f32 {
    single(uniform).min(1.0 - f32::EPSILON / 2.0)
}

#[expect(clippy::cast_possible_truncation, reason = "columns are float32")]
const fn single(value: f64) -> f32 {
    value as f32
}
