//! The number of threads that share long work.

use pyo3::prelude::*;
use rlox_core::threads;

use crate::convert::coerce::IntegerArg;
use crate::errors::OrRaise;

/// Sets how many threads of this process share long work of rlox: large batches of environments,
/// large batches from buffers, long arrays. No result depends on this number.
///
/// Before the first call the setting is the environment variable `RLOX_THREADS` (or
/// `RAYON_NUM_THREADS`) if that is a number from 1 to 1024, else the number of CPUs that the
/// process may use. A forked child has the setting of its parent and threads of its own.
///
/// Args:
///     n: 1 to 1024; with 1 everything runs on the calling thread. None restores the default.
///
/// Raises ConfigError for a number out of range.
#[pyfunction]
#[pyo3(signature = (n=None))]
pub(crate) fn set_num_threads(py: Python<'_>, n: Option<IntegerArg<'_>>) -> PyResult<()> {
    let count = n.map(|n| n.read("n", 0)).transpose()?;
    let count = count.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
    threads::set(count).or_raise(py)
}

/// The number of threads of this process that share long work of rlox; see `set_num_threads`.
#[pyfunction]
pub(crate) fn num_threads() -> usize {
    threads::count()
}
