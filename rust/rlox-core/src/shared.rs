//! An object that several threads share. A thread that waits for it can be interrupted.

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};

use crate::error::{Error, Result};
use crate::interrupt;

/// Interval at which a waiting thread checks for an interrupt.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

thread_local! {
    /// Resources that this thread waits for or holds.
    static MARKED_RESOURCES: RefCell<Vec<Resource>> = const { RefCell::new(Vec::new()) };
}

/// An object behind a lock. Work in several steps, such as a save, does not hold the lock while it
/// writes to the disk.
#[derive(Debug)]
pub struct Shared<B> {
    object: RwLock<B>,
    multi_step_lock: MultiStepLock,
    /// Whether a call that changed the object panicked, so that the object may be half changed.
    poisoned: AtomicBool,
}

/// A lock for work in several steps, such as a save. One thread at a time does such work, while
/// other threads read and write the object.
///
/// A process may fork between two steps. The child then takes the lock from threads that it does
/// not have.
#[derive(Debug)]
struct MultiStepLock {
    /// The process whose thread holds the lock; 0 for none.
    holder: Arc<AtomicU32>,
    mutex: Mutex<()>,
    released: Condvar,
}

impl<B> Shared<B> {
    /// Returns a shared object.
    pub fn new(object: B) -> Self {
        let multi_step_lock =
            MultiStepLock { holder: Arc::default(), mutex: Mutex::new(()), released: Condvar::new() };
        Self { object: RwLock::new(object), multi_step_lock, poisoned: AtomicBool::new(false) }
    }

    /// Returns the object if no thread writes now and no call that changed it panicked.
    pub fn try_read(&self) -> Option<impl Deref<Target = B>> {
        self.object.try_read().filter(|_| self.check_intact().is_ok())
    }

    /// Returns the object for changes if no other thread uses it now and no call that changed it
    /// panicked.
    pub fn try_write(&self) -> Option<impl DerefMut<Target = B>> {
        self.object.try_write().filter(|_| self.check_intact().is_ok())
    }

    /// Returns a guard for a caller that changes the object by `try_write`. If the thread panics
    /// while the guard lives, later calls are refused. [`Shared::write`] has its own guard.
    pub fn poison_on_panic(&self) -> PoisonOnPanic<'_> {
        PoisonOnPanic(&self.poisoned)
    }

    /// Checks that no call left the object half changed.
    ///
    /// # Errors
    /// [`Error::Internal`] if a call that changed the object panicked.
    fn check_intact(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            let what = "a call to this object failed in the middle of a change".into();
            return Err(Error::Internal { what });
        }
        Ok(())
    }

    /// Returns the result of `look`. Waits until no thread writes.
    ///
    /// # Errors
    /// [`Error::Interrupted`] while waiting. [`Error::Config`] if this thread already uses the
    /// object, because a signal handler makes this call in the middle of another one. The thread
    /// would wait for itself. [`Error::Internal`] if a call that changed the object panicked.
    pub fn read<T>(&self, look: impl FnOnce(&B) -> T) -> Result<T> {
        let _mark = Mark::new(Resource::Lock(std::ptr::from_ref(&self.object).addr()))?;
        loop {
            if let Some(object) = self.object.try_read_for(CHECK_INTERVAL) {
                self.check_intact()?;
                return Ok(look(&object));
            }
            check_while_waiting(1)?;
        }
    }

    /// Returns the result of `change`. Waits until no other thread uses the object.
    ///
    /// # Errors
    /// As [`Shared::read`].
    pub fn write<T>(&self, change: impl FnOnce(&mut B) -> T) -> Result<T> {
        let _mark = Mark::new(Resource::Lock(std::ptr::from_ref(&self.object).addr()))?;
        loop {
            if let Some(mut object) = self.object.try_write_for(CHECK_INTERVAL) {
                self.check_intact()?;
                let _poison_guard = self.poison_on_panic();
                return Ok(change(&mut object));
            }
            check_while_waiting(1)?;
        }
    }

    /// Waits until no other thread does work in several steps, and returns the guard for such work.
    ///
    /// # Errors
    /// As [`Shared::read`].
    pub(crate) fn lock_multi_step(&self) -> Result<MultiStepGuard<'_>> {
        let lock = &self.multi_step_lock;
        let mark = Mark::new(Resource::MultiStepLock(Arc::clone(&lock.holder)))?;
        loop {
            let (process_id, holder) = (process::id(), lock.holder.load(Ordering::Acquire));
            let try_take =
                || lock.holder.compare_exchange(holder, process_id, Ordering::AcqRel, Ordering::Relaxed);
            if holder != process_id && try_take().is_ok() {
                return Ok(MultiStepGuard { lock, _mark: mark });
            }
            let mut wait_guard = lock.mutex.lock();
            if lock.holder.load(Ordering::Acquire) == process_id {
                lock.released.wait_for(&mut wait_guard, CHECK_INTERVAL);
            }
            drop(wait_guard);
            check_while_waiting(0)?;
        }
    }
}

/// A guard that marks the object as half changed if its thread panics.
#[derive(Debug)]
pub struct PoisonOnPanic<'a>(&'a AtomicBool);

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Handles forks and interrupts in a thread that waits. `n_marked_locks` is the number of locks among
/// the resources that the present wait has marked.
fn check_while_waiting(n_marked_locks: usize) -> Result<()> {
    let is_lock = |resource: &&Resource| matches!(resource, Resource::Lock(_));
    // A thread that holds another lock must not leave that lock to the child of a fork.
    if MARKED_RESOURCES.with_borrow(|resources| resources.iter().filter(is_lock).count() == n_marked_locks) {
        interrupt::run_wait_callback();
    }
    interrupt::check()
}

/// Makes this process the owner of the locks that the calling thread holds for work in several steps. It
/// is the child of a fork, and its only thread is the one that forked.
pub(crate) fn own_locks_of_forked_thread() {
    MARKED_RESOURCES.with_borrow(|resources| {
        for resource in resources {
            if let Resource::MultiStepLock(holder) = resource {
                holder.store(process::id(), Ordering::Release);
            }
        }
    });
}

/// A guard. While it lives, its thread is the only one that does work in several steps.
pub(crate) struct MultiStepGuard<'a> {
    lock: &'a MultiStepLock,
    _mark: Mark,
}

impl Drop for MultiStepGuard<'_> {
    fn drop(&mut self) {
        self.lock.holder.store(0, Ordering::Release);
        drop(self.lock.mutex.lock());
        self.lock.released.notify_one();
    }
}

enum Resource {
    Lock(usize),
    MultiStepLock(Arc<AtomicU32>),
}

/// An entry for a resource that this thread waits for or holds. The thread must not wait for the
/// same resource again.
struct Mark;

impl Mark {
    fn new(resource: Resource) -> Result<Self> {
        let is_same = |entry: &Resource| match (entry, &resource) {
            (Resource::Lock(one), Resource::Lock(other)) => one == other,
            (Resource::MultiStepLock(one), Resource::MultiStepLock(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if MARKED_RESOURCES.with_borrow(|resources| resources.iter().any(is_same)) {
            let expected = "another object, or a call after the handler has returned";
            let got = "in use by the call that this signal handler interrupted";
            return Err(Error::config("object", got, expected));
        }
        MARKED_RESOURCES.with_borrow_mut(|stack| stack.push(resource));
        Ok(Self)
    }
}

impl Drop for Mark {
    /// Marks are dropped in the reverse order of their creation.
    fn drop(&mut self) {
        MARKED_RESOURCES.with_borrow_mut(Vec::pop);
    }
}

/// Access to an object for work in several steps. Each step has the object alone, or shares it with
/// readers.
pub(crate) trait Access<B> {
    /// Returns the result of `look`.
    fn read<T>(&mut self, look: impl FnOnce(&B) -> T) -> Result<T>;

    /// Returns the result of `change`.
    fn write<T>(&mut self, change: impl FnOnce(&mut B) -> T) -> Result<T>;
}

/// An object that no other thread can use.
pub(crate) struct Direct<'a, B>(pub &'a mut B);

impl<B> Access<B> for Direct<'_, B> {
    fn read<T>(&mut self, look: impl FnOnce(&B) -> T) -> Result<T> {
        Ok(look(self.0))
    }

    fn write<T>(&mut self, change: impl FnOnce(&mut B) -> T) -> Result<T> {
        Ok(change(self.0))
    }
}

impl<B> Access<B> for &Shared<B> {
    fn read<T>(&mut self, look: impl FnOnce(&B) -> T) -> Result<T> {
        Shared::read(self, look)
    }

    fn write<T>(&mut self, change: impl FnOnce(&mut B) -> T) -> Result<T> {
        Shared::write(self, change)
    }
}
