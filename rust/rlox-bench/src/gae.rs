//! Advantages of one trajectory and of many.

use rlox_core::Result;
use rlox_core::advantage::{Discount, Ends, gae};
use rlox_core::math::Float;

use crate::inputs::{normal, rare_flags};
use crate::{Kernel, Work};

const STEPS: [usize; 3] = [128, 2_048, 32_768];
/// T x N, too small for threads to share the env-major form.
const BATCHES: [(usize, usize); 2] = [(256, 256), (2_048, 256)];

pub(crate) fn kernels() -> Vec<Kernel> {
    let mut all = Vec::new();
    for steps in STEPS {
        let name = format!("gae/trajectory/f64/{steps}");
        all.push(Kernel::new(name, steps, move || trajectory(steps)));
    }
    for (steps, n_envs) in BATCHES {
        let (size, len) = (format!("{steps}x{n_envs}"), steps * n_envs);
        let name = format!("gae/env_major/f32/{size}");
        all.push(Kernel::new(name, len, move || env_major::<f32>(steps, n_envs)));
        let name = format!("gae/time_major/f32/{size}");
        all.push(Kernel::new(name, len, move || time_major::<f32>(steps, n_envs)));
    }
    all
}

fn discount() -> Result<Discount> {
    Discount::new(0.99, 0.95)
}

fn draw<F: Float>(name: &str, len: usize) -> Vec<F> {
    normal(name, len).into_iter().map(F::from_f64).collect()
}

fn trajectory(steps: usize) -> Result<Work> {
    let (rewards, values) = (draw::<f64>("rewards", steps), draw("values", steps));
    let (ends, discount) = (rare_flags("ends", steps), discount()?);
    let (mut advantages, mut returns) = (rewards.clone(), rewards.clone());
    Ok(Box::new(move || {
        let out = gae::Out { advantages: &mut advantages, returns: &mut returns };
        let next = gae::NextValueSource::Bootstrap(0.5);
        gae::trajectory(&rewards, &values, next, Ends::without_truncation(&ends), discount, out)
    }))
}

fn env_major<F: Float>(steps: usize, n_envs: usize) -> Result<Work> {
    let len = steps * n_envs;
    let (rewards, values) = (draw::<F>("rewards", len), draw("values", len));
    let (ends, last, discount) = (rare_flags("ends", len), draw::<F>("last", n_envs), discount()?);
    let (mut advantages, mut returns) = (rewards.clone(), rewards.clone());
    Ok(Box::new(move || {
        let out = gae::Out { advantages: &mut advantages, returns: &mut returns };
        let (next, ends) =
            (gae::NextValueSource::Bootstrap(last.as_slice()), Ends::without_truncation(&ends));
        gae::env_major(&rewards, &values, next, ends, steps, discount, out)
    }))
}

fn time_major<F: Float>(steps: usize, n_envs: usize) -> Result<Work> {
    let len = steps * n_envs;
    let (rewards, values) = (draw::<F>("rewards", len), draw("values", len));
    let (next_values, discount) = (draw::<F>("next values", len), discount()?);
    let (terminated, truncated) = (rare_flags("ends", len), rare_flags("cuts", len));
    let (mut advantages, mut returns) = (rewards.clone(), rewards.clone());
    Ok(Box::new(move || {
        let input = gae::TimeMajor {
            rewards: &rewards,
            values: &values,
            next: gae::NextValueSource::Values(&next_values),
            ends: Ends { terminated: &terminated, truncated: &truncated },
            n_envs,
        };
        let out = gae::Out { advantages: &mut advantages, returns: &mut returns };
        gae::time_major(input, discount, out)
    }))
}
