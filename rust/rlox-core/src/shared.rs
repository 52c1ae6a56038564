//! An object that several threads use, and that a thread in need can leave.

use std::cell::RefCell;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::{Error, Result};
use crate::interrupt;

/// A thread that waits asks whether to stop as often as this.
const PATIENCE: Duration = Duration::from_millis(20);

thread_local! {
    /// The locks that this thread waits for or holds, by address.
    static MARKED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// An object behind a lock. What takes several steps, such as a save, writes to the disk without it.
#[derive(Debug)]
pub struct Shared<B> {
    object: RwLock<B>,
    /// Held by whoever does something in several steps, such as a save: one at a time, beside those
    /// who read and write.
    alone: Mutex<()>,
}

impl<B> Shared<B> {
    /// An object to be shared.
    pub const fn new(object: B) -> Self {
        Self { object: RwLock::new(object), alone: Mutex::new(()) }
    }

    /// The object, if nobody writes now.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, B>> {
        self.object.try_read()
    }

    /// The object to be changed, if nobody else uses it now.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, B>> {
        self.object.try_write()
    }

    /// What `look` sees, after waiting until nobody writes.
    ///
    /// # Errors
    /// [`Error::Interrupted`] while waiting; [`Error::Config`] if this thread uses the object already
    /// (a signal handler called, in the middle of a call): it would wait for itself.
    pub fn read<T>(&self, look: impl FnOnce(&B) -> T) -> Result<T> {
        let _mark = Mark::of(&self.object)?;
        loop {
            if let Some(object) = self.object.try_read_for(PATIENCE) {
                return Ok(look(&object));
            }
            between_tries()?;
        }
    }

    /// What `change` does, after waiting until nobody uses the object.
    ///
    /// # Errors
    /// As [`Shared::read`].
    pub fn write<T>(&self, change: impl FnOnce(&mut B) -> T) -> Result<T> {
        let _mark = Mark::of(&self.object)?;
        loop {
            if let Some(mut object) = self.object.try_write_for(PATIENCE) {
                return Ok(change(&mut object));
            }
            between_tries()?;
        }
    }

    /// Waits until no other thread does something in several steps.
    ///
    /// # Errors
    /// As [`Shared::read`].
    pub(crate) fn alone(&self) -> Result<Alone<'_>> {
        let mark = Mark::of(&self.alone)?;
        loop {
            if let Some(guard) = self.alone.try_lock_for(PATIENCE) {
                return Ok(Alone { _guard: guard, _mark: mark });
            }
            between_tries()?;
        }
    }
}

/// What a thread does that did not get a lock.
fn between_tries() -> Result<()> {
    // One that holds another lock must not leave it to a child of a fork.
    if MARKED.with_borrow(|marked| marked.len() == 1) {
        interrupt::step_aside();
    }
    interrupt::check()
}

/// While it lives, its thread is the only one that does something in several steps.
pub(crate) struct Alone<'a> {
    _guard: MutexGuard<'a, ()>,
    _mark: Mark,
}

/// A lock that this thread waits for or holds: it must not wait for it once more.
struct Mark;

impl Mark {
    fn of<L>(lock: &L) -> Result<Self> {
        let address = std::ptr::from_ref(lock).addr();
        if MARKED.with_borrow(|marked| marked.contains(&address)) {
            let expected = "another object, or a call after the handler has returned";
            let got = "in use by the call that this signal handler interrupted";
            return Err(Error::config("object", got, expected));
        }
        MARKED.with_borrow_mut(|marked| marked.push(address));
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
