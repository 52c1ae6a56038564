//! A linear layer, y = x W' + b, with W `[outputs, inputs]` as torch stores it.

use std::ops::Range;

use multiversion::multiversion;
use rlox_core::Result;

use super::gemm::{Addend, Matrix, Number};

/// The largest number of outputs of a layer that is computed by dot products, if its inputs fill
/// vector registers. A matrix product works on blocks of columns, which so few outputs would leave
/// mostly empty.
const MAX_NARROW_OUTPUTS: usize = 3;

/// The number of partial sums of a dot product.
const LANES: usize = 16;

/// The number of columns that are summed over the rows at the same time.
const SUMS: usize = 64;

/// The ranges of a layer's weights and biases in the parameter vector, and its sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dense {
    pub(super) weight: Range<usize>,
    pub(super) bias: Range<usize>,
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

impl Dense {
    const fn is_narrow(&self) -> bool {
        self.outputs <= MAX_NARROW_OUTPUTS && self.inputs >= LANES
    }

    /// Computes `y` `[n, outputs]` from `x` `[n, inputs]`.
    pub(super) fn forward<F: Number>(&self, parameters: &[F], x: &[F], y: &mut [F]) -> Result<()> {
        let (weight, bias) = (part(parameters, &self.weight), part(parameters, &self.bias));
        if self.is_narrow() {
            dots(weight, bias, x, y);
            return Ok(());
        }
        let n = y.len() / self.outputs;
        let weight = Matrix::new(weight, self.outputs, self.inputs).transposed();
        F::multiply(Matrix::new(x, n, self.inputs), weight, Addend::Row(bias), y)
    }

    /// Adds the gradient with respect to weights and biases to `gradient`. `to_y` is the gradient with
    /// respect to `y`.
    pub(super) fn add_gradient<F: Number>(&self, gradient: &mut [F], x: &[F], to_y: &[F]) -> Result<()> {
        add_rows(gradient.get_mut(self.bias.clone()).unwrap_or_default(), to_y);
        let weight_gradient = gradient.get_mut(self.weight.clone()).unwrap_or_default();
        if self.is_narrow() {
            add_outer(weight_gradient, x, to_y, self.outputs);
            return Ok(());
        }
        let n = to_y.len() / self.outputs;
        let to_y = Matrix::new(to_y, n, self.outputs).transposed();
        F::multiply(to_y, Matrix::new(x, n, self.inputs), Addend::Result, weight_gradient)
    }

    /// Computes the gradient with respect to these `columns` of `x` from that with respect to `y`.
    pub(super) fn backward<F: Number>(
        &self,
        parameters: &[F],
        to_y: &[F],
        columns: &Range<usize>,
        to_x: &mut [F],
    ) -> Result<()> {
        let weight = part(parameters, &self.weight);
        if self.is_narrow() {
            input_gradient((weight, self.inputs), to_y, columns, to_x, self.outputs);
            return Ok(());
        }
        let n = to_y.len() / self.outputs;
        let weight = Matrix::of_columns(weight, self.outputs, self.inputs, columns);
        F::multiply(Matrix::new(to_y, n, self.outputs), weight, Addend::Nothing, to_x)
    }
}

fn part<'a, F>(parameters: &'a [F], range: &Range<usize>) -> &'a [F] {
    parameters.get(range.clone()).unwrap_or_default()
}

/// Computes y by dot products of each row of x with each row of the weights.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn dots<F: Number>(weight: &[F], bias: &[F], x: &[F], y: &mut [F]) {
    let inputs = weight.len() / bias.len();
    for (x, y) in x.chunks_exact(inputs).zip(y.chunks_exact_mut(bias.len())) {
        for ((weight, &bias), y) in weight.chunks_exact(inputs).zip(bias).zip(y) {
            let (blocks, rest) = x.as_chunks::<LANES>();
            let (weights, weight_rest) = weight.as_chunks::<LANES>();
            let mut lanes = [F::ZERO; LANES];
            for (x, weight) in blocks.iter().zip(weights) {
                for ((lane, &x), &weight) in lanes.iter_mut().zip(x).zip(weight) {
                    *lane += x * weight;
                }
            }
            let mut width = LANES / 2;
            while width > 0 {
                let (low, high) = lanes.split_at_mut(width);
                for (low, &mut high) in low.iter_mut().zip(high) {
                    *low += high;
                }
                width /= 2;
            }
            let lane_sum = lanes.first().copied().unwrap_or(F::ZERO);
            let tail = rest.iter().zip(weight_rest).fold(F::ZERO, |sum, (&x, &weight)| sum + x * weight);
            *y = bias + lane_sum + tail;
        }
    }
}

/// Adds every row of `rows` to `sums`.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn add_rows<F: Number>(sums: &mut [F], rows: &[F]) {
    let width = sums.len().max(1);
    let (blocks, rest) = sums.as_chunks_mut::<SUMS>();
    let first_of_rest = blocks.len() * SUMS;
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut block_sums = *block; // in registers
        for row in rows.chunks_exact(width) {
            let Some(values) = row.as_chunks::<SUMS>().0.get(i) else { continue };
            for (sum, &value) in block_sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
        *block = block_sums;
    }
    for row in rows.chunks_exact(width) {
        for (sum, &value) in rest.iter_mut().zip(row.get(first_of_rest..).unwrap_or_default()) {
            *sum += value;
        }
    }
}

/// Adds the product of the transposed `to_y` and x to the gradient with respect to the weights.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn add_outer<F: Number>(weight_gradient: &mut [F], x: &[F], to_y: &[F], outputs: usize) {
    let inputs = weight_gradient.len() / outputs;
    for (x, to_y) in x.chunks_exact(inputs).zip(to_y.chunks_exact(outputs)) {
        for (gradient_row, &slope) in weight_gradient.chunks_exact_mut(inputs).zip(to_y) {
            for (sum, &x) in gradient_row.iter_mut().zip(x) {
                *sum += slope * x;
            }
        }
    }
}

/// Computes these columns of `to_y` W. The rows of W have `inputs` numbers.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn input_gradient<F: Number>(
    (weight, inputs): (&[F], usize),
    to_y: &[F],
    columns: &Range<usize>,
    to_x: &mut [F],
    outputs: usize,
) {
    for (to_x, to_y) in to_x.chunks_exact_mut(columns.len().max(1)).zip(to_y.chunks_exact(outputs)) {
        to_x.fill(F::ZERO);
        for (weight, &slope) in weight.chunks_exact(inputs).zip(to_y) {
            let weight = weight.get(columns.clone()).unwrap_or_default();
            for (to_x, &weight) in to_x.iter_mut().zip(weight) {
                *to_x += slope * weight;
            }
        }
    }
}
