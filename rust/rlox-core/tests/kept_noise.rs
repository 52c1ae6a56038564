//! Policies that act with the same noise for several steps of a rollout.
#![allow(clippy::unwrap_used, clippy::float_cmp, missing_docs)]

use std::num::NonZeroUsize;

use rlox_core::advantage::Discount;
use rlox_core::env::{Seeding, VecEnv};
use rlox_core::policy::{Noise, Policy, PolicyInput, PolicyOutput};
use rlox_core::rollout::Arena;
use rlox_core::seed::Stream;
use rlox_core::{Result, VectorEnv};

/// Always takes the first action, and returns its noise as the log-probability.
struct ConstantPolicy(usize);

impl Policy for ConstantPolicy {
    fn noise(&self) -> Noise {
        Noise::Uniform(1)
    }

    fn steps_per_noise(&self) -> NonZeroUsize {
        NonZeroUsize::new(self.0).unwrap()
    }

    fn act(&self, input: PolicyInput<'_>, out: PolicyOutput<'_>) -> Result<()> {
        out.log_probs.copy_from_slice(input.noise);
        self.values(input.obs, out.values)
    }

    fn values(&self, _obs: &[f32], out: &mut [f32]) -> Result<()> {
        out.fill(0.0);
        Ok(())
    }
}

#[test]
fn noise_is_kept_for_as_many_steps_as_the_policy_asks_from_the_start_of_each_rollout() {
    let (steps, n) = (10, 2);
    for noise_steps in [1, 4, 10, 99] {
        let mut envs = VecEnv::new("CartPole-v1", n, Seeding::Run(1)).unwrap();
        let mut arena = Arena::new(VectorEnv::spec(&envs), steps, n).unwrap();
        for rollout in 0..2 {
            arena
                .collect(&mut envs, &ConstantPolicy(noise_steps), 7, Discount::new(0.9, 0.9).unwrap())
                .unwrap();
            let mut stream = Stream::new(7, "action", rollout);
            let mut noise = [0.0; 2];
            for (t, row) in arena.log_probs().chunks_exact(n).enumerate() {
                if t % noise_steps == 0 {
                    #[expect(clippy::cast_possible_truncation, reason = "columns are float32")]
                    noise.fill_with(|| stream.uniform() as f32);
                }
                assert_eq!(row, noise, "step {t} of rollout {rollout}, kept {noise_steps}");
            }
        }
    }
}
