//! V-trace of one trajectory.

use rlox_core::Result;
use rlox_core::advantage::gae::NextValueSource;
use rlox_core::advantage::vtrace::{Clip, Input, Out, vtrace};
use rlox_core::advantage::{Discount, Ends};
use rlox_core::math::Float;

use crate::inputs::{normal, rare_flags};
use crate::{Kernel, Work};

const STEPS: usize = 2_048;

pub(crate) fn kernels() -> Vec<Kernel> {
    vec![
        Kernel::new(format!("vtrace/f64/{STEPS}"), STEPS, trajectory::<f64>),
        Kernel::new(format!("vtrace/f32/{STEPS}"), STEPS, trajectory::<f32>),
    ]
}

fn trajectory<F: Float>() -> Result<Work> {
    let draw = |name| -> Vec<F> { normal(name, STEPS).into_iter().map(F::from_f64).collect() };
    let (log_rhos, rewards, values) = (draw("log rhos"), draw("rewards"), draw("values"));
    let (ends, last) = (rare_flags("ends", STEPS), [F::from_f64(0.5)]);
    let (discount, clip) = (Discount::new(0.99, 1.0)?, Clip::new(1.0, 1.0)?);
    let (mut vs, mut pg_advantages) = (rewards.clone(), rewards.clone());
    Ok(Box::new(move || {
        let input = Input {
            log_rhos: &log_rhos,
            rewards: &rewards,
            values: &values,
            next: NextValueSource::Bootstrap(last.as_slice()),
            ends: Ends::without_truncation(&ends),
            n_envs: 1,
        };
        vtrace(input, discount, clip, Out { value_targets: &mut vs, pg_advantages: &mut pg_advantages })
    }))
}
