//! V-trace targets and policy-gradient advantages (Espeholt et al. 2018, eq. 1 and section 4.2):
//!
//! ```text
//! rho_t   = min(rho_bar, exp(log_rho_t)),  c_t = lambda min(c_bar, exp(log_rho_t))
//! delta_t = rho_t (r_t + gamma V(s_{t+1}) - V(s_t))
//! vs_t    = V(s_t) + x_t,  x_t = delta_t + gamma c_t x_{t+1}
//! pg_t    = rho_t (r_t + gamma vs_{t+1} - V(s_t))
//! ```
//!
//! After termination V(s_{t+1}), vs_{t+1} and x_{t+1} are 0. After truncation and after the last
//! step vs_{t+1} is V(s_{t+1}) and x_{t+1} is 0. Sums are in float64, ratios in the precision of
//! `log_rhos`. Flags select values as in [`super::gae`], with the same consequences for NaN. A ratio
//! that overflows is infinite and clipped like any other.

use multiversion::multiversion;

use super::gae::NextValueSource;
use super::scan::{BLOCK, Block, solve, solve_step};
use super::{Discount, Ends, Flag};
use crate::error::{Error, Result, check_len};
use crate::interrupt::CheckPace;
use crate::math::Float;

/// Number of steps of a trajectory that are computed together, in scratch arrays on the stack.
const CHUNK: usize = 64;

/// A rollout in time-major order, slices `[T, N]`; a trajectory has N = 1.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a, F, G> {
    /// log pi(a_t | s_t) - log mu(a_t | s_t) of the target policy pi and the behaviour policy mu.
    pub log_rhos: &'a [F],
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

/// Output of the kernel; both slices are as long as the rewards.
pub struct Out<'a, F> {
    /// vs_t (v_s in the paper), the target of the value function.
    pub value_targets: &'a mut [F],
    /// pg_t, the advantage of the policy gradient.
    pub pg_advantages: &'a mut [F],
}

/// The upper bounds rho_bar and c_bar of the ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    rho_bar: f64,
    c_bar: f64,
}

impl Clip {
    /// Returns the bounds after checking their ranges; infinity means no clipping.
    ///
    /// # Errors
    /// [`Error::Config`] unless both are at least 0.
    pub fn new(rho_bar: f64, c_bar: f64) -> Result<Self> {
        for (name, value) in [("rho_bar", rho_bar), ("c_bar", c_bar)] {
            if value.is_nan() || value < 0.0 {
                return Err(Error::config(name, value, "a number of at least 0"));
            }
        }
        Ok(Self { rho_bar, c_bar })
    }
}

/// The contribution of a step: delta_t, gamma c_t and gamma rho_t.
#[derive(Clone, Copy)]
struct Term {
    delta: f64,
    factor: f64,
    weight: f64,
}

/// The settings of a call.
#[derive(Clone, Copy)]
struct Settings {
    gamma: f64,
    decay: f64,
    clip: Clip,
}

impl Settings {
    /// Returns the term of a step; `next` is V(s_{t+1}), 0 after termination.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
    fn term(self, ratio: f64, reward: f64, value: f64, next: f64) -> Term {
        // These comparisons are false for NaN, so that NaN is not clipped away.
        let rho = if ratio > self.clip.rho_bar { self.clip.rho_bar } else { ratio };
        let c = if ratio > self.clip.c_bar { self.clip.c_bar } else { ratio };
        Term {
            delta: rho * (reward + self.gamma * next - value),
            factor: self.decay * c,
            weight: self.gamma * rho,
        }
    }
}

/// Computes V-trace of a `[T, N]` rollout.
///
/// # Errors
/// [`Error::Shape`] if a slice does not fit, [`Error::Config`] for a bootstrap where a step is
/// truncated, [`Error::Interrupted`].
pub fn vtrace<F: Float, G: Flag>(
    input: Input<'_, F, G>,
    discount: Discount,
    clip: Clip,
    out: Out<'_, F>,
) -> Result<()> {
    check(&input, &out)?;
    input.next.check(input.ends)?;
    let settings = Settings { gamma: discount.gamma, decay: discount.decay, clip };
    match input.next {
        _ if input.rewards.is_empty() => Ok(()),
        NextValueSource::Values(next) if input.n_envs == 1 => {
            compute_trajectory::<F, G, false>(input, next, F::ZERO, settings, out)
        }
        NextValueSource::Bootstrap(last) if input.n_envs == 1 => {
            let last = last.first().copied().unwrap_or(F::ZERO);
            compute_trajectory::<F, G, true>(input, input.values, last, settings, out)
        }
        NextValueSource::Values(next) => {
            compute_rows(input, next.chunks_exact(input.n_envs).rev(), settings, out)
        }
        NextValueSource::Bootstrap(last) => {
            let next = input.values.chunks_exact(input.n_envs).rev();
            compute_rows(input, std::iter::once(last).chain(next), settings, out)
        }
    }
}

/// Computes a trajectory in chunks from its end to its start. If `SHIFTED`, `next` is the same as
/// `input.values`: V(s_{t+1}) is the entry after t, and `last` for the last step.
fn compute_trajectory<F: Float, G: Flag, const SHIFTED: bool>(
    input: Input<'_, F, G>,
    next: &[F],
    mut last: F,
    settings: Settings,
    out: Out<'_, F>,
) -> Result<()> {
    let ratios_and_rewards = input.log_rhos.rchunks(CHUNK).zip(input.rewards.rchunks(CHUNK));
    let inputs = ratios_and_rewards.zip(input.values.rchunks(CHUNK).zip(next.rchunks(CHUNK)));
    let ends = input.ends.terminated.rchunks(CHUNK).zip(input.ends.truncated.rchunks(CHUNK));
    let out = out.value_targets.rchunks_mut(CHUNK).zip(out.pg_advantages.rchunks_mut(CHUNK));
    let (mut carry, mut next_values) = (0.0, [F::ZERO; CHUNK]);
    let mut pace = CheckPace::default();
    for ((((log_rhos, rewards), (values, next)), (end, cut)), (vs, pg)) in inputs.zip(ends).zip(out) {
        let source = if SHIFTED { next.get(1..).unwrap_or_default() } else { next };
        for (slot, next) in next_values.iter_mut().zip(source) {
            *slot = *next;
        }
        if let (true, Some(last_value)) = (SHIFTED, next_values.get_mut(source.len())) {
            *last_value = last;
        }
        carry = compute_chunk(log_rhos, rewards, values, &next_values, end, cut, settings, carry, vs, pg);
        last = next.first().copied().unwrap_or(last);
        pace.spend(rewards.len())?;
    }
    Ok(())
}

/// Computes up to [`CHUNK`] steps. Takes x of the step after them, and returns x of the first step.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
#[expect(clippy::too_many_arguments, reason = "separate slices, so that none may alias another")]
fn compute_chunk<F: Float, G: Flag>(
    log_rhos: &[F],
    rewards: &[F],
    values: &[F],
    next: &[F; CHUNK],
    terminated: &[G],
    truncated: &[G],
    settings: Settings,
    next_x: f64,
    vs: &mut [F],
    pg_advantages: &mut [F],
) -> f64 {
    let mut ratios = [F::ZERO; CHUNK];
    for (ratio, log_rho) in ratios.iter_mut().zip(log_rhos) {
        *ratio = log_rho.exp();
    }
    let mut cuts = [true; CHUNK];
    let (mut deltas, mut factors, mut weights) = ([0.0; CHUNK], [0.0; CHUNK], [0.0; CHUNK]);
    for (is_cut, (end, cut)) in cuts.iter_mut().zip(terminated.iter().zip(truncated)) {
        *is_cut = end.is_set() | cut.is_set();
    }
    let step_inputs = ratios.iter().zip(rewards).zip(values.iter().zip(next)).zip(terminated);
    let terms = deltas.iter_mut().zip(factors.iter_mut().zip(&mut weights));
    for ((delta, (factor, weight)), (((ratio, reward), (value, next)), end)) in terms.zip(step_inputs) {
        let next = next.to_f64();
        let next = if end.is_set() { 0.0 } else { next };
        let term = settings.term(ratio.to_f64(), reward.to_f64(), value.to_f64(), next);
        (*delta, *factor, *weight) = (term.delta, term.factor, term.weight);
    }
    let mut xs = deltas;
    let first = solve_chunk(&mut xs, &factors, &cuts, rewards.len(), next_x);
    let mut next_xs = [0.0; CHUNK];
    for (next_x, x) in next_xs.iter_mut().zip(xs.iter().skip(1)) {
        *next_x = *x;
    }
    if let Some(last) = next_xs.get_mut(rewards.len() - 1) {
        *last = next_x;
    }
    for (next_x, cut) in next_xs.iter_mut().zip(&cuts) {
        let x = *next_x;
        *next_x = if *cut { 0.0 } else { x };
    }
    for (vs, (value, x)) in vs.iter_mut().zip(values.iter().zip(&xs)) {
        *vs = F::from_f64(value.to_f64() + x);
    }
    let pg_inputs = deltas.iter().zip(weights.iter().zip(&next_xs));
    for (pg, (delta, (weight, next_x))) in pg_advantages.iter_mut().zip(pg_inputs) {
        *pg = F::from_f64(delta + weight * next_x);
    }
    first
}

/// Writes x of the first `len` steps in place of their deltas; returns x of the first step. Nothing
/// beyond `len` is read.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn solve_chunk(
    deltas: &mut [f64; CHUNK],
    factors: &[f64; CHUNK],
    cuts: &[bool; CHUNK],
    len: usize,
    after: f64,
) -> f64 {
    let mut carry = after;
    let (n_blocks, rest) = (len / BLOCK, len % BLOCK);
    let (blocks, _) = deltas.as_chunks_mut::<BLOCK>();
    let (factors, _) = factors.as_chunks::<BLOCK>();
    let (cuts, _) = cuts.as_chunks::<BLOCK>();
    let mut steps = blocks.iter_mut().zip(factors.iter().zip(cuts)).take(n_blocks + 1);
    if rest > 0
        && let Some((block, (factors, cuts))) = steps.nth(n_blocks)
    {
        for ((x, factor), cut) in block.iter_mut().zip(factors).zip(cuts).take(rest).rev() {
            carry = solve_step(*x, *factor, *cut, carry);
            *x = carry;
        }
    }
    let steps = blocks.iter_mut().zip(factors.iter().zip(cuts)).take(n_blocks);
    for (block, (factors, cuts)) in steps.rev() {
        *block = solve_block(*block, *factors, *cuts, carry);
        [carry, ..] = *block;
    }
    carry
}

/// Returns x of a block's steps.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn solve_block(deltas: Block, factors: Block, cuts: [bool; BLOCK], after: f64) -> Block {
    if cuts == [false; BLOCK] {
        return solve(deltas, factors, after);
    }
    let ([d0, d1, d2, d3], [k0, k1, k2, k3], [c0, c1, c2, c3]) = (deltas, factors, cuts);
    let x3 = solve_step(d3, k3, c3, after);
    let x2 = solve_step(d2, k2, c2, x3);
    let x1 = solve_step(d1, k1, c1, x2);
    [solve_step(d0, k0, c0, x1), x1, x2, x3]
}

/// Computes every row from the last to the first; `reversed_next` has V(s_{t+1}) in that order.
fn compute_rows<'a, F: Float, G: Flag>(
    input: Input<'a, F, G>,
    reversed_next: impl Iterator<Item = &'a [F]>,
    settings: Settings,
    out: Out<'_, F>,
) -> Result<()> {
    let n = input.n_envs;
    let ratios_and_rewards = input.log_rhos.chunks_exact(n).zip(input.rewards.chunks_exact(n));
    let inputs = ratios_and_rewards.zip(input.values.chunks_exact(n)).rev();
    let ends = input.ends.terminated.chunks_exact(n).zip(input.ends.truncated.chunks_exact(n));
    let out = out.value_targets.chunks_exact_mut(n).zip(out.pg_advantages.chunks_exact_mut(n)).rev();
    let (mut carry, mut pace) = (vec![0.0; n], CheckPace::default());
    for (((((log_rhos, rewards), values), next), (end, cut)), (vs, pg)) in
        inputs.zip(reversed_next).zip(ends.rev()).zip(out)
    {
        pace.spend(n)?;
        compute_row(log_rhos, rewards, values, next, end, cut, settings, &mut carry, vs, pg);
    }
    Ok(())
}

/// Computes one time step of all environments.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
#[expect(clippy::too_many_arguments, reason = "separate slices, so that none may alias another")]
fn compute_row<F: Float, G: Flag>(
    log_rhos: &[F],
    rewards: &[F],
    values: &[F],
    next: &[F],
    terminated: &[G],
    truncated: &[G],
    settings: Settings,
    carry: &mut [f64],
    vs: &mut [F],
    pg_advantages: &mut [F],
) {
    let inputs = log_rhos.iter().zip(rewards).zip(values.iter().zip(next));
    let ends = terminated.iter().zip(truncated);
    let out = carry.iter_mut().zip(vs.iter_mut().zip(pg_advantages));
    for ((((log_rho, reward), (value, next)), (end, cut)), (carry, (vs, pg))) in inputs.zip(ends).zip(out) {
        let (end, cut, value, next) = (end.is_set(), cut.is_set(), value.to_f64(), next.to_f64());
        let next = if end { 0.0 } else { next };
        let term = settings.term(log_rho.exp().to_f64(), reward.to_f64(), value, next);
        let next_x = if end | cut { 0.0 } else { *carry };
        *carry = term.delta + term.factor * next_x;
        *vs = F::from_f64(value + *carry);
        *pg = F::from_f64(term.delta + term.weight * next_x);
    }
}

fn check<F: Float, G: Flag>(input: &Input<'_, F, G>, out: &Out<'_, F>) -> Result<()> {
    let (len, n) = (input.rewards.len(), input.n_envs.max(1));
    check_len("rewards", len, len / n * n, "a multiple of n_envs")?;
    let next_len = match input.next {
        NextValueSource::Values(next) => next.len(),
        NextValueSource::Bootstrap(last) => {
            check_len("bootstrap_value", last.len(), input.n_envs, "one per env")?;
            len
        }
    };
    for (name, got) in [
        ("log_rhos", input.log_rhos.len()),
        ("values", input.values.len()),
        ("next_values", next_len),
        ("terminated", input.ends.terminated.len()),
        ("truncated", input.ends.truncated.len()),
        ("vs", out.value_targets.len()),
        ("pg_advantages", out.pg_advantages.len()),
    ] {
        check_len(name, got, len, "as many as rewards")?;
    }
    Ok(())
}
