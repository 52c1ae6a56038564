//! What keeps works and forks apart: a fork waits until no work is under way, and none begins meanwhile.
//!
//! tests/gate_model.rs puts loom's atomics in their place and tries every order of the threads' steps.

use crate::sync::{AtomicUsize, Ordering, pause};

/// What a fork adds; a work adds 1.
const FORK: usize = 1 << (usize::BITS / 2);

/// How many works are under way and how many forks wait or are made: one number, so that whichever
/// comes second sees the first.
pub(crate) struct Gate(pub AtomicUsize);

impl Gate {
    /// Begins a work once no thread forks; a `nested` one at once, as a fork waits for the one around
    /// it.
    ///
    /// # Errors
    /// What `check` gives, which is asked while waiting: the work has not begun then.
    pub(crate) fn enter<E>(
        &self,
        nested: bool,
        check: impl Fn() -> Result<(), E>,
    ) -> Result<(), E> {
        let mut before = self.0.load(Ordering::Acquire);
        loop {
            if before >= FORK && !nested {
                pause();
                check()?;
                before = self.0.load(Ordering::Acquire);
                continue;
            }
            let entered =
                self.0.compare_exchange(before, before + 1, Ordering::AcqRel, Ordering::Acquire);
            match entered {
                Ok(_) => return Ok(()),
                Err(now) => before = now,
            }
        }
    }

    /// Ends a work.
    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }

    /// Keeps works from beginning until [`Gate::open`].
    pub(crate) fn close(&self) {
        self.0.fetch_add(FORK, Ordering::AcqRel);
    }

    /// Whether works are under way besides the caller's `own`.
    pub(crate) fn is_busy(&self, own: usize) -> bool {
        self.0.load(Ordering::Acquire) % FORK > own
    }

    /// Waits until [`Gate::is_busy`] is over.
    pub(crate) fn wait(&self, own: usize) {
        while self.is_busy(own) {
            pause();
        }
    }

    /// Ends [`Gate::close`].
    pub(crate) fn open(&self) {
        self.0.fetch_sub(FORK, Ordering::AcqRel);
    }

    /// In a forked child: only the caller's `own` works are left, and nobody forks.
    pub(crate) fn restart(&self, own: usize) {
        self.0.store(own, Ordering::Release);
    }
}
