//! What a step does with the gradients: Adam and RMSprop as torch has them, and what follows slowly.

use multiversion::multiversion;
use rlox_core::error::{Result, check_len};

use super::gemm::Number;

/// Numbers that are added up side by side.
const LANES: usize = 8;

/// Adam (Kingma & Ba 2015, algorithm 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// Of the first moments and of the second ones.
    pub betas: (f64, f64),
    /// Added to the root.
    pub eps: f64,
}

/// Parameters and what Adam knows of each, in vectors of the same length.
#[derive(Debug)]
pub struct Moving<'a, F> {
    /// What is learned.
    pub parameters: &'a mut [F],
    /// First moments.
    pub exp_avg: &'a mut [F],
    /// Second moments.
    pub exp_avg_sq: &'a mut [F],
    /// Steps so far.
    pub steps: &'a mut u64,
}

impl Adam {
    /// With beta 0.9 and 0.999.
    #[must_use]
    pub const fn new(eps: f64) -> Self {
        Self { betas: (0.9, 0.999), eps }
    }

    /// One step along `gradient`.
    ///
    /// # Errors
    /// For slices of other lengths.
    pub fn step<F: Number>(
        &self,
        moving: &mut Moving<'_, F>,
        gradient: &[F],
        lr: f64,
    ) -> Result<()> {
        let Moving { parameters, exp_avg, exp_avg_sq, steps } = moving;
        same(parameters.len(), gradient.len(), exp_avg.len())?;
        check_len("second moments", exp_avg_sq.len(), exp_avg.len(), "as the first")?;
        **steps += 1;
        #[expect(clippy::cast_precision_loss, reason = "2^53 steps outlast any run")]
        let power = |beta: f64| 1.0 - beta.powf(**steps as f64);
        let of = F::from_f64;
        let scales = Scales {
            keep: (of(self.betas.0), of(self.betas.1)),
            take: (of(1.0 - self.betas.0), of(1.0 - self.betas.1)),
            size: of(lr / power(self.betas.0)),
            root: of(power(self.betas.1).sqrt()),
            eps: of(self.eps),
        };
        adam(scales, parameters, gradient, exp_avg, exp_avg_sq);
        Ok(())
    }
}

/// RMSprop without momentum (Tieleman & Hinton 2012).
#[derive(Debug, Clone, PartialEq)]
pub struct RmsProp<F> {
    /// What of the mean of squares is kept in a step.
    pub alpha: f64,
    /// Added to the root, or to what it is taken of.
    pub eps: f64,
    /// Epsilon inside of the root, and a mean that begins at 1, as in TensorFlow.
    pub tf_like: bool,
    /// Means of squares.
    pub square_avg: Vec<F>,
}

impl<F: Number> RmsProp<F> {
    /// For so many parameters.
    #[must_use]
    pub fn new(len: usize, alpha: f64, eps: f64, tf_like: bool) -> Self {
        let first = if tf_like { F::ONE } else { F::ZERO };
        Self { alpha, eps, tf_like, square_avg: vec![first; len] }
    }

    /// One step along `gradient`.
    ///
    /// # Errors
    /// For slices of other lengths.
    pub fn step(&mut self, parameters: &mut [F], gradient: &[F], lr: f64) -> Result<()> {
        same(parameters.len(), gradient.len(), self.square_avg.len())?;
        let of = F::from_f64;
        let (alpha, take) = (of(self.alpha), of(1.0 - self.alpha));
        let (inside, outside) = if self.tf_like { (self.eps, 0.0) } else { (0.0, self.eps) };
        let scales = (alpha, take, of(inside), of(outside), of(lr));
        rms_prop(scales, parameters, gradient, &mut self.square_avg);
        Ok(())
    }
}

/// The norm of all gradients together, which are then cut to `most` if they are more.
#[must_use]
pub fn clip<F: Number>(gradient: &mut [F], most: Option<f64>) -> f64 {
    let norm = sum_of_squares(gradient).sqrt();
    if let Some(most) = most {
        let factor = most / (norm + 1e-6);
        if factor < 1.0 {
            scale(gradient, F::from_f64(factor));
        }
    }
    norm
}

/// target <- (1 - tau) target + tau online.
///
/// # Errors
/// For slices of different lengths.
pub fn polyak<F: Number>(target: &mut [F], online: &[F], tau: f64) -> Result<()> {
    check_len("online parameters", online.len(), target.len(), "as the target's")?;
    follow(target, online, F::from_f64(tau));
    Ok(())
}

#[derive(Clone, Copy)]
struct Scales<F> {
    keep: (F, F),
    take: (F, F),
    size: F,
    root: F,
    eps: F,
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn adam<F: Number>(
    by: Scales<F>,
    parameters: &mut [F],
    gradient: &[F],
    first: &mut [F],
    second: &mut [F],
) {
    let moments = first.iter_mut().zip(second);
    for ((parameter, &slope), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
        *first = by.keep.0 * *first + by.take.0 * slope;
        *second = by.keep.1 * *second + by.take.1 * (slope * slope);
        *parameter = *parameter - by.size * *first / (second.sqrt() / by.root + by.eps);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn rms_prop<F: Number>(
    (alpha, take, inside, outside, lr): (F, F, F, F, F),
    parameters: &mut [F],
    gradient: &[F],
    squares: &mut [F],
) {
    for ((parameter, &slope), square) in parameters.iter_mut().zip(gradient).zip(squares) {
        *square = alpha * *square + take * (slope * slope);
        *parameter = *parameter - lr * slope / ((*square + inside).sqrt() + outside);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn scale<F: Number>(values: &mut [F], factor: F) {
    for value in values {
        *value = *value * factor;
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn follow<F: Number>(target: &mut [F], online: &[F], tau: F) {
    for (target, &online) in target.iter_mut().zip(online) {
        *target += tau * (online - *target);
    }
}

/// In float64, in an order that depends on the length only.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn sum_of_squares<F: Number>(values: &[F]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (blocks, rest) = values.as_chunks::<LANES>();
    for block in blocks {
        for (lane, value) in lanes.iter_mut().zip(block) {
            let value = value.to_f64();
            *lane += value * value;
        }
    }
    let rest = rest.iter().map(|value| value.to_f64() * value.to_f64());
    lanes.into_iter().chain(rest).sum()
}

fn same(parameters: usize, gradient: usize, moments: usize) -> Result<()> {
    check_len("parameters", parameters, moments, "as the optimizer's")?;
    check_len("gradient", gradient, moments, "as the optimizer's")
}
