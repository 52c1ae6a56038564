//! The gate that separates tasks and forks: a fork waits until no task runs, and no task starts
//! during a fork.
//!
//! tests/gate_model.rs replaces these atomics by loom's and tries every order of the threads'
//! steps.

use crate::sync::{AtomicUsize, Ordering, pause};

/// The amount that a fork adds to the counter; a task adds 1.
const FORK: usize = 1 << (usize::BITS / 2);

/// The number of running tasks and of forks that wait or run. It is one atomic number, so that the
/// later one of a task and a fork sees the earlier one.
pub(crate) struct Gate(pub AtomicUsize);

impl Gate {
    /// Begins a task when no thread forks. A `nested` task begins at once, because a fork waits for
    /// the task around it.
    ///
    /// # Errors
    /// The error of `check`, which is called during the wait. The task has not begun then.
    pub(crate) fn enter<E>(&self, nested: bool, check: impl Fn() -> Result<(), E>) -> Result<(), E> {
        let mut count = self.0.load(Ordering::Acquire);
        loop {
            if count >= FORK && !nested {
                pause();
                check()?;
                count = self.0.load(Ordering::Acquire);
                continue;
            }
            let exchange = self.0.compare_exchange(count, count + 1, Ordering::AcqRel, Ordering::Acquire);
            match exchange {
                Ok(_) => return Ok(()),
                Err(current) => count = current,
            }
        }
    }

    /// Ends a task.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Prevents tasks from beginning until [`Gate::open`].
    pub(crate) fn close(&self) {
        self.0.fetch_add(FORK, Ordering::AcqRel);
    }

    /// Whether tasks run besides the caller's own.
    pub(crate) fn is_busy(&self, own_tasks: usize) -> bool {
        self.0.load(Ordering::Acquire) % FORK > own_tasks
    }

    /// Waits until [`Gate::is_busy`] is false.
    pub(crate) fn wait(&self, own_tasks: usize) {
        while self.is_busy(own_tasks) {
            pause();
        }
    }

    /// Undoes [`Gate::close`].
    pub(crate) fn open(&self) {
        self.0.fetch_sub(FORK, Ordering::AcqRel);
    }

    /// Resets the gate in a forked child: only the caller's own tasks run, and nobody forks.
    pub(crate) fn reset(&self, own_tasks: usize) {
        self.0.store(own_tasks, Ordering::Release);
    }
}
