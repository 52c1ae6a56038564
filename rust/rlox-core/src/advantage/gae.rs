//! Generalised advantage estimation (Schulman et al. 2016, eq. 11 to 16), exact at time limits:
//!
//! ```text
//! delta_t = r_t + gamma (1 - terminated_t) V(s_{t+1}) - V(s_t)
//! A_t     = delta_t + gamma lambda (1 - (terminated_t or truncated_t)) A_{t+1}
//! R_t     = A_t + V(s_t)
//! ```
//!
//! [`trajectory`] and [`env_major`] accumulate in float64. [`time_major`] computes the N
//! environments of a step as one vector, in the precision of the arrays. So the layouts
//! round differently: their results differ by about 1e-12 in float64, and in float32 by about 1e-6 of the
//! largest value. Flags
//! select values and never multiply them by 0. So no value beyond an episode's end, not even NaN,
//! reaches the steps before it. A NaN or infinity elsewhere spoils its own step and the earlier
//! steps of the same episode.

use multiversion::multiversion;

use super::scan::BLOCK;
use super::trajectory::backward;
use super::{Discount, Ends, Flag};
use crate::error::{Error, Result, check_len};
use crate::interrupt::{self, CheckPace, PIECE, SHARED_PIECE};
use crate::math::Float;
use crate::threads;

/// [`env_major`] uses several threads from this number of steps on.
pub const PARALLEL_FROM: usize = 1 << 17;

/// Approximate number of steps that a thread takes at once.
const STEPS_PER_TASK: usize = 1 << 13;

/// The source of V(s_{t+1}).
#[derive(Debug, Clone, Copy)]
pub enum NextValueSource<'a, F, L> {
    /// The value of the state that each step reached; as many values as rewards. After truncation it
    /// is the value of the final observation, never that of the reset state. It is ignored after
    /// termination.
    Values(&'a [F]),
    /// `values[t + 1]`, and for the last step this value. It is an error if a step is truncated,
    /// because `values[t + 1]` is then the value of the reset state.
    Bootstrap(L),
}

/// Number of flags that are checked together.
const FLAG_BLOCK: usize = 64;

impl<F, L> NextValueSource<'_, F, L> {
    /// Checks that no bootstrap follows a truncated step.
    ///
    /// # Errors
    /// [`Error::Config`] for a bootstrap of an episode that is truncated and not terminated.
    pub(super) fn check<G: Flag>(&self, ends: Ends<'_, G>) -> Result<()> {
        if let Self::Values(_) = self {
            return Ok(());
        }
        for (block, (cut, end)) in
            ends.truncated.chunks(FLAG_BLOCK).zip(ends.terminated.chunks(FLAG_BLOCK)).enumerate()
        {
            if cut.first_chunk::<FLAG_BLOCK>().is_some_and(|cut| !G::any(cut)) {
                continue;
            }
            if let Some(at) = cut.iter().zip(end).position(|(cut, end)| cut.is_set() && !end.is_set()) {
                let got = format!("set at flat index {}", block * FLAG_BLOCK + at);
                let expected = "no truncated step unless you give the value of each step's next state, \
                                which after a truncated step is the value of its final observation";
                return Err(Error::config("truncated", got, expected));
            }
        }
        Ok(())
    }
}

/// Output of a kernel; both slices are as long as the rewards.
pub struct Out<'a, F> {
    /// A_t.
    pub advantages: &'a mut [F],
    /// R_t = A_t + V(s_t), the target of the value function.
    pub returns: &'a mut [F],
}

/// A rollout in time-major order; slices are `[T, N]`.
#[derive(Debug, Clone, Copy)]
pub struct TimeMajor<'a, F, G> {
    /// r_t.
    pub rewards: &'a [F],
    /// V(s_t).
    pub values: &'a [F],
    /// V(s_{t+1}), `[T, N]`; or the value after the last step of each environment, `[N]`.
    pub next: NextValueSource<'a, F, &'a [F]>,
    /// Where episodes end.
    pub ends: Ends<'a, G>,
    /// N.
    pub n_envs: usize,
}

/// Computes GAE of one trajectory; all slices are `[T]`.
///
/// # Errors
/// [`Error::Shape`] if a slice is not as long as `rewards`, [`Error::Config`] for a bootstrap where
/// a step is truncated, [`Error::Interrupted`].
pub fn trajectory<F: Float, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: NextValueSource<'_, F, f64>,
    ends: Ends<'_, G>,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    let next_len = match next {
        NextValueSource::Values(next) => next.len(),
        NextValueSource::Bootstrap(_) => rewards.len(),
    };
    check_lengths(rewards.len(), values, next_len, ends, &out)?;
    next.check(ends)?;
    compute_trajectory(rewards, values, next, ends, discount, out)
}

/// Computes GAE of N trajectories of T steps, one after the other. All slices are `[N * T]`; a
/// bootstrap is `[N]`.
///
/// # Errors
/// [`Error::Shape`] if a slice does not fit, [`Error::Config`] for a bootstrap where a step is
/// truncated, [`Error::Interrupted`].
pub fn env_major<F: Float, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: NextValueSource<'_, F, &[F]>,
    ends: Ends<'_, G>,
    n_steps: usize,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    let n_envs = rewards.len() / n_steps.max(1);
    check_len("rewards", rewards.len(), n_envs * n_steps, "a multiple of n_steps")?;
    let next_len = match next {
        NextValueSource::Values(next) => next.len(),
        NextValueSource::Bootstrap(last) => {
            check_len("last_values", last.len(), n_envs, "one per env")?;
            rewards.len()
        }
    };
    check_lengths(rewards.len(), values, next_len, ends, &out)?;
    next.check(ends)?;
    let step_range = |env: usize| env * n_steps..(env + 1) * n_steps;
    let compute_env = |env: usize, out: Out<'_, F>| {
        let next = match next {
            NextValueSource::Values(next) => NextValueSource::Values(slice_range(next, step_range(env))),
            NextValueSource::Bootstrap(last) => {
                NextValueSource::Bootstrap(last.get(env).copied().map_or(0.0, Float::to_f64))
            }
        };
        let ends = Ends {
            terminated: slice_range(ends.terminated, step_range(env)),
            truncated: slice_range(ends.truncated, step_range(env)),
        };
        compute_trajectory(
            slice_range(rewards, step_range(env)),
            slice_range(values, step_range(env)),
            next,
            ends,
            discount,
            out,
        )
    };
    let envs_per_task = if rewards.len() >= PARALLEL_FROM { STEPS_PER_TASK / n_steps.max(1) } else { n_envs };
    let envs_per_round = (SHARED_PIECE / n_steps.max(1)).max(threads::count());
    let piece_len = envs_per_round.saturating_mul(n_steps).max(1);
    let pieces = out.advantages.chunks_mut(piece_len).zip(out.returns.chunks_mut(piece_len));
    for (first, (advantages, returns)) in (0..).step_by(envs_per_round).zip(pieces) {
        interrupt::check()?;
        let out = Out { advantages, returns };
        for_each_env(out, first, envs_per_round.min(n_envs - first), envs_per_task.max(1), &compute_env)?;
    }
    Ok(())
}

/// Calls `compute_env` for each of `n` environments from `first` on. A task of a thread has at most
/// `envs_per_task` of them.
fn for_each_env<F: Float>(
    out: Out<'_, F>,
    first: usize,
    n: usize,
    envs_per_task: usize,
    compute_env: &(impl Fn(usize, Out<'_, F>) -> Result<()> + Sync),
) -> Result<()> {
    let n_steps = (out.advantages.len() / n.max(1)).max(1);
    if n <= envs_per_task {
        let rows = out.advantages.chunks_mut(n_steps).zip(out.returns.chunks_mut(n_steps));
        for (env, (advantages, returns)) in (first..).zip(rows) {
            compute_env(env, Out { advantages, returns })?;
        }
        return Ok(());
    }
    let half = n / 2;
    let (advantages, right_advantages) = out.advantages.split_at_mut(half * n_steps);
    let (returns, right_returns) = out.returns.split_at_mut(half * n_steps);
    let left = Out { advantages, returns };
    let right = Out { advantages: right_advantages, returns: right_returns };
    let (left, right) = threads::join(
        || for_each_env(left, first, half, envs_per_task, compute_env),
        || for_each_env(right, first + half, n - half, envs_per_task, compute_env),
    );
    left.and(right)
}

/// Computes GAE of a `[T, N]` rollout, vectorised over environments.
///
/// # Errors
/// [`Error::Shape`] if a slice does not fit, [`Error::Config`] for a bootstrap where a step is
/// truncated, [`Error::Interrupted`].
pub fn time_major<F: Float, G: Flag>(
    input: TimeMajor<'_, F, G>,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    let (len, n) = (input.rewards.len(), input.n_envs.max(1));
    check_len("rewards", len, len / n * n, "a multiple of n_envs")?;
    let next_len = match input.next {
        NextValueSource::Values(next) => next.len(),
        NextValueSource::Bootstrap(last) => {
            check_len("last_values", last.len(), input.n_envs, "one per env")?;
            len
        }
    };
    check_lengths(len, input.values, next_len, input.ends, &out)?;
    input.next.check(input.ends)?;
    match input.next {
        NextValueSource::Values(next) => compute_rows(input, next.chunks_exact(n).rev(), n, discount, out),
        NextValueSource::Bootstrap(last) => {
            let next = input.values.chunks_exact(n).rev();
            compute_rows(input, std::iter::once(last).chain(next), n, discount, out)
        }
    }
}

/// Computes every row from the last to the first; `reversed_next` has V(s_{t+1}) in that order.
fn compute_rows<'a, F: Float, G: Flag>(
    input: TimeMajor<'a, F, G>,
    reversed_next: impl Iterator<Item = &'a [F]>,
    n: usize,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    let Ends { terminated, truncated } = input.ends;
    let inputs = input.rewards.chunks_exact(n).zip(input.values.chunks_exact(n)).rev();
    let ends = terminated.chunks_exact(n).zip(truncated.chunks_exact(n)).rev();
    let out = out.advantages.chunks_exact_mut(n).zip(out.returns.chunks_exact_mut(n)).rev();
    let zeros = vec![F::ZERO; n];
    let mut next_advantages: &[F] = &zeros;
    let mut pace = CheckPace::default();
    for ((((rewards, values), next), (end, cut)), (advantages, returns)) in
        inputs.zip(reversed_next).zip(ends).zip(out)
    {
        pace.spend(n)?;
        compute_row(rewards, values, next, end, cut, discount, next_advantages, advantages, returns);
        next_advantages = advantages;
    }
    Ok(())
}

/// Computes one time step of all environments, from the advantages of the step after it.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
#[expect(clippy::too_many_arguments, reason = "separate slices, so that none may alias another")]
fn compute_row<F: Float, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: &[F],
    terminated: &[G],
    truncated: &[G],
    discount: Discount,
    next_advantages: &[F],
    advantages: &mut [F],
    returns: &mut [F],
) {
    let (gamma, decay) = (F::from_f64(discount.gamma), F::from_f64(discount.decay));
    let inputs = rewards.iter().zip(values.iter().zip(next));
    let ends = terminated.iter().zip(truncated);
    let out = next_advantages.iter().zip(advantages.iter_mut().zip(returns));
    for (((reward, (value, next)), (end, cut)), (next_advantage, (advantage, ret))) in
        inputs.zip(ends).zip(out)
    {
        // Like `advance`, this selects and does not multiply by 0. It reads the values first, so
        // that the loop has no branch and becomes vector code.
        let (end, cut, next, next_advantage) = (end.is_set(), cut.is_set(), *next, *next_advantage);
        let next = if end { F::ZERO } else { next };
        let next_advantage = if end | cut { F::ZERO } else { next_advantage };
        *advantage = (*reward + gamma * next - *value) + decay * next_advantage;
        *ret = *advantage + *value;
    }
}

/// Computes one trajectory from its end to its start.
fn compute_trajectory<F: Float, G: Flag>(
    rewards: &[F],
    values: &[F],
    next: NextValueSource<'_, F, f64>,
    ends: Ends<'_, G>,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    match next {
        NextValueSource::Values(next) => {
            compute_pieces::<F, G, false>(rewards, values, next, 0.0, ends, discount, out)
        }
        NextValueSource::Bootstrap(last) => {
            compute_pieces::<F, G, true>(rewards, values, values, last, ends, discount, out)
        }
    }
}

/// Calls [`backward`] for one piece after the other, from the last to the first.
fn compute_pieces<F: Float, G: Flag, const SHIFTED: bool>(
    rewards: &[F],
    values: &[F],
    next: &[F],
    mut last: f64,
    ends: Ends<'_, G>,
    discount: Discount,
    out: Out<'_, F>,
) -> Result<()> {
    // A piece has whole blocks, counted from the end, so the blocks are the same as without pieces.
    const { assert!(PIECE.is_multiple_of(BLOCK)) }
    let inputs = rewards.rchunks(PIECE).zip(values.rchunks(PIECE)).zip(next.rchunks(PIECE));
    let ends = ends.terminated.rchunks(PIECE).zip(ends.truncated.rchunks(PIECE));
    let out = out.advantages.rchunks_mut(PIECE).zip(out.returns.rchunks_mut(PIECE));
    let (mut next_advantage, mut pace) = (0.0, CheckPace::default());
    for ((((rewards, values), next), (end, cut)), (advantages, returns)) in inputs.zip(ends).zip(out) {
        next_advantage = backward::<F, G, SHIFTED>(
            rewards,
            values,
            next,
            last,
            next_advantage,
            end,
            cut,
            discount,
            advantages,
            returns,
        );
        last = values.first().map_or(last, |value| value.to_f64());
        pace.spend(rewards.len())?;
    }
    Ok(())
}

fn slice_range<T>(all: &[T], part: std::ops::Range<usize>) -> &[T] {
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
