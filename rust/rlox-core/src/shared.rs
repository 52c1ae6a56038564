//! An object that several threads use, and that a thread in need can leave.

use std::cell::RefCell;
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result};
use crate::interrupt;

/// A thread that waits asks whether to stop as often as this.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// What this thread waits for or holds: the addresses of locks, and turns.
    static MARKED: RefCell<Vec<Marked>> = const { RefCell::new(Vec::new()) };
}

/// An object behind a lock. What takes several steps, such as a save, writes to the disk without it.
#[derive(Debug)]
pub struct Shared<B> {
    object: RwLock<B>,
    turn: Turn,
    /// Whether a call that changed it panicked, so that it may be half changed.
    broken: AtomicBool,
}

/// Whoever does something in several steps, such as a save, has it: one at a time, beside those who
/// read and write.
///
/// A fork may come between two steps, so the child of one takes it from threads that it does not have.
#[derive(Debug)]
struct Turn {
    /// The process whose thread has it; 0 if nobody has.
    holder: Arc<AtomicU32>,
    waiting: Mutex<()>,
    given: Condvar,
}

impl<B> Shared<B> {
    /// An object to be shared.
    pub fn new(object: B) -> Self {
        let turn = Turn { holder: Arc::default(), waiting: Mutex::new(()), given: Condvar::new() };
        Self { object: RwLock::new(object), turn, broken: AtomicBool::new(false) }
    }

    /// The object, if nobody writes now and no call that changed it panicked.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, B>> {
        self.object.try_read().filter(|_| self.whole().is_ok())
    }

    /// The object to be changed, if nobody else uses it now and no call that changed it panicked.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, B>> {
        self.object.try_write().filter(|_| self.whole().is_ok())
    }

    /// Whoever changes the object by `try_write` keeps this meanwhile: if the thread panics, later calls are
    /// refused. [`Shared::write`] has it of its own.
    pub fn breaks_if_panicking(&self) -> BreaksIfPanicking<'_> {
        BreaksIfPanicking(&self.broken)
    }

    /// # Errors
    /// [`Error::Internal`] if a call that changed the object panicked.
    fn whole(&self) -> Result<()> {
        if self.broken.load(Ordering::Acquire) {
            let what = "a call to this object failed in the middle of a change".into();
            return Err(Error::Internal { what });
        }
        Ok(())
    }

    /// What `look` sees, after waiting until nobody writes.
    ///
    /// # Errors
    /// [`Error::Interrupted`] while waiting; [`Error::Config`] if this thread uses the object already
    /// (a signal handler called, in the middle of a call): it would wait for itself; [`Error::Internal`] if
    /// a call that changed the object panicked.
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

    /// What `change` does, after waiting until nobody uses the object.
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

    /// Waits until no other thread does something in several steps.
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

/// Marks an object as half changed if its thread panics while this lives.
#[derive(Debug)]
pub struct BreaksIfPanicking<'a>(&'a AtomicBool);

impl Drop for BreaksIfPanicking<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, Ordering::Release);
        }
    }
}

/// What a thread does that did not get what it waits for, which is a mark of `locks` locks.
fn between_tries(locks: usize) -> Result<()> {
    let is_lock = |marked: &&Marked| matches!(marked, Marked::Lock(_));
    // One that holds another lock must not leave it to a child of a fork.
    if MARKED.with_borrow(|marked| marked.iter().filter(is_lock).count() == locks) {
        interrupt::step_aside();
    }
    interrupt::check()
}

/// In the child of a fork, whose only thread is the one that forked: what it has stays its own.
pub fn after_fork_in_child() {
    MARKED.with_borrow(|marked| {
        for marked in marked {
            if let Marked::Turn(holder) = marked {
                holder.store(process::id(), Ordering::Release);
            }
        }
    });
}

/// While it lives, its thread is the only one that does something in several steps.
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

/// What this thread waits for or holds: it must not wait for it once more.
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
    /// Marks end in the order opposite to that of their beginnings.
    fn drop(&mut self) {
        MARKED.with_borrow_mut(Vec::pop);
    }
}

/// How work of several steps reaches an object: each step has it alone, or with other readers.
pub(crate) trait Access<B> {
    /// What `look` sees.
    fn read<T>(&mut self, look: impl FnOnce(&B) -> T) -> Result<T>;

    /// What `change` does.
    fn write<T>(&mut self, change: impl FnOnce(&mut B) -> T) -> Result<T>;
}

/// An object that nobody else can use.
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
