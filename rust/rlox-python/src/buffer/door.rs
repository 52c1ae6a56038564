//! A buffer's lock and the interpreter's, never waited for together.

use pyo3::prelude::*;
use rlox_core::Result;
use rlox_core::buffer::Shared;

use crate::detach::{RELEASE_FROM, detached};

/// Runs `work`, which takes about `nanoseconds`, while nobody writes to the buffer.
///
/// A free lock is taken at once; one that is held is waited for without the GIL, because its
/// holder may need the GIL to let it go.
pub(super) fn reading<B: Send + Sync, T: Send>(
    py: Python<'_>,
    buffer: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(held) = buffer.try_read()
    {
        let held: &B = &held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, usize::MAX, || buffer.read(work)?)
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses the buffer.
pub(super) fn writing<B: Send + Sync, T: Send>(
    py: Python<'_>,
    buffer: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(mut held) = buffer.try_write()
    {
        let held: &mut B = &mut held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, usize::MAX, || buffer.write(work)?)
}
