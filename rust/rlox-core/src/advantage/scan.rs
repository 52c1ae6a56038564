//! Solves X_t = b_t + k_t X_{t+1} from the end of a trajectory to its start.
//!
//! Step by step, each multiplication and addition would wait for the one before. So a block of
//! steps is first solved as if X were 0 after it, in two rounds of pairs that wait for no other
//! block. Then the true X of the step after the block, times the products of the factors, is added.
//! So only one operation per block waits for the block after it, and a block is one vector.

use crate::math::Float;

/// Number of steps that are solved together.
pub(super) const BLOCK: usize = 4;

/// One number for each step of a block.
pub(super) type Block = [f64; BLOCK];

/// Returns X of the steps of a block in which no episode ends. `offsets` are their b, `factors`
/// their k, and `after` is X of the step after the block.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(super) fn solve(offsets: Block, factors: Block, after: f64) -> Block {
    let [_, b1, b2, b3] = offsets;
    let [_, k1, k2, k3] = factors;
    let pairs = multiply_add(offsets, factors, [b1, b2, b3, 0.0]);
    let products = product(factors, [k1, k2, k3, 1.0]);
    let [_, _, x2, x3] = pairs;
    let [_, _, p2, p3] = products;
    let solved = multiply_add(pairs, products, [x2, x3, 0.0, 0.0]);
    multiply_add(solved, product(products, [p2, p3, 1.0, 1.0]), [after; BLOCK])
}

/// Returns b + k x of each step.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn multiply_add([b0, b1, b2, b3]: Block, [k0, k1, k2, k3]: Block, [x0, x1, x2, x3]: Block) -> Block {
    [b0 + k0 * x0, b1 + k1 * x1, b2 + k2 * x2, b3 + k3 * x3]
}

/// Returns the product of each step.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
fn product([a0, a1, a2, a3]: Block, [b0, b1, b2, b3]: Block) -> Block {
    [a0 * b0, a1 * b1, a2 * b2, a3 * b3]
}

/// Returns X of one step. At a cut, X of the next step (`after`) is not used, so it may be NaN.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(super) fn solve_step(offset: f64, factor: f64, cut: bool, after: f64) -> f64 {
    if cut { offset } else { offset + factor * after }
}

/// Returns the values of a block moved by one step: V(s_{t+1}) of each step. `after` is the value
/// after the last one.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(super) fn shift([_, v1, v2, v3]: Block, after: f64) -> Block {
    [v1, v2, v3, after]
}

/// Returns a block in float64.
#[inline(always)]
#[expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]
pub(super) fn to_f64_block<F: Float>(&[x0, x1, x2, x3]: &[F; BLOCK]) -> Block {
    [x0.to_f64(), x1.to_f64(), x2.to_f64(), x3.to_f64()]
}
