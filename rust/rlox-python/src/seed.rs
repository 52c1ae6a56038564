//! Named random streams for Python.

use pyo3::prelude::*;
use rlox_core::Shared;
use rlox_core::interrupt;
use rlox_core::seed::{self, Stream};

use crate::convert::arg;
use crate::detach::{detached, reading, writing};
use crate::errors::{self, Class};
use crate::memory::views::ViewMut;

/// Numbers per call, at most: 2 GiB of float64.
const MOST_DRAWS: u64 = 1 << 28;

/// A random stream keyed by (seed, name, index), with a position that can be saved.
///
/// The draws depend on the key and the position only: adding a stream never shifts another.
///
/// Args:
///     seed: the run's seed, 0 to 2**64 - 1.
///     name: what the stream is for, such as "env".
///     index: which of several streams of that name, such as the number of an environment.
///
/// Raises:
///     ConfigError: seed or index is not an integer in range.
#[pyclass(name = "Stream", module = "rlox._core", frozen)]
pub(crate) struct PyStream {
    stream: Shared<Stream>,
}

/// Numbers drawn between two looks whether to stop.
const PIECE: usize = 1 << 16;

/// What takes as long as one number does.
const ONE: usize = 10;

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
    /// Each advances the position by 2. Raises ConfigError if `n` is not in 0..2**28.
    fn uniform<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::integer::n)] n: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.draw(py, n, 5, Stream::uniform)
    }

    /// `n` standard normal numbers, float64 `[n]`: Box and Muller's cosine branch,
    /// sqrt(-2 ln(1 - u)) cos(2 pi v) with u, v the next two uniform numbers.
    ///
    /// Each advances the position by 4. Raises ConfigError if `n` is not in 0..2**28.
    fn normal<'py>(
        &self,
        py: Python<'py>,
        #[pyo3(from_py_with = arg::integer::n)] n: u64,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.draw(py, n, 40, Stream::normal)
    }

    /// The next 64 random bits as an integer; advances the position by 2.
    fn next_u64(&self, py: Python<'_>) -> PyResult<u64> {
        writing(py, &self.stream, ONE, |stream| Ok(stream.next_u64()))
    }

    /// Words of 32 bits drawn so far; assign a saved value to continue from there.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        reading(py, &self.stream, ONE, |stream| Ok(stream.position()))
    }

    #[setter]
    fn set_position(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arg::integer::position)] position: u64,
    ) -> PyResult<()> {
        writing(py, &self.stream, ONE, |stream| {
            stream.set_position(position);
            Ok(())
        })
    }
}

impl PyStream {
    /// `n` numbers of about `cost` nanoseconds each.
    fn draw<'py>(
        &self,
        py: Python<'py>,
        n: u64,
        cost: usize,
        one: fn(&mut Stream) -> f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        if n > MOST_DRAWS {
            let message = format!("n is {n}, expected at most {MOST_DRAWS}; draw in parts");
            return Err(errors::new(py, Class::Config, message));
        }
        let n = usize::try_from(n).unwrap_or_default();
        let mut numbers = ViewMut::<f64>::fresh(py, &[n])?;
        let out = numbers.slice_mut();
        writing(py, &self.stream, n * cost, |stream| {
            let start = stream.position();
            for piece in out.chunks_mut(PIECE) {
                // Draws that are stopped were never made.
                interrupt::check().inspect_err(|_| stream.set_position(start))?;
                piece.fill_with(|| one(stream));
            }
            Ok(())
        })?;
        Ok(numbers.into_array().into_any())
    }
}

/// A 63-bit integer for seeding a foreign generator, such as a `torch.Generator`, from the same
/// scheme: the first draw of `Stream(seed, name, index)` without its lowest bit.
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
    detached(py, ONE, || Ok(seed::stream_seed(seed, name, index)))
}
