//! Signals during long work. Python handles signals in its main thread, between Python
//! instructions, and none run during a call of this crate. Therefore the work polls for signals.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rlox_core::interrupt;

/// A poll takes the GIL, which a busy thread releases only after a while. Polls take at most a 20th
/// of the time, unless that would delay the next poll by more than 80 ms.
const SHARE: u32 = 20;
const SOON: Duration = Duration::from_millis(80);

thread_local! {
    static IS_MAIN: Cell<Option<bool>> = const { Cell::new(None) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    static NOT_BEFORE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Whether this is the thread in which Python handles signals.
///
/// # Errors
/// The exception of a handler that Python ran during the query.
pub(super) fn is_main(py: Python<'_>) -> PyResult<bool> {
    if let Some(known) = IS_MAIN.get() {
        return Ok(known);
    }
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    let answer = main.eq(threading.call_method0("get_ident")?)?;
    IS_MAIN.set(Some(answer));
    Ok(answer)
}

/// Forgets which thread is the main one: in a forked child the only thread is.
pub(super) fn forget_main() {
    IS_MAIN.set(None);
}

/// Runs `work`, which stops when a signal handler raises.
pub(super) fn listening<T>(is_main: bool, work: impl FnOnce() -> T) -> T {
    if is_main { interrupt::interruptible(has_raised, work) } else { work() }
}

/// Returns and clears the exception that a handler raised during the work of this thread.
pub(super) fn raised() -> Option<PyErr> {
    RAISED.take()
}

/// Runs the handlers of pending signals. Returns true if one raised, or if the grace period of a
/// run that has to stop is over (`rlox.stopping`).
fn has_raised() -> bool {
    let begun = Instant::now();
    if NOT_BEFORE.get().is_some_and(|time| begun < time) {
        return false;
    }
    let raised =
        Python::try_attach(|py| py.check_signals().and_then(|()| abandoned(py)).err()).flatten();
    let done = Instant::now();
    NOT_BEFORE.set(Some(done + SOON.min(SHARE * (done - begun))));
    let stop = raised.is_some();
    if stop {
        RAISED.set(raised);
    }
    stop
}

/// # Errors
/// `Abandoned` if work of this kind has to be given up.
fn abandoned(py: Python<'_>) -> PyResult<()> {
    py.import("rlox.stopping")?.call_method0("raise_if_expired").map(drop)
}
