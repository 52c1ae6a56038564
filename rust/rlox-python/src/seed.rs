//! Named random streams for Python.

use pyo3::prelude::*;
use rlox_core::Shared;
use rlox_core::interrupt;
use rlox_core::seed::{self, Stream};

use crate::convert::arg;
use crate::detach::{detached, with_read_lock, with_write_lock};
use crate::errors::{self, ErrorClass};
use crate::memory::views::{OutputElement, ViewMut};

/// Largest count of numbers per call: 2 GiB of float64.
const MAX_DRAWS: u64 = 1 << 28;

/// A random stream keyed by (seed, name, index), with a position that can be saved.
///
/// The draws depend on the key and the position only, so a new stream never changes the draws of another one.
///
/// Args:
///     seed: seed of the run, 0 to 2**64 - 1.
///     name: the purpose of the stream, such as "env".
///     index: tells streams of the same name apart, such as the index of an environment.
///
/// Raises:
///     ConfigError: seed or index is not an integer in range.
#[pyclass(name = "Stream", module = "rlox._core", frozen)]
pub(crate) struct PyStream {
    stream: Shared<Stream>,
}

/// Numbers drawn between two checks for an interrupt.
const CHUNK: usize = 1 << 16;

/// Nanoseconds that a call for one number takes.
const DRAW_NANOSECONDS: usize = 10;

#[pymethods]
impl PyStream {
    #[new]
    #[pyo3(signature = (seed, name, index=0))]
    fn new(
        #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
        #[pyo3(from_py_with = arg::text::name)] name: &str,
        #[pyo3(from_py_with = arg::integer::index)] index: u64,
    ) -> Self {
        Self { stream: Shared::new(Stream::new(seed, name, index)) }
    }

    /// `n` uniform numbers in [0, 1) with 53 random bits each, float64 `[n]`.
    ///
    /// Each advances the position by 2. Raises ConfigError unless 0 <= n <= 2**28.
    fn uniform<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::integer::n)] n: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.draw(py, n, 5, |stream, out| out.fill_with(|| stream.uniform()))
    }

    /// `n` standard normal numbers, float64 `[n]`, by the cosine branch of Box and Muller: sqrt(-2
    /// ln(1 - u)) cos(2 pi v), where u and v are the next two uniform numbers.
    ///
    /// Each advances the position by 4. Raises ConfigError unless 0 <= n <= 2**28.
    fn normal<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::integer::n)] n: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.draw(py, n, 40, |stream, out| out.fill_with(|| stream.normal()))
    }

    /// `n` standard normal numbers, float32 `[n]`, by a mapping four times as fast as `normal`'s.
    ///
    /// The mapping is Wichura's AS 241: of uniform numbers of 52 bits, in float64, then rounded. It
    /// gives the same numbers on every platform.
    ///
    /// Each advances the position by 2. Raises ConfigError unless 0 <= n <= 2**28.
    fn standard_normal<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::integer::n)] n: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.draw(py, n, 10, Stream::fill_normal::<f32>)
    }

    /// A uniformly random permutation of 0, ..., n - 1 (Fisher and Yates), int64 `[n]`.
    ///
    /// Raises ConfigError unless 0 <= n <= 2**28.
    fn permutation<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::integer::n)] n: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let n = check_draws(py, "n", n)?;
        let mut order = ViewMut::<i64>::fresh(py, &[n])?;
        let out = order.slice_mut();
        with_write_lock(py, &self.stream, n * 10, |stream| {
            let start = stream.position();
            out.iter_mut().zip(0..).for_each(|(place, i)| *place = i);
            for last in (1..n).rev() {
                if last % CHUNK == 0 {
                    interrupt::check().inspect_err(|_| stream.set_position(start))?;
                }
                out.swap(last, stream.below(last + 1));
            }
            Ok(())
        })?;
        Ok(order.into_array().into_any())
    }

    /// A random orthogonal matrix, float64 `[rows, columns]`.
    ///
    /// Its rows, or its columns if they are fewer, are orthogonal and have length 1. All such matrices
    /// are equally likely (Saxe et al. 2014). Gram and Schmidt's method computes the matrix from
    /// standard normal numbers in a fixed order, so it is the same on every platform.
    ///
    /// Each of the `rows * columns` numbers advances the position by 2. Raises ConfigError for more
    /// than 2**28 of them.
    fn orthogonal<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::integer::rows)] rows: u64,
        #[pyo3(from_py_with = arg::integer::columns)] columns: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        check_draws(py, "rows * columns", rows.saturating_mul(columns))?;
        let (rows, columns) = (check_draws(py, "rows", rows)?, check_draws(py, "columns", columns)?);
        let mut matrix = ViewMut::<f64>::fresh(py, &[rows, columns])?;
        let out = matrix.slice_mut();
        with_write_lock(py, &self.stream, rows * columns * (10 + rows.min(columns)), |stream| {
            let start = stream.position();
            let matrix_values = rlox_core::orthogonal(stream, rows, columns);
            // After an interrupt the stream is where it was before the call.
            out.copy_from_slice(&matrix_values.inspect_err(|_| stream.set_position(start))?);
            Ok(())
        })?;
        Ok(matrix.into_array().into_any())
    }

    /// The next 64 random bits as an integer; advances the position by 2.
    fn next_u64(&self, py: Python<'_>) -> PyResult<u64> {
        with_write_lock(py, &self.stream, DRAW_NANOSECONDS, |stream| Ok(stream.next_u64()))
    }

    /// Number of 32-bit words drawn so far; assign a saved value to continue from there.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        with_read_lock(py, &self.stream, DRAW_NANOSECONDS, |stream| Ok(stream.position()))
    }

    #[setter]
    fn set_position(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::integer::position)] position: u64,
    ) -> PyResult<()> {
        with_write_lock(py, &self.stream, DRAW_NANOSECONDS, |stream| {
            stream.set_position(position);
            Ok(())
        })
    }
}

impl PyStream {
    /// Draws `n` numbers, each of which takes about `draw_nanoseconds`.
    fn draw<'py, T: OutputElement + Send>(
        &self,
        py: Python<'py>,
        n: u64,
        draw_nanoseconds: usize,
        fill: fn(&mut Stream, &mut [T]),
    ) -> PyResult<Bound<'py, PyAny>> {
        let n = check_draws(py, "n", n)?;
        let mut numbers = ViewMut::<T>::fresh(py, &[n])?;
        let out = numbers.slice_mut();
        with_write_lock(py, &self.stream, n * draw_nanoseconds, |stream| {
            let start = stream.position();
            for chunk in out.chunks_mut(CHUNK) {
                // After an interrupt the stream is where it was before the call.
                interrupt::check().inspect_err(|_| stream.set_position(start))?;
                fill(stream, chunk);
            }
            Ok(())
        })?;
        Ok(numbers.into_array().into_any())
    }
}

/// Returns `n` if one call may draw that many numbers.
fn check_draws(py: Python<'_>, name: &str, n: u64) -> PyResult<usize> {
    if n > MAX_DRAWS {
        let message = format!("{name} is {n}, expected at most {MAX_DRAWS}; draw in parts");
        return Err(errors::new(py, ErrorClass::Config, message));
    }
    Ok(usize::try_from(n).unwrap_or_default())
}

/// A 63-bit integer to seed another generator, such as a `torch.Generator`: the first `next_u64()`
/// of `Stream(seed, name, index)` without its lowest bit.
///
/// Raises:
///     ConfigError: seed or index is not an integer in 0..2**64.
#[pyfunction]
#[pyo3(signature = (seed, name, index=0))]
pub(crate) fn stream_seed(
    py: Python<'_>,
    #[pyo3(from_py_with = arg::integer::seed)] seed: u64,
    #[pyo3(from_py_with = arg::text::name)] name: &str,
    #[pyo3(from_py_with = arg::integer::index)] index: u64,
) -> PyResult<u64> {
    detached(py, DRAW_NANOSECONDS, || Ok(seed::stream_seed(seed, name, index)))
}
