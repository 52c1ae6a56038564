//! Returns that combine rewards with the values of later states.
//!
//! Both functions bootstrap with V(s_{t+1}) where an episode is truncated and after the last step,
//! and do not bootstrap after termination. They read nothing beyond an episode's end, NaN included.
//! Sums are in float64.

use super::{Discount, Ends, Flag};
use crate::error::{Error, Result, check_len};
use crate::interrupt::CheckPace;
use crate::math::Float;

/// A rollout in time-major order, slices `[T, N]`; a trajectory has N = 1.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a, F, G> {
    /// r_t.
    pub rewards: &'a [F],
    /// V(s_{t+1}) of the state that each step reached; ignored after termination.
    pub next_values: &'a [F],
    /// Where episodes end.
    pub ends: Ends<'a, G>,
    /// N.
    pub n_envs: usize,
}

/// Computes lambda-returns (Sutton and Barto 2018, eq. 12.3, in the recursive form of Hafner et al.
/// 2020, eq. 6), `[T, N]`:
///
/// ```text
/// G_t = r_t + gamma ((1 - lambda) V(s_{t+1}) + lambda G_{t+1})
/// ```
///
/// After truncation and after the last step, V(s_{t+1}) replaces G_{t+1}. After termination both
/// are 0.
///
/// # Errors
/// [`Error::Shape`] if a slice does not fit, [`Error::Interrupted`].
pub fn lambda_returns<F: Float, G: Flag>(
    input: Input<'_, F, G>,
    discount: Discount,
    out: &mut [F],
) -> Result<()> {
    check(&input, out)?;
    let n = input.n_envs.max(1);
    let bootstrap = discount.gamma * (1.0 - discount.lam);
    let (mut next_returns, mut pace) = (None::<Vec<f64>>, CheckPace::default());
    let inputs = input.rewards.chunks_exact(n).zip(input.next_values.chunks_exact(n));
    let ends = input.ends.terminated.chunks_exact(n).zip(input.ends.truncated.chunks_exact(n));
    for (((rewards, next), (end, cut)), out) in inputs.zip(ends).zip(out.chunks_exact_mut(n)).rev() {
        pace.spend(n)?;
        let next_returns =
            next_returns.get_or_insert_with(|| next.iter().map(|next| next.to_f64()).collect());
        let row_inputs = rewards.iter().zip(next).zip(end.iter().zip(cut));
        for (((reward, next), (end, cut)), (next_return, out)) in
            row_inputs.zip(next_returns.iter_mut().zip(out))
        {
            let (end, cut, next) = (end.is_set(), cut.is_set(), next.to_f64());
            let rest = if cut { next } else { *next_return };
            let (next, rest) = if end { (0.0, 0.0) } else { (next, rest) };
            *next_return = reward.to_f64() + (bootstrap * next + discount.decay * rest);
            *out = F::from_f64(*next_return);
        }
    }
    Ok(())
}

/// Computes n-step returns (Sutton and Barto 2018, eq. 7.1), `[T, N]`:
///
/// ```text
/// G_t = r_t + ... + gamma^(m-1) r_{t+m-1} + gamma^m V(s_{t+m})
/// ```
///
/// with m = n, or fewer where the episode or the rollout ends first. Time and memory are
/// proportional to T for any n.
///
/// # Errors
/// [`Error::Config`] unless n is at least 1 and gamma in [0, 1]; [`Error::Shape`] if a slice does
/// not fit; [`Error::Interrupted`].
pub fn n_step_returns<F: Float, G: Flag>(
    input: Input<'_, F, G>,
    n: usize,
    gamma: f64,
    out: &mut [F],
) -> Result<()> {
    check(&input, out)?;
    let gamma = Discount::new(gamma, 1.0)?.gamma;
    if n == 0 {
        return Err(Error::config("n", n, "at least 1"));
    }
    let n_envs = input.n_envs.max(1);
    let n = n.min(input.rewards.len() / n_envs).max(1);
    let powers: Vec<f64> =
        std::iter::successors(Some(1.0), |power| Some(power * gamma)).take(n + 1).collect();
    let mut steps = Vec::with_capacity(input.rewards.len() / n_envs);
    let mut pace = CheckPace::default();
    for env in 0..n_envs.min(input.rewards.len()) {
        steps.clear();
        steps.extend(env_steps(&input, env, n_envs));
        pace.spend(steps.len())?;
        accumulate(&mut steps, &powers, n);
        for (t, out) in out.iter_mut().skip(env).step_by(n_envs).enumerate() {
            pace.spend(1)?;
            *out = F::from_f64(window_return(&steps, &powers, n, t));
        }
    }
    Ok(())
}

/// One step of a trajectory. The steps are divided into blocks of n. So a window of n steps is the
/// rest of one block and the start of the next. Its sum is one addition for any n, without a
/// subtraction.
#[derive(Clone, Copy)]
struct Step {
    reward: f64,
    /// V(s_{t+1}), 0 after termination.
    next: f64,
    is_end: bool,
    /// Sum of the discounted rewards from the first step of this block to this step.
    prefix: f64,
    /// Sum of the discounted rewards from this step to the last of this block, or to the first end
    /// of an episode if that comes before.
    suffix: f64,
    /// Index of the first step, from this one on, that ends an episode or the trajectory.
    first_end: usize,
}

/// Returns the steps of one environment.
fn env_steps<'a, F: Float, G: Flag>(
    input: &Input<'a, F, G>,
    env: usize,
    n_envs: usize,
) -> impl Iterator<Item = Step> + use<'a, F, G> {
    let inputs = input.rewards.iter().zip(input.next_values);
    let flags = input.ends.terminated.iter().zip(input.ends.truncated);
    inputs.zip(flags).skip(env).step_by(n_envs).map(|((reward, next), (end, cut))| Step {
        reward: reward.to_f64(),
        next: if end.is_set() { 0.0 } else { next.to_f64() },
        is_end: end.is_set() | cut.is_set(),
        prefix: 0.0,
        suffix: 0.0,
        first_end: 0,
    })
}

/// Fills in `prefix`, `suffix` and `first_end`.
fn accumulate(steps: &mut [Step], powers: &[f64], n: usize) {
    let gamma = powers.get(1).copied().unwrap_or(0.0);
    let mut end = steps.len().saturating_sub(1);
    for (t, step) in steps.iter_mut().enumerate().rev() {
        end = if step.is_end { t } else { end };
        step.first_end = end;
    }
    for block in steps.chunks_mut(n) {
        let mut sum = 0.0;
        for (step, power) in block.iter_mut().zip(powers) {
            sum += power * step.reward;
            step.prefix = sum;
        }
        let mut sum = 0.0;
        for step in block.iter_mut().rev() {
            sum = if step.is_end { step.reward } else { step.reward + gamma * sum };
            step.suffix = sum;
        }
    }
}

/// Returns the return of the window that starts at `t`.
fn window_return(steps: &[Step], powers: &[f64], n: usize, t: usize) -> f64 {
    let power = |k: usize| powers.get(k).copied().unwrap_or(0.0);
    let Some(first) = steps.get(t) else { return 0.0 };
    let stop = first.first_end.min(t + (n - 1));
    let Some(last) = steps.get(stop) else { return 0.0 };
    let next_block = (t / n + 1) * n;
    let rewards =
        if stop < next_block { first.suffix } else { first.suffix + power(next_block - t) * last.prefix };
    rewards + power(stop + 1 - t) * last.next
}

fn check<F: Float, G: Flag>(input: &Input<'_, F, G>, out: &[F]) -> Result<()> {
    let (len, n) = (input.rewards.len(), input.n_envs.max(1));
    check_len("rewards", len, len / n * n, "a multiple of n_envs")?;
    for (name, got) in [
        ("next_values", input.next_values.len()),
        ("terminated", input.ends.terminated.len()),
        ("truncated", input.ends.truncated.len()),
        ("returns", out.len()),
    ] {
        check_len(name, got, len, "as many as rewards")?;
    }
    Ok(())
}
