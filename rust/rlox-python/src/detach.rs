//! The one door through which work leaves the interpreter.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use rlox_core::Result;

use crate::errors::{self, Class};

/// Estimated nanoseconds of work from which the GIL is released; below, releasing it and taking
/// it back costs more than another thread could gain.
pub(crate) const RELEASE_FROM: usize = 10_000;

/// Runs `work`, which takes about `nanoseconds`, without the GIL if it is long enough.
///
/// Errors become exceptions of `rlox.errors`, a panic becomes `InternalError`.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    nanoseconds: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    // After a panic the caller's object may be half updated; the message says not to go on.
    let guarded = || catch_unwind(AssertUnwindSafe(work));
    let outcome = if nanoseconds >= RELEASE_FROM { py.detach(guarded) } else { guarded() };
    match outcome {
        Ok(result) => result.map_err(|error| errors::raise(py, &error)),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let message =
                format!("internal error: {text}; please report it and discard the object involved");
            Err(errors::new(py, Class::Internal, message))
        }
    }
}
