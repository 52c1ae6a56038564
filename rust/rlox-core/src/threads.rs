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
const SIZE_VARIABLES: [&str; 2] = ["RLOX_THREADS", "RAYON_NUM_THREADS"];

/// The size that [`set`] received; 0 for none.
static CHOSEN_SIZE: AtomicUsize = AtomicUsize::new(0);

/// The default size; 0 until it is computed.
static DEFAULT_SIZE: AtomicUsize = AtomicUsize::new(0);

/// The pool; None until a call needs it.
static POOL: RwLock<Option<Pool>> = RwLock::new(None);

thread_local! {
    /// Whether this thread belongs to a pool.
    static IS_POOL_THREAD: Cell<bool> = const { Cell::new(false) };
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
    match CHOSEN_SIZE.load(Ordering::Relaxed) {
        0 => default_size(),
        size => size,
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
    CHOSEN_SIZE.store(count.unwrap_or(0), Ordering::Relaxed);
    Ok(())
}

/// Runs both closures, possibly at the same time.
pub fn join<L: Send, R: Send>(left: impl FnOnce() -> L + Send, right: impl FnOnce() -> R + Send) -> (L, R) {
    if IS_POOL_THREAD.get() {
        return rayon::join(left, right);
    }
    match pool() {
        Some(pool) => pool.join(left, right),
        None => (left(), right()),
    }
}

/// Divides `items` into parts of `size` elements and calls `work(i, part)` for every part i. The last
/// part may be shorter.
pub fn for_each_chunk<T: Send>(items: &mut [T], size: usize, work: impl Fn(usize, &mut [T]) + Send + Sync) {
    for_each_chunk_from(items, size.max(1), 0, &work);
}

/// Does the work of [`for_each_chunk`] for parts that are numbered from `first` on.
fn for_each_chunk_from<T: Send>(
    items: &mut [T],
    size: usize,
    first: usize,
    work: &(impl Fn(usize, &mut [T]) + Send + Sync),
) {
    let half = items.len().div_ceil(size) / 2;
    if half == 0 {
        if !items.is_empty() {
            work(first, items);
        }
        return;
    }
    let (left, right) = items.split_at_mut(half * size);
    join(
        || for_each_chunk_from(left, size, first, work),
        || for_each_chunk_from(right, size, first + half, work),
    );
}

/// Returns the size that the environment variables or the machine give.
fn default_size() -> usize {
    let cached_size = DEFAULT_SIZE.load(Ordering::Relaxed);
    if cached_size > 0 {
        return cached_size;
    }
    let variable_size = SIZE_VARIABLES.iter().find_map(|name| {
        let size = std::env::var(name).ok()?.trim().parse().ok()?;
        (1..=MAX).contains(&size).then_some(size)
    });
    // The number of CPUs respects affinity and control group.
    let usable_cpus = || std::thread::available_parallelism().map_or(1, usize::from).min(MAX);
    let size = variable_size.unwrap_or_else(usable_cpus);
    DEFAULT_SIZE.store(size, Ordering::Relaxed);
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
    let is_current = |pool: &&Pool| pool.process == process && pool.size == size;
    if let Some(pool) = guard_if_free(POOL.try_read())?.as_ref().filter(is_current) {
        return pool.threads.clone();
    }
    let mut slot = guard_if_free(POOL.try_write())?;
    if let Some(pool) = slot.as_ref().filter(is_current) {
        return pool.threads.clone();
    }
    let builder = ThreadPoolBuilder::new()
        .num_threads(size)
        .thread_name(|index| format!("rlox-{index}"))
        .start_handler(|_| IS_POOL_THREAD.set(true));
    let threads = builder.build().ok().map(Arc::new);
    let previous = slot.replace(Pool { process, size, threads: threads.clone() });
    drop(slot);
    if previous.as_ref().is_some_and(|pool| pool.process != process) {
        // The previous pool is the parent's. To end its threads would take locks that some of them
        // held at the fork.
        std::mem::forget(previous);
    }
    threads
}

/// Returns the guard if the lock was free.
fn guard_if_free<G>(attempt: std::result::Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        // No change of the pool can panic half-way.
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
