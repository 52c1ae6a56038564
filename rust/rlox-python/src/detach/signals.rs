//! Signals during long work. Python handles signals in its main thread, between two instructions of
//! Python. A call of this crate runs no such instruction, so long work polls for signals.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rlox_core::interrupt;

/// A poll takes the GIL, which a busy thread releases only after a while. Polls take at most a 20th
/// of the time, unless that would delay the next poll by more than 80 ms.
const WORK_PER_POLL: u32 = 20;
const MAX_POLL_INTERVAL: Duration = Duration::from_millis(80);

thread_local! {
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    static HANDLER_ERROR: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    static NEXT_POLL: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Whether this is the thread in which Python handles signals.
///
/// # Errors
/// The exception of a handler that Python ran during the query.
pub(super) fn is_main(py: Python<'_>) -> PyResult<bool> {
    if let Some(cached) = IS_MAIN.get() {
        return Ok(cached);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let result = main.eq(threading.call_method0("get_ident")?)?;
    IS_MAIN.set(Some(result));
    Ok(result)
}

/// Forgets which thread is the main one: in a forked child it is the only thread.
pub(super) fn forget_main_thread() {
    IS_MAIN.set(None);
}

/// Runs `work`, which stops when a signal handler raises.
pub(super) fn with_signal_checks<T>(is_main: bool, work: impl FnOnce() -> T) -> T {
    if is_main { interrupt::interruptible(poll_signals, work) } else { work() }
}

/// Returns and clears the exception that a handler raised during the work of this thread.
pub(super) fn take_handler_error() -> Option<PyErr> {
    HANDLER_ERROR.take()
}

/// Runs the handlers of pending signals. Returns true if one raised, or if the grace period of a
/// run that has to stop is over (`rlox.stopping`).
fn poll_signals() -> bool {
    let start = Instant::now();
    if NEXT_POLL.get().is_some_and(|time| start < time) {
        return false;
    }
    let raised = Python::try_attach(|py| py.check_signals().and_then(|()| check_expired(py)).err()).flatten();
    let end = Instant::now();
    NEXT_POLL.set(Some(end + MAX_POLL_INTERVAL.min(WORK_PER_POLL * (end - start))));
    let should_stop = raised.is_some();
    if should_stop {
        HANDLER_ERROR.set(raised);
    }
    should_stop
}

/// # Errors
/// `StopRequested` if the grace period of a stop request is over.
fn check_expired(py: Python<'_>) -> PyResult<()> {
    py.import("rlox.stopping")?.call_method0("raise_if_expired").map(drop)
}
