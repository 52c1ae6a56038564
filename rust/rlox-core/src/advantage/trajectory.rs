//! The kernel of GAE over one trajectory.

use multiversion::multiversion;

use super::scan::{BLOCK, Block, shift, solve, solve_step, to_f64_block};
use super::{Discount, Flag};
use crate::math::Float;

/// Computes GAE backward: first blocks of [`BLOCK`] steps, then the remaining first steps one by
/// one. If `SHIFTED`, `next` is the same as `values`: V(s_{t+1}) is the entry after t, and `last`
/// for the last step. Takes A of the step after the last one, and returns A of the first step.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
#[expect(clippy::too_many_arguments, reason = "separate slices, so that none may alias another")]
pub(super) fn backward<F: Float, G: Flag, const SHIFTED: bool>(
    rewards: &[F],
    values: &[F],
    next: &[F],
    last: f64,
    next_advantage: f64,
    terminated: &[G],
    truncated: &[G],
    discount: Discount,
    advantages: &mut [F],
    returns: &mut [F],
) -> f64 {
    let (first_rewards, rewards) = rewards.as_rchunks::<BLOCK>();
    let (first_values, values) = values.as_rchunks::<BLOCK>();
    let (first_next, next) = next.as_rchunks::<BLOCK>();
    let (first_terminated, terminated) = terminated.as_rchunks::<BLOCK>();
    let (first_truncated, truncated) = truncated.as_rchunks::<BLOCK>();
    let (first_advantages, advantages) = advantages.as_rchunks_mut::<BLOCK>();
    let (first_returns, returns) = returns.as_rchunks_mut::<BLOCK>();
    let (mut carry, mut last) = (next_advantage, last);
    let blocks = rewards.iter().zip(values).zip(next).zip(terminated).zip(truncated);
    for ((((((reward, value), next), end), cut), advantage), ret) in blocks.zip(advantages).zip(returns).rev()
    {
        let (reward, value, next) = (to_f64_block(reward), to_f64_block(value), to_f64_block(next));
        let next = if SHIFTED { shift(next, last) } else { next };
        let solved = block_advantages((reward, value, next), end, cut, discount, carry);
        [carry, ..] = solved;
        [last, ..] = value;
        for (((advantage, ret), solved), value) in advantage.iter_mut().zip(ret).zip(solved).zip(value) {
            *advantage = F::from_f64(solved);
            *ret = F::from_f64(solved + value);
        }
    }
    let single = first_rewards.iter().zip(first_values).zip(first_next);
    let ends = first_terminated.iter().zip(first_truncated);
    for ((((reward, value), next), (end, cut)), (advantage, ret)) in
        single.zip(ends).zip(first_advantages.iter_mut().zip(first_returns)).rev()
    {
        let value = value.to_f64();
        let next = if SHIFTED { last } else { next.to_f64() };
        let step = (reward.to_f64(), value, next);
        carry = advance(step, end.is_set(), cut.is_set(), discount, carry);
        last = value;
        *advantage = F::from_f64(carry);
        *ret = F::from_f64(carry + value);
    }
    carry
}

/// Returns A_t of a block's steps from (r_t, V(s_t), V(s_{t+1})), the flags, and A of the step
/// after it.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn block_advantages<G: Flag>(
    (reward, value, next): (Block, Block, Block),
    end: &[G; BLOCK],
    cut: &[G; BLOCK],
    discount: Discount,
    next_advantage: f64,
) -> Block {
    if G::any(end) | G::any(cut) {
        // A loop over zipped arrays would go through memory.
        let ([r0, r1, r2, r3], [v0, v1, v2, v3], [n0, n1, n2, n3]) = (reward, value, next);
        let (&[e0, e1, e2, e3], &[c0, c1, c2, c3]) = (end, cut);
        let x3 = advance((r3, v3, n3), e3.is_set(), c3.is_set(), discount, next_advantage);
        let x2 = advance((r2, v2, n2), e2.is_set(), c2.is_set(), discount, x3);
        let x1 = advance((r1, v1, n1), e1.is_set(), c1.is_set(), discount, x2);
        let x0 = advance((r0, v0, n0), e0.is_set(), c0.is_set(), discount, x1);
        return [x0, x1, x2, x3];
    }
    let mut deltas = reward;
    for (delta, (value, next)) in deltas.iter_mut().zip(value.iter().zip(next)) {
        *delta = *delta + discount.gamma * next - value;
    }
    solve(deltas, [discount.decay; BLOCK], next_advantage)
}

/// Returns A_t from (r_t, V(s_t), V(s_{t+1})), the flags, and A_{t+1}.
///
/// It selects instead of multiplying by 0, so that a value after termination may be NaN.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn advance(step: (f64, f64, f64), end: bool, cut: bool, discount: Discount, next_advantage: f64) -> f64 {
    let (reward, value, next) = step;
    let next = if end { 0.0 } else { next };
    solve_step(reward + discount.gamma * next - value, discount.decay, end | cut, next_advantage)
}
