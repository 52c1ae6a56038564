//! Activation functions between two layers.

use multiversion::multiversion;
use rlox_core::math::in_place;
use rlox_core::{Error, Result};

use super::gemm::Number;

/// An elementwise function of a hidden layer's outputs, as torch defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// tanh x.
    Tanh,
    /// max(x, 0), with derivative 0 at 0.
    Relu,
    /// x for x above 0, else e^x - 1.
    Elu,
    /// x / (1 + e^-x).
    Silu,
}

/// The number of values that are processed together, in a buffer on the stack.
const BLOCK: usize = 256;

impl Activation {
    /// All activations.
    pub const ALL: [Self; 4] = [Self::Tanh, Self::Relu, Self::Elu, Self::Silu];

    /// Returns the name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tanh => "tanh",
            Self::Relu => "relu",
            Self::Elu => "elu",
            Self::Silu => "silu",
        }
    }

    /// Returns the activation of this name.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names.
    pub fn from_name(name: &str) -> Result<Self> {
        let names = Self::ALL.map(Self::name);
        let result = Self::ALL.into_iter().find(|one| one.name() == name);
        result.ok_or_else(|| Error::unknown_name("activation", name, &names))
    }

    /// Returns whether the derivative cannot be computed from the output, so that the forward pass
    /// must store it.
    pub(super) const fn keeps_slopes(self) -> bool {
        matches!(self, Self::Elu | Self::Silu)
    }

    /// Replaces each of `values` by the function's value. If the activation
    /// [`Activation::keeps_slopes`], it writes the derivatives to `slopes`, unless `slopes` is
    /// empty.
    pub(crate) fn apply<F: Number>(self, values: &mut [F], slopes: &mut [F]) {
        match self {
            Self::Tanh => in_place::tanh(values),
            Self::Relu => relu(values),
            Self::Elu => in_blocks(values, slopes, |values, slopes| {
                slopes.copy_from_slice(values);
                in_place::exp(slopes);
                elu(values, slopes);
            }),
            Self::Silu => in_blocks(values, slopes, |values, slopes| {
                slopes.copy_from_slice(values);
                in_place::sigmoid(slopes);
                silu(values, slopes);
            }),
        }
    }

    /// Multiplies the gradient with respect to the outputs by the derivative, which gives the gradient
    /// with respect to the inputs. The derivative is computed from the outputs, or read from `slopes`.
    pub(super) fn backward<F: Number>(self, gradient: &mut [F], outputs: &[F], slopes: &[F]) {
        match self {
            Self::Tanh => times_tanh_slope(gradient, outputs),
            Self::Relu => times_relu_slope(gradient, outputs),
            Self::Elu | Self::Silu => times(gradient, slopes),
        }
    }
}

/// Calls `work` with blocks of values and of slopes. If `slopes` has another length than `values`,
/// the slopes go to a temporary buffer.
fn in_blocks<F: Number>(values: &mut [F], slopes: &mut [F], work: impl Fn(&mut [F], &mut [F])) {
    if slopes.len() == values.len() {
        for (values, slopes) in values.chunks_mut(BLOCK).zip(slopes.chunks_mut(BLOCK)) {
            work(values, slopes);
        }
        return;
    }
    let mut buffer = [F::ZERO; BLOCK];
    for values in values.chunks_mut(BLOCK) {
        let n = values.len();
        work(values, buffer.get_mut(..n).unwrap_or_default());
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn relu<F: Number>(values: &mut [F]) {
    for value in values {
        *value = if *value < F::ZERO { F::ZERO } else { *value }; // NaN stays NaN, as in torch
    }
}

/// Replaces values by ELU and `exps`, their exponentials, by the derivatives.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn elu<F: Number>(values: &mut [F], exps: &mut [F]) {
    for (value, exp) in values.iter_mut().zip(exps) {
        let below = *value <= F::ZERO;
        let (low, x) = (*exp - F::ONE, *value);
        *value = if below { low } else { x };
        *exp = if below { *exp } else { F::ONE };
    }
}

/// Replaces values x by x s and their sigmoids s by the derivatives s (1 + x (1 - s)).
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn silu<F: Number>(values: &mut [F], sigmoids: &mut [F]) {
    for (value, sigmoid) in values.iter_mut().zip(sigmoids) {
        let (x, s) = (*value, *sigmoid);
        *value = x * s;
        *sigmoid = s * (F::ONE + x * (F::ONE - s));
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn times_tanh_slope<F: Number>(gradient: &mut [F], outputs: &[F]) {
    for (gradient, &y) in gradient.iter_mut().zip(outputs) {
        *gradient = *gradient * (F::ONE - y * y);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn times_relu_slope<F: Number>(gradient: &mut [F], outputs: &[F]) {
    for (gradient, &y) in gradient.iter_mut().zip(outputs) {
        *gradient = if y > F::ZERO { *gradient } else { F::ZERO };
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn times<F: Number>(gradient: &mut [F], slopes: &[F]) {
    for (gradient, &slope) in gradient.iter_mut().zip(slopes) {
        *gradient = *gradient * slope;
    }
}
