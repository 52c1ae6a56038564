//! Generalised advantage estimation (Schulman et al. 2016, eq. 11 to 16), exact at time limits:
//!
//! ```text
//! delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t)
//! A_t     = delta_t + gamma lambda (1 - (terminated_t or truncated_t)) A_{t+1}
//! R_t     = A_t + V(s_t)
//! ```
//!
//! One step function serves all layouts, so they agree bit for bit.

use multiversion::multiversion;
use rayon::prelude::*;

use super::{Discount, Ends, Flag, Real};
use crate::error::{Result, check_len};

/// From this many steps on, [`env_major`] spreads environments over rayon's threads.
pub const PARALLEL_FROM: usize = 1 << 17;

/// Where V(s_{t+1}) comes from.
#[derive(Debug, Clone, Copy)]
pub enum Next<'a, F, L> {
    /// The value of the state each step reached, as long as the rewards: the final observation's
    /// value after truncation, never the reset state's. Ignored after termination.
    Values(&'a [F]),
    /// `values[t + 1]`, and this after the last step. Right only where no step is truncated.
    Bootstrap(L),
}

/// Where a kernel writes; both as long as the rewards.
pub struct Out<'a, F> {
    /// A_t.
    pub advantages: &'a mut [F],
    /// R_t = A_t + V(s_t), the target of the value function.
    pub returns: &'a mut [F],
}

/// A rollout in time-major order; every slice is `[T, N]`.
#[derive(Debug, Clone, Copy)]
pub struct TimeMajor<'a, F, G> {
    /// r_t.
    pub rewards: &'a [F],
    /// V(s_t).
    pub values: &'a [F],
    /// V(s_{t+1}) of the state the step reached; ignored after termination.
    pub next_values: &'a [F],
    /// Where episodes end.
    pub ends: Ends<'a, G>,
    /// N.
    pub n_envs: usize,
}

/// GAE of one trajectory, all slices `[T]`.
///
/// # Errors
/// [`crate::Error::Shape`] if a slice is not as long as `rewards`.
pub fn trajectory<F: Real, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: Next<'_, F, f64>,
    ends: Ends<'_, G>,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    let next_len = match next {
        Next::Values(next) => next.len(),
        Next::Bootstrap(_) => rewards.len(),
    };
    check_lengths(rewards.len(), values, next_len, ends, &out)?;
    scan(rewards, values, next, ends, discount, out);
    Ok(())
}

/// GAE of N trajectories of T steps one after the other, all slices `[N * T]`; a bootstrap is `[N]`.
///
/// # Errors
/// [`crate::Error::Shape`] if a slice does not fit.
pub fn env_major<F: Real, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: Next<'_, F, &[F]>,
    ends: Ends<'_, G>,
    n_steps: usize,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    let n_envs = rewards.len() / n_steps.max(1);
    check_len("rewards", rewards.len(), n_envs * n_steps, "a multiple of n_steps")?;
    let next_len = match next {
        Next::Values(next) => next.len(),
        Next::Bootstrap(last) => {
            check_len("last_values", last.len(), n_envs, "one per env")?;
            rewards.len()
        }
    };
    check_lengths(rewards.len(), values, next_len, ends, &out)?;
    let part = |env: usize| env * n_steps..(env + 1) * n_steps;
    let one = |(env, (advantages, returns)): (usize, (&mut [F], &mut [F]))| {
        let next = match next {
            Next::Values(next) => Next::Values(cut(next, part(env))),
            Next::Bootstrap(last) => {
                Next::Bootstrap(last.get(env).copied().map_or(0.0, Real::to_f64))
            }
        };
        let ends = Ends {
            terminated: cut(ends.terminated, part(env)),
            truncated: cut(ends.truncated, part(env)),
        };
        let out = Out { advantages, returns };
        scan(cut(rewards, part(env)), cut(values, part(env)), next, ends, discount, out);
    };
    let rows = n_steps.max(1);
    if rewards.len() >= PARALLEL_FROM {
        let out = (out.advantages.par_chunks_mut(rows), out.returns.par_chunks_mut(rows));
        out.into_par_iter().enumerate().for_each(one);
    } else {
        out.advantages.chunks_mut(rows).zip(out.returns.chunks_mut(rows)).enumerate().for_each(one);
    }
    Ok(())
}

/// GAE of a `[T, N]` rollout, vectorised over environments.
///
/// # Errors
/// [`crate::Error::Shape`] if a slice does not fit.
pub fn time_major<F: Real, G: Flag>(
    input: TimeMajor<'_, F, G>,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    let (len, n) = (input.rewards.len(), input.n_envs.max(1));
    check_len("rewards", len, len / n * n, "a multiple of n_envs")?;
    check_lengths(len, input.values, input.next_values.len(), input.ends, &out)?;
    let mut carry = vec![0.0; n];
    let steps = input
        .rewards
        .chunks_exact(n)
        .zip(input.values.chunks_exact(n).zip(input.next_values.chunks_exact(n)))
        .zip(input.ends.terminated.chunks_exact(n).zip(input.ends.truncated.chunks_exact(n)))
        .zip(out.advantages.chunks_exact_mut(n).zip(out.returns.chunks_exact_mut(n)));
    for (((rewards, (values, next)), (terminated, truncated)), (advantages, returns)) in steps.rev()
    {
        let ends = Ends { terminated, truncated };
        sweep(rewards, values, next, ends, discount, &mut carry, Out { advantages, returns });
    }
    Ok(())
}

/// One time step of all environments.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
fn sweep<F: Real, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: &[F],
    ends: Ends<'_, G>,
    discount: Discount,
    carry: &mut [f64],
    out: Out<'_, F>,
) {
    let given = rewards.iter().zip(values.iter().zip(next));
    let ends = ends.terminated.iter().zip(ends.truncated);
    let out = carry.iter_mut().zip(out.advantages.iter_mut().zip(out.returns));
    for (((reward, (value, next)), (end, cut)), (carry, (advantage, ret))) in
        given.zip(ends).zip(out)
    {
        let value = value.to_f64();
        let step = (reward.to_f64(), value, next.to_f64());
        *carry = advance(step, end.is_set(), cut.is_set(), discount, *carry);
        *advantage = F::from_f64(*carry);
        *ret = F::from_f64(*carry + value);
    }
}

/// One trajectory from its end to its start.
fn scan<F: Real, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: Next<'_, F, f64>,
    ends: Ends<'_, G>,
    discount: Discount,
    out: Out<'_, F>,
) {
    match next {
        Next::Values(next) => {
            backward(rewards, values, next.iter().rev().copied(), ends, discount, out);
        }
        Next::Bootstrap(last) => {
            let last = std::iter::once(F::from_f64(last));
            let next = last.chain(values.iter().rev().copied());
            backward(rewards, values, next, ends, discount, out);
        }
    }
}

/// The recursion, with V(s_{t+1}) coming in reversed order.
#[inline]
fn backward<F: Real, G: Flag>(
    rewards: &[F],
    values: &[F],
    reversed_next: impl Iterator<Item = F>,
    ends: Ends<'_, G>,
    discount: Discount,
    out: Out<'_, F>,
) {
    let given = rewards.iter().rev().zip(values.iter().rev()).zip(reversed_next);
    let ends = ends.terminated.iter().rev().zip(ends.truncated.iter().rev());
    let out = out.advantages.iter_mut().rev().zip(out.returns.iter_mut().rev());
    let mut carry = 0.0;
    for ((((reward, value), next), (end, cut)), (advantage, ret)) in given.zip(ends).zip(out) {
        let value = value.to_f64();
        let step = (reward.to_f64(), value, next.to_f64());
        carry = advance(step, end.is_set(), cut.is_set(), discount, carry);
        *advantage = F::from_f64(carry);
        *ret = F::from_f64(carry + value);
    }
}

/// A_t from (r_t, V(s_t), V(s_{t+1})), the flags, and A_{t+1}.
///
/// Selects instead of multiplying by 0, so that a value after termination may be NaN.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn advance(step: (f64, f64, f64), end: bool, cut: bool, discount: Discount, after: f64) -> f64 {
    let (reward, value, next) = step;
    let next = if end { 0.0 } else { next };
    let after = if end | cut { 0.0 } else { after };
    (reward + discount.gamma * next - value) + discount.decay * after
}

fn cut<T>(all: &[T], part: std::ops::Range<usize>) -> &[T] {
    all.get(part).unwrap_or_default()
}

fn check_lengths<F, G: Flag>(
    len: usize,
    values: &[F],
    next_len: usize,
    ends: Ends<'_, G>,
    out: &Out<'_, F>,
) -> Result<()> {
    for (name, got) in [
        ("values", values.len()),
        ("next_values", next_len),
        ("terminated", ends.terminated.len()),
        ("truncated", ends.truncated.len()),
        ("advantages", out.advantages.len()),
        ("returns", out.returns.len()),
    ] {
        check_len(name, got, len, "as many as rewards")?;
    }
    Ok(())
}
