//! Named random streams for Python.

use pyo3::prelude::*;
use rlox_core::seed::{self, Stream};

use crate::coerce::{Number, Text};
use crate::detach::detached;
use crate::errors::{self, Class};
use crate::views::ViewMut;

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
#[pyclass(name = "Stream", module = "rlox._core")]
pub(crate) struct PyStream {
    inner: Stream,
}

#[pymethods]
impl PyStream {
    #[new]
    #[pyo3(signature = (seed, name, index=Number::OMITTED), text_signature = "(seed, name, index=0)")]
    fn new(seed: Number<'_>, name: Text<'_>, index: Number<'_>) -> PyResult<Self> {
        let (seed, index) = (seed.read("seed", 0)?, index.read("index", 0)?);
        Ok(Self { inner: Stream::new(seed, &name.read("name")?, index) })
    }

    /// `n` uniform numbers in [0, 1) with 53 random bits each, float64 `[n]`.
    ///
    /// Each advances the position by 2. Raises ConfigError if `n` is not in 0..2**28.
    fn uniform<'py>(&mut self, py: Python<'py>, n: Number<'_>) -> PyResult<Bound<'py, PyAny>> {
        self.draw(py, n, 5, Stream::uniform)
    }

    /// `n` standard normal numbers, float64 `[n]`: Box and Muller's cosine branch,
    /// sqrt(-2 ln(1 - u)) cos(2 pi v) with u, v the next two uniform numbers.
    ///
    /// Each advances the position by 4. Raises ConfigError if `n` is not in 0..2**28.
    fn normal<'py>(&mut self, py: Python<'py>, n: Number<'_>) -> PyResult<Bound<'py, PyAny>> {
        self.draw(py, n, 40, Stream::normal)
    }

    /// The next 64 random bits as an integer; advances the position by 2.
    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }

    /// Words of 32 bits drawn so far; assign a saved value to continue from there.
    #[getter]
    fn position(&self) -> u64 {
        self.inner.position()
    }

    #[setter]
    fn set_position(&mut self, position: Number<'_>) -> PyResult<()> {
        self.inner.set_position(position.read("position", 0)?);
        Ok(())
    }
}

impl PyStream {
    /// `n` numbers of about `cost` nanoseconds each.
    fn draw<'py>(
        &mut self,
        py: Python<'py>,
        n: Number<'_>,
        cost: usize,
        one: fn(&mut Stream) -> f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        let n = n.read("n", 0)?;
        if n > MOST_DRAWS {
            let message = format!("n is {n}, expected at most {MOST_DRAWS}; draw in parts");
            return Err(errors::new(py, Class::Config, message));
        }
        let n = usize::try_from(n).unwrap_or_default();
        let mut numbers = ViewMut::<f64>::fresh(py, &[n])?;
        let out = numbers.slice_mut();
        let stream = &mut self.inner;
        detached(py, n * cost, || {
            out.fill_with(|| one(stream));
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
#[pyo3(signature = (seed, name, index=Number::OMITTED), text_signature = "(seed, name, index=0)")]
pub(crate) fn stream_seed(seed: Number<'_>, name: Text<'_>, index: Number<'_>) -> PyResult<u64> {
    Ok(seed::stream_seed(seed.read("seed", 0)?, &name.read("name")?, index.read("index", 0)?))
}
