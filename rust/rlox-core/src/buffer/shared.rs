//! A buffer that several threads use.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::error::Result;
use crate::interrupt;

/// A thread that waits asks whether to stop as often as this.
const PATIENCE: Duration = Duration::from_millis(20);

/// A buffer behind a lock that is held for memory only, never for the disk.
#[derive(Debug)]
pub struct Shared<B> {
    buffer: RwLock<B>,
    /// Held by whoever saves or replaces the rows: one at a time, beside readers and writers.
    saving: Mutex<()>,
}

impl<B> Shared<B> {
    /// A buffer to be shared.
    pub const fn new(buffer: B) -> Self {
        Self { buffer: RwLock::new(buffer), saving: Mutex::new(()) }
    }

    /// The buffer, if nobody writes now.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, B>> {
        self.buffer.try_read()
    }

    /// The buffer to be changed, if nobody else uses it now.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, B>> {
        self.buffer.try_write()
    }

    /// What `look` sees, after waiting until nobody writes.
    ///
    /// # Errors
    /// [`Error::Interrupted`](crate::Error::Interrupted) while waiting.
    pub fn read<T>(&self, look: impl FnOnce(&B) -> T) -> Result<T> {
        loop {
            if let Some(buffer) = self.buffer.try_read_for(PATIENCE) {
                return Ok(look(&buffer));
            }
            interrupt::check()?;
        }
    }

    /// What `change` does, after waiting until nobody uses the buffer.
    ///
    /// # Errors
    /// As [`Shared::read`].
    pub fn write<T>(&self, change: impl FnOnce(&mut B) -> T) -> Result<T> {
        loop {
            if let Some(mut buffer) = self.buffer.try_write_for(PATIENCE) {
                return Ok(change(&mut buffer));
            }
            interrupt::check()?;
        }
    }

    /// Waits until no other thread saves or replaces the rows.
    pub(super) fn alone(&self) -> Result<MutexGuard<'_, ()>> {
        loop {
            if let Some(alone) = self.saving.try_lock_for(PATIENCE) {
                return Ok(alone);
            }
            interrupt::check()?;
        }
    }
}

/// How work of several steps reaches a buffer: each step has it alone, or with other readers.
pub(super) trait Access<B> {
    /// What `look` sees.
    fn read<T>(&mut self, look: impl FnOnce(&B) -> T) -> Result<T>;

    /// What `change` does.
    fn write<T>(&mut self, change: impl FnOnce(&mut B) -> T) -> Result<T>;
}

/// A buffer that nobody else can use.
pub(super) struct Direct<'a, B>(pub &'a mut B);

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
