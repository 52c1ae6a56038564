//! Forks of a process whose other threads are at work.
//!
//! A child has the memory of its parent but only the thread that forked. What another thread was
//! in the middle of would stay so for ever: a lock that nobody gives back, a buffer half written.
//! So `os.fork` waits until no work is outside the interpreter, and none leaves it meanwhile. Work
//! that keeps the GIL needs no care: the thread that forks holds it.

use std::cell::Cell;
use std::convert::Infallible;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCFunction, PyDict};
use rlox_core::{Result, interrupt};

use super::gate::Gate;
use super::signals;
use crate::memory::views;
use crate::sync::AtomicUsize;

static GATE: Gate = Gate(AtomicUsize::new(0));

thread_local! {
    /// Works of this thread: more than one if a signal handler called, in the middle of one.
    static OWN: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` while no thread forks.
///
/// # Errors
/// `Error::Interrupted` if that was asked for before the work began.
pub(super) fn within<T>(work: impl FnOnce() -> T) -> Result<T> {
    GATE.enter(OWN.get() > 0, interrupt::check)?;
    OWN.set(OWN.get() + 1);
    let _leave = Leave;
    Ok(work())
}

/// Ends a work, also if it panics.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        OWN.set(OWN.get() - 1);
        GATE.leave();
    }
}

/// Lets threads fork that this one, which holds no lock and waits for one, may be waiting for.
fn step_aside() {
    if OWN.get() == 1 {
        GATE.leave();
        let Ok(()) = GATE.enter(false, || Ok::<_, Infallible>(()));
    }
}

/// Has `os.fork` call the functions below, from the first time that work leaves the interpreter.
pub(super) fn prepare(py: Python<'_>) -> PyResult<()> {
    static READY: PyOnceLock<()> = PyOnceLock::new();
    READY.get_or_try_init(py, || register(py)).copied()
}

fn register(py: Python<'_>) -> PyResult<()> {
    interrupt::while_waiting(step_aside);
    let hooks = PyDict::new(py);
    let add = |name, hook: fn(Python<'_>)| -> PyResult<()> {
        let call = PyCFunction::new_closure(py, None, None, move |args, _| hook(args.py()))?;
        hooks.set_item(name, call)
    };
    add("before", before)?;
    add("after_in_parent", after_in_parent)?;
    add("after_in_child", after_in_child)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}

/// Waits, without the GIL, until only works of this thread are left, and keeps others from leaving.
fn before(py: Python<'_>) {
    GATE.close();
    let own = OWN.get();
    if GATE.is_busy(own) {
        py.detach(|| GATE.wait(own));
    }
}

fn after_in_parent(_py: Python<'_>) {
    GATE.open();
}

/// Forgets the threads that the child does not have.
fn after_in_child(py: Python<'_>) {
    GATE.restart(OWN.get());
    rlox_core::after_fork_in_child();
    rlox_core::store::after_fork_in_child();
    signals::forget_main();
    views::forget_other_threads(py);
}
