//! Locks of objects. No thread waits for such a lock while it holds the GIL.

use pyo3::prelude::*;
use rlox_core::{Result, Shared};

use super::{ALWAYS_RELEASE, MIN_RELEASE_NANOSECONDS, detached};

/// Runs `work`, which takes about `nanoseconds`, while nobody writes to the object.
///
/// A free lock is taken at once. For a lock that is held, the thread waits without the GIL, because
/// the holder may need the GIL before it releases the lock.
pub(crate) fn with_read_lock<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < MIN_RELEASE_NANOSECONDS
        && let Some(guard) = object.try_read()
    {
        let value: &B = &guard;
        return detached(py, nanoseconds, || work(value));
    }
    detached(py, ALWAYS_RELEASE, || object.read(work)?)
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses either object.
///
/// Every call locks the environments before the object that acts in them, so that no two calls wait
/// for each other.
pub(crate) fn with_write_locks<A: Send + Sync, B: Send + Sync, T: Send>(
    py: Python<'_>,
    envs: &Shared<A>,
    actor: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut A, &mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < MIN_RELEASE_NANOSECONDS
        && let Some(mut first) = envs.try_write()
        && let Some(mut second) = actor.try_write()
    {
        let (first, second): (&mut A, &mut B) = (&mut first, &mut second);
        return detached(py, nanoseconds, || {
            let _guards = (envs.poison_on_panic(), actor.poison_on_panic());
            work(first, second)
        });
    }
    detached(py, ALWAYS_RELEASE, || {
        envs.write(|envs| actor.write(|locked_actor| work(envs, locked_actor)))??
    })
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses the object.
pub(crate) fn with_write_lock<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < MIN_RELEASE_NANOSECONDS
        && let Some(mut guard) = object.try_write()
    {
        let value: &mut B = &mut guard;
        return detached(py, nanoseconds, || {
            let _guard = object.poison_on_panic();
            work(value)
        });
    }
    detached(py, ALWAYS_RELEASE, || object.write(work)?)
}
