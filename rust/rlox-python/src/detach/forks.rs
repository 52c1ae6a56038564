//! Forks of a process whose other threads run tasks.
//!
//! A child has the memory of its parent, but only the thread that forked. The half-done work of
//! other threads would stay half done for ever: a lock that nobody releases, a buffer that is half
//! written. Therefore `os.fork` waits until no task runs without the GIL, and meanwhile no such
//! task starts. Tasks that keep the GIL need no protection: the thread that forks holds the GIL.

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
    /// Number of running tasks of this thread: more than one if a signal handler called this crate
    /// during a task.
    static OWN_TASKS: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` while no thread forks.
///
/// # Errors
/// `Error::Interrupted` if an interrupt was requested before the task began.
pub(super) fn run_task<T>(work: impl FnOnce() -> T) -> Result<T> {
    GATE.enter(OWN_TASKS.get() > 0, interrupt::check)?;
    OWN_TASKS.set(OWN_TASKS.get() + 1);
    let _guard = TaskGuard;
    Ok(work())
}

/// A guard that ends a task, also after a panic.
struct TaskGuard;

impl Drop for TaskGuard {
    fn drop(&mut self) {
        OWN_TASKS.set(OWN_TASKS.get() - 1);
        GATE.leave();
    }
}

/// Lets other threads fork while this thread waits for a lock. This thread holds no lock meanwhile,
/// and the lock that it waits for may be held by a thread that wants to fork.
fn let_threads_fork() {
    if OWN_TASKS.get() == 1 {
        GATE.leave();
        let Ok(()) = GATE.enter(false, || Ok::<_, Infallible>(()));
    }
}

/// Registers the functions below with `os.register_at_fork`, the first time that a task runs without
/// the GIL.
pub(super) fn ensure_hooks(py: Python<'_>) -> PyResult<()> {
    static READY: PyOnceLock<()> = PyOnceLock::new();
    READY.get_or_try_init(py, || register_hooks(py)).copied()
}

fn register_hooks(py: Python<'_>) -> PyResult<()> {
    interrupt::set_wait_callback(let_threads_fork);
    let hooks = PyDict::new(py);
    let add = |name, hook: fn(Python<'_>)| -> PyResult<()> {
        let call = PyCFunction::new_closure(py, None, None, move |args, _| hook(args.py()))?;
        hooks.set_item(name, call)
    };
    add("before", before_fork)?;
    add("after_in_parent", after_in_parent)?;
    add("after_in_child", after_in_child)?;
    py.import("os")?.call_method("register_at_fork", (), Some(&hooks))?;
    Ok(())
}

/// Lets no new tasks start, and waits without the GIL until the tasks of all other threads are done.
fn before_fork(py: Python<'_>) {
    GATE.close();
    let own_tasks = OWN_TASKS.get();
    if GATE.is_busy(own_tasks) {
        py.detach(|| GATE.wait(own_tasks));
    }
}

fn after_in_parent(_py: Python<'_>) {
    GATE.open();
}

/// Forgets the threads that do not exist in the child.
fn after_in_child(py: Python<'_>) {
    GATE.reset(OWN_TASKS.get());
    rlox_core::after_fork_in_child();
    signals::forget_main_thread();
    views::forget_other_threads(py);
}
