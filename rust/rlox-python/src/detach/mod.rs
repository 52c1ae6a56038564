//! Work without the GIL; all such work of the crate goes through this module.
//!
//! Work that is long enough runs without the GIL. On the main thread it stops when a signal handler
//! raises, such as Python's for Ctrl-C, and a fork waits until it is done. The wait for a lock that
//! another thread holds follows the same rules. A panic becomes an exception.

mod forks;
mod gate;
mod locks;
mod signals;

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::prelude::*;
use rlox_core::Result;

use crate::errors::{self, ErrorClass, OrRaise};

pub(crate) use locks::{with_read_lock, with_write_lock, with_write_locks};

/// Work that is estimated to take at least so many nanoseconds runs without the GIL. For shorter
/// work, the release costs more than another thread could gain.
pub(crate) const MIN_RELEASE_NANOSECONDS: usize = 10_000;

/// Nanoseconds of a call for which a release of the GIL is always worthwhile.
pub(crate) const ALWAYS_RELEASE: usize = usize::MAX;

/// Runs `work`, which takes about `nanoseconds`, without the GIL if it is long enough.
///
/// Errors become exceptions of `rlox.errors` and a panic becomes `InternalError`. An exception of a
/// signal handler during the work is raised unchanged.
pub(crate) fn detached<T: Send>(
    py: Python<'_>,
    nanoseconds: usize,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    // After a panic the caller's object may be half changed; `Shared` refuses further calls then.
    let guarded = || catch_unwind(AssertUnwindSafe(work));
    if nanoseconds < MIN_RELEASE_NANOSECONDS {
        return to_py_result(py, guarded());
    }
    forks::ensure_hooks(py)?;
    let is_main = signals::is_main(py)?;
    let outcome = py.detach(|| {
        signals::with_signal_checks(is_main, || match forks::run_task(guarded) {
            Ok(outcome) => outcome,
            Err(interrupted) => Ok(Err(interrupted)),
        })
    });
    // An exception of a handler is never lost, even if the work finished before it noticed.
    match signals::take_handler_error() {
        Some(exception) => Err(exception),
        None => to_py_result(py, outcome),
    }
}

fn to_py_result<T>(py: Python<'_>, outcome: std::thread::Result<Result<T>>) -> PyResult<T> {
    match outcome {
        Ok(result) => result.or_raise(py),
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no message");
            let message = format!("internal error: {text}; please report it and discard the object involved");
            Err(errors::new(py, ErrorClass::Internal, message))
        }
    }
}
