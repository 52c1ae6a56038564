//! An object that several threads share. A thread that waits for it can be interrupted.

use std::cell::RefCell;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result};
use crate::interrupt;

/// Interval at which a waiting thread checks for an interrupt.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// Resources that this thread waits for or holds.
    static MARKED: RefCell<Vec<Marked>> = const { RefCell::new(Vec::new()) };
}

/// An object behind a lock. Work in several steps, such as a save, does not hold the lock while it
/// writes to the disk.
#[derive(Debug)]
pub struct Shared<B> {
    object: RwLock<B>,
    turn: Turn,
    /// Whether a call that changed the object panicked, so that the object may be half changed.
    broken: AtomicBool,
}

/// A lock for work in several steps, such as a save. One thread at a time does such work, while
/// other threads read and write the object.
///
/// A process may fork between two steps. The child then takes the lock from threads that it does
/// not have.
#[derive(Debug)]
struct Turn {
    /// The process whose thread holds the lock; 0 for none.
    holder: Arc<AtomicU32>,
    waiting: Mutex<()>,
    given: Condvar,
}

impl<B> Shared<B> {
    /// Returns a shared object.
    pub fn new(object: B) -> Self {
        let turn = Turn { holder: Arc::default(), waiting: Mutex::new(()), given: Condvar::new() };
        Self { object: RwLock::new(object), turn, broken: AtomicBool::new(false) }
    }

    /// Returns the object if no thread writes now and no call that changed it panicked.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, B>> {
        self.object.try_read().filter(|_| self.whole().is_ok())
    }

    /// Returns the object for changes if no other thread uses it now and no call that changed it
    /// panicked.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, B>> {
        self.object.try_write().filter(|_| self.whole().is_ok())
    }

    /// Returns a guard for a caller that changes the object by `try_write`. If the thread panics
    /// while the guard lives, later calls are refused. [`Shared::write`] has its own guard.
    pub fn breaks_if_panicking(&self) -> BreaksIfPanicking<'_> {
        BreaksIfPanicking(&self.broken)
    }

    /// Checks that no call left the object half changed.
    ///
    /// # Errors
    /// [`Error::Internal`] if a call that changed the object panicked.
    fn whole(&self) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            let what = "a call to this object failed in the middle of a change".into();
            return Err(Error::Internal { what });
        }
        Ok(())
    }

    /// Returns the result of `look`. Waits until no thread writes.
    ///
    /// # Errors
    /// [`Error::Interrupted`] while waiting. [`Error::Config`] if this thread already uses the
    /// object (a signal handler made this call in the middle of another one): it would wait for
    /// itself. [`Error::Internal`] if a call that changed the object panicked.
    pub fn read<T>(&self, look: impl FnOnce(&B) -> T) -> Result<T> {
        let _mark = Mark::of(Marked::Lock(std::ptr::from_ref(&self.object).addr()))?;
        loop {
            if let Some(object) = self.object.try_read_for(PATIENCE) {
                self.whole()?;
                return Ok(look(&object));
            }
            between_tries(1)?;
        }
    }

    /// Returns the result of `change`. Waits until no other thread uses the object.
    ///
    /// # Errors
    /// As [`Shared::read`].
    pub fn write<T>(&self, change: impl FnOnce(&mut B) -> T) -> Result<T> {
        let _mark = Mark::of(Marked::Lock(std::ptr::from_ref(&self.object).addr()))?;
        loop {
            if let Some(mut object) = self.object.try_write_for(PATIENCE) {
                self.whole()?;
                let _breaks = self.breaks_if_panicking();
                return Ok(change(&mut object));
            }
            between_tries(1)?;
        }
    }

    /// Waits until no other thread does work in several steps.
    ///
    /// # Errors
    /// As [`Shared::read`].
    pub(crate) fn alone(&self) -> Result<Alone<'_>> {
        let turn = &self.turn;
        let mark = Mark::of(Marked::Turn(Arc::clone(&turn.holder)))?;
        loop {
            let (own, holder) = (process::id(), turn.holder.load(Ordering::Acquire));
            let taken =
                || turn.holder.compare_exchange(holder, own, Ordering::AcqRel, Ordering::Relaxed);
            if holder != own && taken().is_ok() {
                return Ok(Alone { turn, _mark: mark });
            }
            let mut waiting = turn.waiting.lock();
            if turn.holder.load(Ordering::Acquire) == own {
                turn.given.wait_for(&mut waiting, PATIENCE);
            }
            drop(waiting);
            between_tries(0)?;
        }
    }
}

/// A guard that marks the object as half changed if its thread panics.
#[derive(Debug)]
pub struct BreaksIfPanicking<'a>(&'a AtomicBool);

impl Drop for BreaksIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// Handles forks and interrupts in a thread that waits. `locks` is the number of locks among the
/// resources that the present wait has marked.
fn between_tries(locks: usize) -> Result<()> {
    let is_lock = |marked: &&Marked| matches!(marked, Marked::Lock(_));
    // A thread that holds another lock must not leave that lock to the child of a fork.
    if MARKED.with_borrow(|marked| marked.iter().filter(is_lock).count() == locks) {
        interrupt::step_aside();
    }
    interrupt::check()
}

/// Makes this process the owner of the locks for work in several steps that its thread holds. The
/// child of a fork calls this; its only thread is the one that forked.
pub fn after_fork_in_child() {
    MARKED.with_borrow(|marked| {
        for marked in marked {
            if let Marked::Turn(holder) = marked {
                holder.store(process::id(), Ordering::Release);
            }
        }
    });
}

/// A guard. While it lives, its thread is the only one that does work in several steps.
pub(crate) struct Alone<'a> {
    turn: &'a Turn,
    _mark: Mark,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.turn.holder.store(0, Ordering::Release);
        drop(self.turn.waiting.lock());
        self.turn.given.notify_one();
    }
}

enum Marked {
    Lock(usize),
    Turn(Arc<AtomicU32>),
}

/// An entry for a resource that this thread waits for or holds. The thread must not wait for the
/// same resource again.
struct Mark;

impl Mark {
    fn of(what: Marked) -> Result<Self> {
        let same = |marked: &Marked| match (marked, &what) {
            (Marked::Lock(one), Marked::Lock(other)) => one == other,
            (Marked::Turn(one), Marked::Turn(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        if MARKED.with_borrow(|marked| marked.iter().any(same)) {
            let expected = "another object, or a call after the handler has returned";
            let got = "in use by the call that this signal handler interrupted";
            return Err(Error::config("object", got, expected));
        }
        MARKED.with_borrow_mut(|marked| marked.push(what));
        Ok(Self)
    }
}

impl Drop for Mark {
    /// Marks are dropped in the reverse order of their creation.
    fn drop(&mut self) {
        MARKED.with_borrow_mut(Vec::pop);
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
