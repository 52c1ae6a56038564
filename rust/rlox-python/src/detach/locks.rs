//! Locks of objects. No thread waits for such a lock while it holds the GIL.

use pyo3::prelude::*;
use rlox_core::{Result, Shared};

use super::{LONG, RELEASE_FROM, detached};

/// Runs `work`, which takes about `nanoseconds`, while nobody writes to the object.
///
/// A free lock is taken at once. For a lock that is held, the thread waits without the GIL, because
/// the holder may need the GIL before it releases the lock.
pub(crate) fn reading<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(held) = object.try_read()
    {
        let held: &B = &held;
        return detached(py, nanoseconds, || work(held));
    }
    detached(py, LONG, || object.read(work)?)
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses either object.
///
/// Every call locks the environments before the object that acts in them, so that no two calls wait
/// for each other.
pub(crate) fn writing_both<A: Send + Sync, B: Send + Sync, T: Send>(
    py: Python<'_>,
    envs: &Shared<A>,
    acts: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut A, &mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(mut first) = envs.try_write()
        && let Some(mut second) = acts.try_write()
    {
        let (first, second): (&mut A, &mut B) = (&mut first, &mut second);
        return detached(py, nanoseconds, || {
            let _broken = (envs.breaks_if_panicking(), acts.breaks_if_panicking());
            work(first, second)
        });
    }
    detached(py, LONG, || envs.write(|envs| acts.write(|acts| work(envs, acts)))??)
}

/// Runs `work`, which takes about `nanoseconds`, while nobody else uses the object.
pub(crate) fn writing<B: Send + Sync, T: Send>(
    py: Python<'_>,
    object: &Shared<B>,
    nanoseconds: usize,
    work: impl FnOnce(&mut B) -> Result<T> + Send,
) -> PyResult<T> {
    if nanoseconds < RELEASE_FROM
        && let Some(mut held) = object.try_write()
    {
        let held: &mut B = &mut held;
        return detached(py, nanoseconds, || {
            let _broken = object.breaks_if_panicking();
            work(held)
        });
    }
    detached(py, LONG, || object.write(work)?)
}
