//! The thread pool for long work. A process has one pool, and its size can be set.
//!
//! The size comes from the first of these sources that has one: [`set`]; the environment variable
//! `RLOX_THREADS`, or else `RAYON_NUM_THREADS`, if it is a number from 1 to [`MAX`]; the number of
//! CPUs that the process may use. No result depends on the size. With one thread everything runs on
//! the calling thread.
//!
//! A forked child has none of its parent's threads. The pool stores its process id, so a child
//! makes its own pool at its first long call. No function here waits for a lock. If a lock is taken
//! (also by a thread that a fork left behind), the call continues without helper threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, TryLockError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// Maximum number of threads.
pub const MAX: usize = 1024;

/// Environment variables with the size; the first one with a valid size counts.
const VARIABLES: [&str; 2] = ["RLOX_THREADS", "RAYON_NUM_THREADS"];

/// The size that [`set`] received; 0 for none.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// The default size; 0 until it is computed.
static USUAL: AtomicUsize = AtomicUsize::new(0);

/// The pool; None until a call needs it.
static POOL: RwLock<Option<Pool>> = RwLock::new(None);

thread_local! {
    /// Whether this thread belongs to a pool.
    static HELPER: Cell<bool> = const { Cell::new(false) };
}

/// A thread pool and the process that owns it.
struct Pool {
    process: u32,
    size: usize,
    /// None if the system refused to create the threads.
    threads: Option<Arc<ThreadPool>>,
}

/// Returns the number of threads that share long work.
#[must_use]
pub fn count() -> usize {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => usual(),
        chosen => chosen,
    }
}

/// Sets the number of threads that share long work; None restores the default. Running calls keep
/// their threads.
///
/// # Errors
/// [`Error::Config`] unless the number is in `1..=`[`MAX`].
pub fn set(count: Option<usize>) -> Result<()> {
    if let Some(count) = count
        && !(1..=MAX).contains(&count)
    {
        return Err(Error::config("number of threads", count, format!("1 to {MAX}")));
    }
    CHOSEN.store(count.unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// Runs both closures, possibly at the same time.
pub fn join<L: Send, R: Send>(
    left: impl FnOnce() -> L + Send,
    right: impl FnOnce() -> R + Send,
) -> (L, R) {
    if HELPER.get() {
        return rayon::join(left, right);
    }
    match pool() {
        Some(pool) => pool.join(left, right),
        None => (left(), right()),
    }
}

/// Calls `work(i, part)` for every part i of `size` elements of `all`; the last part may be
/// shorter.
pub fn for_each_chunk<T: Send>(
    all: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut [T]) + Send + Sync,
) {
    halve(all, size.max(1), 0, &work);
}

/// Does the work of [`for_each_chunk`] for parts that are numbered from `first` on.
fn halve<T: Send>(
    all: &mut [T],
    size: usize,
    first: usize,
    work: &(impl Fn(usize, &mut [T]) + Send + Sync),
) {
    let half = all.len().div_ceil(size) / 2;
    if half == 0 {
        if !all.is_empty() {
            work(first, all);
        }
        return;
    }
    let (left, right) = all.split_at_mut(half * size);
    join(|| halve(left, size, first, work), || halve(right, size, first + half, work));
}

/// Returns the size that the environment variables or the machine give.
fn usual() -> usize {
    let known = USUAL.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let asked = VARIABLES.iter().find_map(|name| {
        let size = std::env::var(name).ok()?.trim().parse().ok()?;
        (1..=MAX).contains(&size).then_some(size)
    });
    // The number of CPUs respects affinity and control group.
    let usable = || std::thread::available_parallelism().map_or(1, usize::from).min(MAX);
    let size = asked.unwrap_or_else(usable);
    USUAL.store(size, Ordering::Relaxed);
    size
}

/// Returns this process's pool of the present size. Returns None if one thread is enough or no pool
/// is available.
fn pool() -> Option<Arc<ThreadPool>> {
    let size = count();
    if size == 1 {
        return None;
    }
    let process = std::process::id();
    let fits = |pool: &&Pool| pool.process == process && pool.size == size;
    if let Some(pool) = unlocked(POOL.try_read())?.as_ref().filter(fits) {
        return pool.threads.clone();
    }
    let mut place = unlocked(POOL.try_write())?;
    if let Some(pool) = place.as_ref().filter(fits) {
        return pool.threads.clone();
    }
    let builder = ThreadPoolBuilder::new()
        .num_threads(size)
        .thread_name(|index| format!("rlox-{index}"))
        .start_handler(|_| HELPER.set(true));
    let threads = builder.build().ok().map(Arc::new);
    let before = place.replace(Pool { process, size, threads: threads.clone() });
    drop(place);
    if before.as_ref().is_some_and(|pool| pool.process != process) {
        // This pool is the parent's. To end its threads would take locks that some of them held at
        // the fork.
        std::mem::forget(before);
    }
    threads
}

/// Returns the guard if the lock was free.
fn unlocked<G>(tried: std::result::Result<G, TryLockError<G>>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        // No change of the pool can panic half-way.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
