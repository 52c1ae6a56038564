//! The lock of an object and the interpreter's, never waited for together.

use pyo3::prelude::*;
use rlox_core::{Result, Shared};

use super::{LONG, RELEASE_FROM, detached};

/// Runs `work`, which takes about `nanoseconds`, while nobody writes to the object.
///
/// A free lock is taken at once; one that is held is waited for without the GIL, because its
/// holder may need the GIL to let it go.
pub(crate) fn reading<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(held) = object.try_read()
    {
        let held: &B = &held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, LONG, || object.read(work)?)
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses the object.
pub(crate) fn writing<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(mut held) = object.try_write()
    {
        let held: &mut B = &mut held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, LONG, || object.write(work)?)
}
