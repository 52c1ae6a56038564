//! The threads that share long work: one pool for the process, of a size that can be set.
//!
//! The size is, in this order: what [`set`] was given; the environment variable `RLOX_THREADS`, or
//! else `RAYON_NUM_THREADS`, if it is a number from 1 to [`MAX`]; the CPUs that the process may use.
//! No result depends on it. With one thread everything runs on the calling thread.
//!
//! A forked child has none of its parent's threads. The pool knows its process by number, so a child
//! makes a pool of its own at its first long call. Nothing here waits for a lock: where one is taken
//! (also by a thread that a fork left behind), the call goes on without helpers.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, TryLockError};

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, Result};

/// More threads than this are refused.
pub const MAX: usize = 1024;

/// Variables of the environment with the size, the first that is one counts.
const VARIABLES: [&str; 2] = ["RLOX_THREADS", "RAYON_NUM_THREADS"];

/// What [`set`] was given; 0 for nothing.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);

/// The size without a choice; 0 until it is looked up.
static USUAL: AtomicUsize = AtomicUsize::new(0);

/// The pool, once it was needed.
static POOL: RwLock<Option<Pool>> = RwLock::new(None);

thread_local! {
    /// Whether this thread belongs to a pool.
    static HELPER: Cell<bool> = const { Cell::new(false) };
}

/// Threads, and whose they are.
struct Pool {
    process: u32,
    size: usize,
    /// None if the system refused them.
    threads: Option<Arc<ThreadPool>>,
}

/// How many threads share long work.
#[must_use]
pub fn count() -> usize {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => usual(),
        chosen => chosen,
    }
}

/// Sets how many threads share long work; None is the default again. Calls that are under way keep
/// the threads that they have.
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

/// Runs both, possibly at the same time.
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

/// Calls `work(i, part)` for every part i of `size` elements of `all`; the last may be shorter.
pub fn for_each_chunk<T: Send>(
    all: &mut [T],
    size: usize,
    work: impl Fn(usize, &mut [T]) + Send + Sync,
) {
    halve(all, size.max(1), 0, &work);
}

/// [`for_each_chunk`] of parts that are numbered from `first` on.
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

/// The size that the environment or the machine says.
fn usual() -> usize {
    let known = USUAL.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let asked = VARIABLES.iter().find_map(|name| {
        let size = std::env::var(name).ok()?.trim().parse().ok()?;
        (1..=MAX).contains(&size).then_some(size)
    });
    // The CPUs that affinity and control group leave.
    let usable = || std::thread::available_parallelism().map_or(1, usize::from).min(MAX);
    let size = asked.unwrap_or_else(usable);
    USUAL.store(size, Ordering::Relaxed);
    size
}

/// This process's pool of the present size; None if one thread is enough or there is no other.
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
        // Of the parent: to end its threads would take locks that some of them held at the fork.
        std::mem::forget(before);
    }
    threads
}

/// A lock that was free.
fn unlocked<G>(tried: std::result::Result<G, TryLockError<G>>) -> Option<G> {
    match tried {
        Ok(guard) => Some(guard),
        // Nothing can panic half-way through a change of the pool.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
