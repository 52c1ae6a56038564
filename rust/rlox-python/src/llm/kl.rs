//! Token-level KL divergence for Python.

use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use rlox_core::llm::kl::{self, Estimator, Reduction, Tokens};
use rlox_core::math::Float;

use super::rows::{Mask, row_len};
use crate::convert::arg;
use crate::convert::coerce;
use crate::convert::coerce::OptionalArg;
use crate::detach::detached;
use crate::errors::OrRaise;
use crate::memory::views::{Plain, ViewMut, has_dtype};

/// KL(p || q) of one sequence from per-token log-probabilities.
///
/// With d = log q - log p, the term of each token depends on `estimator`:
///
/// - "exact": p (log p - log q); the sum is KL(p || q) itself if the arrays list a whole
///   distribution. 0 where log p < -708 (float32: -87), -inf included, for every log q.
/// - "k1": -d, for tokens sampled from p; unbiased, of either sign.
/// - "k2": d^2 / 2, for tokens sampled from p; biased, never negative.
/// - "k3": e^d - d - 1, for tokens sampled from p; unbiased, never negative (Schulman 2020). Given
///   d as rounded, the error is at most 16 units of rounding, also near d = 0. inf for d > 709
///   (float32: 88) and for d = -inf.
///
/// NaN gives NaN; so does log p = log q = -inf, except with "exact". Terms are computed in float32
/// if both arrays are float32, and always added in float64, in an order that depends on T only.
///
/// Args:
///     log_p: log-probabilities under the policy, `[T]`.
///     log_q: log-probabilities of the same tokens under the reference, `[T]`.
///     estimator: "exact", "k1", "k2" or "k3".
///     mask: which tokens count, `[T]`, bool or 0 and 1; the values of other tokens, NaN included,
///         have no effect. None: all tokens count.
///     reduction: "sum", or "mean" over the tokens that count; 0 if none counts.
///
/// Returns:
///     A float.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: the mask contains a number other than 0 and 1.
///     UnknownNameError: the estimator or reduction does not exist.
#[pyfunction]
#[pyo3(
    signature = (log_p, log_q, *, estimator="exact", mask=None, reduction="sum")
)]
pub(crate) fn compute_token_kl<'py>(
    py: Python<'py>,
    log_p: &Bound<'py, PyAny>,
    log_q: &Bound<'py, PyAny>,
    #[pyo3(from_py_with = arg::text::estimator)] estimator: &str,
    mask: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::text::reduction)] reduction: &str,
) -> PyResult<f64> {
    let settings = KlSettings::parse(py, estimator, reduction)?;
    Inputs::read(log_p, log_q, mask)?.sequence_kl(py, settings)
}

/// The k3 estimate of KL(p || q) of one sequence: `compute_token_kl` with `estimator="k3"`.
///
/// The sum of e^d - d - 1 with d = log q - log p, p the policy and q the reference, for tokens
/// sampled from p (Schulman 2020, "Approximating KL divergence"). d has the same sign as in TRL. The
/// estimate is never negative.
///
/// Args:
///     log_p: log-probabilities under the policy, `[T]`.
///     log_q: log-probabilities of the same tokens under the reference, `[T]`.
///     mask: which tokens count, `[T]`, bool or 0 and 1; None: all tokens count.
///     reduction: "sum", or "mean" over the tokens that count; 0 if none counts.
///
/// Returns:
///     A float.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: the mask contains a number other than 0 and 1.
///     UnknownNameError: the reduction does not exist.
#[pyfunction]
#[pyo3(
    signature = (log_p, log_q, *, mask=None, reduction="sum")
)]
pub(crate) fn compute_token_kl_schulman<'py>(
    py: Python<'py>,
    log_p: &Bound<'py, PyAny>,
    log_q: &Bound<'py, PyAny>,
    mask: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::text::reduction)] reduction: &str,
) -> PyResult<f64> {
    let settings = KlSettings::parse(py, "k3", reduction)?;
    Inputs::read(log_p, log_q, mask)?.sequence_kl(py, settings)
}

/// KL(p || q) of each of B sequences of the same number of tokens.
///
/// The same as `compute_token_kl`, with one value per sequence.
///
/// Args:
///     log_p: log-probabilities under the policy, `[B * T]`, sequence after sequence, or `[B, T]`.
///     log_q: log-probabilities of the same tokens under the reference; the shape of log_p.
///     seq_len: T; may be omitted if log_p is `[B, T]`.
///     estimator: "exact", "k1", "k2" or "k3".
///     mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all tokens count.
///     reduction: "sum", or "mean" over the tokens that count; 0 for a sequence in which none
///         counts.
///
/// Returns:
///     `[B]`: float32 if log_p and log_q are float32 arrays, else float64.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: seq_len is out of range, or the mask contains a number other than 0 and 1.
///     UnknownNameError: the estimator or reduction does not exist.
#[pyfunction]
#[pyo3(
    signature = (log_p, log_q, seq_len=None, *, estimator="exact", mask=None, reduction="sum")
)]
pub(crate) fn compute_batch_token_kl<'py>(
    py: Python<'py>,
    log_p: &Bound<'py, PyAny>,
    log_q: &Bound<'py, PyAny>,
    seq_len: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::text::estimator)] estimator: &str,
    mask: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::text::reduction)] reduction: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let settings = KlSettings::parse(py, estimator, reduction)?;
    Inputs::read(log_p, log_q, mask)?.batch_kl(py, seq_len, settings)
}

/// The k3 estimate of KL(p || q) of each of B sequences: `compute_batch_token_kl` with
/// `estimator="k3"`.
///
/// Args:
///     log_p: log-probabilities under the policy, `[B * T]`, sequence after sequence, or `[B, T]`.
///     log_q: log-probabilities of the same tokens under the reference; the shape of log_p.
///     seq_len: T; may be omitted if log_p is `[B, T]`.
///     mask: which tokens count, the shape of log_p, bool or 0 and 1; None: all tokens count.
///     reduction: "sum", or "mean" over the tokens that count; 0 for a sequence in which none
///         counts.
///
/// Returns:
///     `[B]`: float32 if log_p and log_q are float32 arrays, else float64.
///
/// Raises:
///     ShapeError: an array has another shape or is not numeric.
///     ConfigError: seq_len is out of range, or the mask contains a number other than 0 and 1.
///     UnknownNameError: the reduction does not exist.
#[pyfunction]
#[pyo3(
    signature = (log_p, log_q, seq_len=None, *, mask=None, reduction="sum")
)]
pub(crate) fn compute_batch_token_kl_schulman<'py>(
    py: Python<'py>,
    log_p: &Bound<'py, PyAny>,
    log_q: &Bound<'py, PyAny>,
    seq_len: OptionalArg<'_, 'py>,
    mask: OptionalArg<'_, 'py>,
    #[pyo3(from_py_with = arg::text::reduction)] reduction: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let settings = KlSettings::parse(py, "k3", reduction)?;
    Inputs::read(log_p, log_q, mask)?.batch_kl(py, seq_len, settings)
}

/// The estimator and the reduction of a call.
#[derive(Clone, Copy)]
struct KlSettings {
    estimator: Estimator,
    reduction: Reduction,
}

impl KlSettings {
    fn parse(py: Python<'_>, estimator: &str, reduction: &str) -> PyResult<Self> {
        let estimator = Estimator::from_name(estimator);
        let settings = estimator.and_then(|estimator| {
            Reduction::from_name(reduction).map(|reduction| Self { estimator, reduction })
        });
        settings.or_raise(py)
    }
}

/// The arrays of a call, all of one shape.
struct Inputs<'py> {
    log_p: Bound<'py, PyUntypedArray>,
    log_q: Bound<'py, PyUntypedArray>,
    mask: Option<Mask<'py>>,
    /// Whether both log-probabilities are float32.
    is_single: bool,
}

impl<'py> Inputs<'py> {
    fn read(
        log_p: &Bound<'py, PyAny>,
        log_q: &Bound<'py, PyAny>,
        mask: OptionalArg<'_, 'py>,
    ) -> PyResult<Self> {
        let log_p = coerce::array(log_p, "log_p")?;
        let log_q = coerce::array(log_q, "log_q")?;
        coerce::check_shape(&log_q, "log_q", log_p.shape(), "the shape of log_p")?;
        let mask = mask.map(|mask| Mask::read(mask, &log_p, "log_p")).transpose()?;
        let is_single = has_dtype::<f32>(&log_p) && has_dtype::<f32>(&log_q);
        Ok(Self { log_p, log_q, mask, is_single })
    }

    fn sequence_kl(&self, py: Python<'py>, settings: KlSettings) -> PyResult<f64> {
        coerce::check_ndim(&self.log_p, "log_p", &["T"])?;
        if self.is_single {
            self.sequence_kl_as::<f32>(py, settings)
        } else {
            self.sequence_kl_as::<f64>(py, settings)
        }
    }

    fn sequence_kl_as<F: Plain + Float>(&self, py: Python<'py>, settings: KlSettings) -> PyResult<f64> {
        let log_p = coerce::numbers::<F>(&self.log_p, "log_p")?;
        let log_q = coerce::numbers::<F>(&self.log_q, "log_q")?;
        let tokens = self.tokens(log_p.slice(), log_q.slice());
        // about 2 nanoseconds for each token
        detached(py, tokens.log_p.len() * 2, || kl::token_kl(tokens, settings.estimator, settings.reduction))
    }

    fn batch_kl(
        &self,
        py: Python<'py>,
        seq_len: OptionalArg<'_, 'py>,
        settings: KlSettings,
    ) -> PyResult<Bound<'py, PyAny>> {
        let seq_len = row_len(&self.log_p, "log_p", seq_len, "seq_len", "B")?;
        if self.is_single {
            self.batch_kl_as::<f32>(py, seq_len, settings)
        } else {
            self.batch_kl_as::<f64>(py, seq_len, settings)
        }
    }

    fn batch_kl_as<F: Plain + Float>(
        &self,
        py: Python<'py>,
        seq_len: usize,
        settings: KlSettings,
    ) -> PyResult<Bound<'py, PyAny>> {
        let log_p = coerce::numbers::<F>(&self.log_p, "log_p")?;
        let log_q = coerce::numbers::<F>(&self.log_q, "log_q")?;
        let tokens = self.tokens(log_p.slice(), log_q.slice());
        let mut out = ViewMut::<F>::fresh(py, &[tokens.log_p.len() / seq_len.max(1)])?;
        let values = out.slice_mut();
        // about 2 nanoseconds for each token
        detached(py, tokens.log_p.len() * 2, || {
            kl::batch_token_kl(tokens, seq_len, settings.estimator, settings.reduction, values)
        })?;
        Ok(out.into_array().into_any())
    }

    fn tokens<'a, F>(&'a self, log_p: &'a [F], log_q: &'a [F]) -> Tokens<'a, F, u8> {
        Tokens { log_p, log_q, mask: self.mask.as_ref().map(Mask::slice) }
    }
}
