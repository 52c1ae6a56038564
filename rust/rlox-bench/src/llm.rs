//! Group advantages and token-level KL divergence.

use rlox_core::Result;
use rlox_core::llm::group::{Scale, Scaling, group_advantages};
use rlox_core::llm::kl::{Estimator, Reduction, Tokens, batch_token_kl};
use rlox_core::math::Float;

use crate::inputs::{normal, uniform};
use crate::{Kernel, Work};

/// Groups x completions.
const GROUPS: [(usize, usize); 3] = [(16, 4), (256, 16), (1_024, 32)];
/// Sequences x tokens.
const SEQUENCES: [(usize, usize); 3] = [(1, 128), (1, 8_192), (32, 2_048)];

pub(crate) fn kernels() -> Vec<Kernel> {
    let mut all = Vec::new();
    for (groups, size) in GROUPS {
        let name = format!("group_advantages/f64/{groups}x{size}");
        all.push(Kernel::new(name, groups * size, move || advantages::<f64>(groups * size, size)));
    }
    for (sequences, tokens) in SEQUENCES {
        let (len, size) = (sequences * tokens, format!("{sequences}x{tokens}"));
        for (name, estimator) in [("k3", Estimator::K3), ("exact_kl", Estimator::Exact)] {
            let kernel = move || Ok(kl::<f64>(len, tokens, estimator));
            all.push(Kernel::new(format!("{name}/f64/{size}"), len, kernel));
            let kernel = move || Ok(kl::<f32>(len, tokens, estimator));
            all.push(Kernel::new(format!("{name}/f32/{size}"), len, kernel));
        }
    }
    all
}

fn advantages<F: Float>(len: usize, group_size: usize) -> Result<Work> {
    let rewards: Vec<F> = uniform("rewards", len).into_iter().map(F::from_f64).collect();
    let (scaling, mut out) = (Scaling::new(Scale::Group, 0, 0.0)?, rewards.clone());
    Ok(Box::new(move || group_advantages(&rewards, group_size, scaling, &mut out)))
}

fn kl<F: Float>(len: usize, seq_len: usize, estimator: Estimator) -> Work {
    let policy: Vec<f64> = uniform("policy", len).into_iter().map(|u| (u + 1e-3).ln()).collect();
    let noise = normal("reference", len);
    let log_q: Vec<F> = policy.iter().zip(noise).map(|(p, e)| F::from_f64(p + 0.1 * e)).collect();
    let log_p: Vec<F> = policy.into_iter().map(F::from_f64).collect();
    let mut out: Vec<F> = log_p.iter().copied().take(len / seq_len).collect();
    Box::new(move || {
        let tokens: Tokens<'_, F, bool> = Tokens { log_p: &log_p, log_q: &log_q, mask: None };
        batch_token_kl(tokens, seq_len, estimator, Reduction::Sum, &mut out)
    })
}
