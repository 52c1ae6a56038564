//! A buffer's lock and the interpreter's, never waited for together.

use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;
use rlox_core::Result;

use crate::detach::{self, detached};

/// Runs `work`, which takes about `nanoseconds`, while nobody writes to the buffer.
///
/// A free lock is taken at once; one that is held is waited for without the GIL, because its
/// holder may need the GIL to let it go.
pub(super) fn reading<B: Send + Sync, T: Send>(
    py: Python<'_>,
    buffer: &RwLock<B>,
    nanoseconds: usize,
    work: impl FnOnce(&B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < detach::RELEASE_FROM
        && let Ok(held) = buffer.try_read()
    {
        let held: &B = &held;
        return detached(py, nanoseconds, || work(held));
    }
    // A panic leaves bytes that may be wrong but are always bytes; its message said so.
    detached(py, usize::MAX, || work(&buffer.read().unwrap_or_else(PoisonError::into_inner)))
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses the buffer.
pub(super) fn writing<B: Send + Sync, T: Send>(
    py: Python<'_>,
    buffer: &RwLock<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < detach::RELEASE_FROM
        && let Ok(mut held) = buffer.try_write()
    {
        let held: &mut B = &mut held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, usize::MAX, || work(&mut buffer.write().unwrap_or_else(PoisonError::into_inner)))
}
