//! The lock of an object and the interpreter's, never waited for together.

use std::cell::RefCell;
use std::time::Duration;

use parking_lot::RwLock;
use pyo3::prelude::*;
use rlox_core::{Error, Result, interrupt};

use super::{LONG, RELEASE_FROM, detached};

/// How long a thread waits for a lock before it looks whether to stop.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// The locks that this thread holds in works outside the interpreter, by address.
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work`, which takes about `nanoseconds`, while nobody writes to the object.
///
/// A free lock is taken at once; one that is held is waited for without the GIL, because its
/// holder may need the GIL to let it go.
pub(crate) fn reading<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &RwLock<B>,
    nanoseconds: usize,
    work: impl FnOnce(&B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(held) = object.try_read()
    {
        let held: &B = &held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, LONG, || {
        let _mark = Mark::set(object)?;
        work(&*patiently(|| object.try_read_for(PATIENCE))?)
    })
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses the object.
pub(crate) fn writing<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &RwLock<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(mut held) = object.try_write()
    {
        let held: &mut B = &mut held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, LONG, || {
        let _mark = Mark::set(object)?;
        work(&mut *patiently(|| object.try_write_for(PATIENCE))?)
    })
}

/// The guard that one of the attempts gives.
fn patiently<G>(attempt: impl Fn() -> Option<G>) -> Result<G> {
    loop {
        if let Some(guard) = attempt() {
            return Ok(guard);
        }
        interrupt::check()?;
    }
}

/// Marks a lock as held by this thread.
struct Mark;

impl Mark {
    /// # Errors
    /// If this thread holds it already: a signal handler called, in the middle of a work, and would
    /// wait for what it interrupted.
    fn set<B>(object: &RwLock<B>) -> Result<Self> {
        let address = std::ptr::from_ref(object).addr();
        if HELD.with_borrow(|held| held.contains(&address)) {
            let expected = "another object, or a call after the handler has returned";
            let got = "in use by the call that this signal handler interrupted";
            return Err(Error::config("object", got, expected));
        }
        HELD.with_borrow_mut(|held| held.push(address));
        Ok(Self)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        HELD.with_borrow_mut(Vec::pop);
    }
}
