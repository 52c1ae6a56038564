//! Gradient clipping, and the optimizers Adam and RMSprop as in torch.

use multiversion::multiversion;
use rlox_core::error::{Error, Result, check_len};

use super::gemm::Number;

/// The number of partial sums of a sum of squares.
const LANES: usize = 8;

/// The step count from which float64 cannot represent every integer.
const MAX_STEPS: u64 = 1 << 53;

/// Adam (Kingma & Ba 2015, algorithm 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adam {
    /// The decay rates of the first and of the second moments.
    pub betas: (f64, f64),
    /// The constant that is added to the root.
    pub eps: f64,
}

impl Adam {
    /// Returns Adam with betas 0.9 and 0.999.
    #[must_use]
    pub const fn new(eps: f64) -> Self {
        Self { betas: (0.9, 0.999), eps }
    }
}

/// RMSprop without momentum (Tieleman & Hinton 2012).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RmsProp {
    /// The decay rate of the mean of squares.
    pub alpha: f64,
    /// The constant that is added to the root, or to its argument.
    pub eps: f64,
    /// Whether epsilon is inside the root, as in TensorFlow, where the means of squares start at 1.
    pub tf_like: bool,
}

/// An update rule and its state, in vectors as long as the parameters.
#[derive(Debug)]
pub enum Optimizer<'a, F> {
    /// See [`Adam`].
    Adam {
        /// The constants of the rule.
        rule: Adam,
        /// First moments.
        exp_avg: &'a mut [F],
        /// Second moments.
        exp_avg_sq: &'a mut [F],
        /// The number of steps so far.
        steps: &'a mut u64,
    },
    /// See [`RmsProp`].
    RmsProp {
        /// The constants of the rule.
        rule: RmsProp,
        /// Means of squares.
        square_avg: &'a mut [F],
        /// The number of steps so far; it does not affect the update.
        steps: &'a mut u64,
    },
}

impl<F> Optimizer<'_, F> {
    /// # Errors
    /// [`Error::Config`] for a constant out of its range.
    pub(super) fn check(&self) -> Result<()> {
        let is_decay_rate = |beta: f64| (0.0..1.0).contains(&beta);
        let (Self::Adam { steps, .. } | Self::RmsProp { steps, .. }) = self;
        if **steps >= MAX_STEPS {
            return Err(Error::config("steps", **steps, "below 2^53"));
        }
        let (eps, are_rates_valid) = match self {
            Self::Adam { rule: Adam { betas, eps }, .. } => {
                (*eps, is_decay_rate(betas.0) && is_decay_rate(betas.1))
            }
            Self::RmsProp { rule: RmsProp { alpha, eps, .. }, .. } => (*eps, is_decay_rate(*alpha)),
        };
        if !are_rates_valid {
            return Err(Error::config("a beta or alpha", "out of its range", "0 to below 1"));
        }
        // With eps 0, a parameter without a gradient would become NaN.
        if eps.is_finite() && eps > 0.0 { Ok(()) } else { Err(Error::config("eps", eps, "above 0")) }
    }
}

impl<F: Number> Optimizer<'_, F> {
    /// Takes one step of `parameters` along `gradient`.
    ///
    /// # Errors
    /// [`rlox_core::Error::Shape`] for slices of different lengths.
    pub fn step(&mut self, parameters: &mut [F], gradient: &[F], lr: f64) -> Result<()> {
        let (n, float) = (parameters.len(), F::from_f64);
        check_len("gradient", gradient.len(), n, "as the parameters")?;
        match self {
            Self::Adam { rule, exp_avg, exp_avg_sq, steps } => {
                check_len("first moments", exp_avg.len(), n, "as the parameters")?;
                check_len("second moments", exp_avg_sq.len(), n, "as the parameters")?;
                **steps += 1;
                #[expect(clippy::cast_precision_loss, reason = "2^53 steps outlast any run")]
                let bias_correction = |beta: f64| 1.0 - beta.powf(**steps as f64);
                let scales = Scales {
                    decay: (float(rule.betas.0), float(rule.betas.1)),
                    complement: (float(1.0 - rule.betas.0), float(1.0 - rule.betas.1)),
                    step_size: float(lr / bias_correction(rule.betas.0)),
                    root_correction: float(bias_correction(rule.betas.1).sqrt()),
                    eps: float(rule.eps),
                };
                adam(scales, parameters, gradient, exp_avg, exp_avg_sq);
            }
            Self::RmsProp { rule, square_avg, steps } => {
                check_len("means of squares", square_avg.len(), n, "as the parameters")?;
                **steps += 1;
                let (inside, outside) = if rule.tf_like { (rule.eps, 0.0) } else { (0.0, rule.eps) };
                let decay = (float(rule.alpha), float(1.0 - rule.alpha));
                let scales = (decay.0, decay.1, float(inside), float(outside), float(lr));
                rms_prop(scales, parameters, gradient, square_avg);
            }
        }
        Ok(())
    }
}

/// Clips the gradient to a norm limit, and returns its norm before clipping.
#[must_use]
pub fn clip<F: Number>(gradient: &mut [F], max_norm: Option<f64>) -> f64 {
    let norm = sum_of_squares(gradient).sqrt();
    if let Some(limit) = max_norm {
        let factor = limit / (norm + 1e-6);
        if factor < 1.0 {
            scale(gradient, F::from_f64(factor));
        }
    }
    norm
}

#[derive(Clone, Copy)]
struct Scales<F> {
    decay: (F, F),
    complement: (F, F),
    step_size: F,
    root_correction: F,
    eps: F,
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn adam<F: Number>(
    scales: Scales<F>,
    parameters: &mut [F],
    gradient: &[F],
    first: &mut [F],
    second: &mut [F],
) {
    let moments = first.iter_mut().zip(second);
    for ((parameter, &slope), (first, second)) in parameters.iter_mut().zip(gradient).zip(moments) {
        *first = scales.decay.0 * *first + scales.complement.0 * slope;
        *second = scales.decay.1 * *second + scales.complement.1 * (slope * slope);
        *parameter =
            *parameter - scales.step_size * *first / (second.sqrt() / scales.root_correction + scales.eps);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn rms_prop<F: Number>(
    (alpha, complement, inside, outside, lr): (F, F, F, F, F),
    parameters: &mut [F],
    gradient: &[F],
    squares: &mut [F],
) {
    for ((parameter, &slope), square) in parameters.iter_mut().zip(gradient).zip(squares) {
        *square = alpha * *square + complement * (slope * slope);
        *parameter = *parameter - lr * slope / ((*square + inside).sqrt() + outside);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
fn scale<F: Number>(values: &mut [F], factor: F) {
    for value in values {
        *value = *value * factor;
    }
}

/// Returns the sum of squares in float64. The order of summation depends only on the length.
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
