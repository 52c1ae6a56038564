//! A replay buffer larger than memory: recent rows are in memory, older rows are on disk. In spite of
//! the name `mmap`, no files are memory-mapped.

mod buffer;
#[cfg(test)]
mod interleavings;
mod reopen;
mod steps;

pub use buffer::{MmapConfig, MmapReplayBuffer};

use self::steps::{close, flush, push, restore, save, seal};
use super::rows::{EnvIndex, Transitions};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::shared::{Access, Direct, Shared};

impl MmapReplayBuffer {
    /// Stores rows in blocks. Before a block, all rows are sealed if too many are only in memory.
    ///
    /// If the disk refuses a seal, the next push tries again, as long as memory has room.
    ///
    /// # Errors
    /// - The errors of [`MemoryRows::push`](super::MemoryRows::push). Nothing is stored then.
    /// - The errors of [`MmapReplayBuffer::flush`] if memory is full of rows that the disk does not
    ///   accept. The blocks before that are stored.
    pub fn push(&mut self, env_index: EnvIndex<'_>, rows: Transitions<'_>) -> Result<()> {
        push(&mut Direct(self), env_index, rows, seal)
    }

    /// Seals the rows that are only in memory, so that they survive the process.
    ///
    /// The newest row of an environment is left out while its next observation is not known.
    ///
    /// # Errors
    /// - [`Error::Storage`] if the disk fails or the lock file was removed or replaced.
    /// - [`Error::Damaged`] if a segment was removed or truncated.
    /// - [`Error::Config`] after `close`.
    pub fn flush(&mut self) -> Result<()> {
        flush(&mut Direct(self))
    }

    /// Saves the exact state as `name` in the folder of the rows. The rows are sealed first, and
    /// their files are kept for this save.
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::flush`].
    pub fn save(&mut self, name: &str) -> Result<()> {
        save(&mut Direct(self), name)
    }

    /// Restores the state that was saved as `name`. Rows that were sealed since then are dropped.
    ///
    /// # Errors
    /// Nothing is changed if there is an error.
    /// - [`Error::Missing`] if there is no such save.
    /// - [`Error::Damaged`] if the bytes of a file are not those that were written.
    /// - [`Error::Snapshot`] if the layout differs.
    pub fn restore(&mut self, name: &str) -> Result<()> {
        restore(&mut Direct(self), name)
    }

    /// Closes the buffer.
    ///
    /// If the files are to be kept, every row is sealed. Otherwise the files are removed, except
    /// those that a save of this or another buffer needs.
    ///
    /// # Errors
    /// The buffer stays open if there is an error.
    /// - The errors of [`MmapReplayBuffer::flush`].
    /// - [`Error::Damaged`] if the manifest of a save cannot be read, so that it is unknown which
    ///   segments the save needs.
    pub fn close(&mut self, keep_files: bool) -> Result<()> {
        close(&mut Direct(self), keep_files)
    }
}

/// The same methods for a buffer that several threads use. While one thread reads from the disk,
/// the others wait. While one thread writes to the disk, they do not wait.
impl Shared<MmapReplayBuffer> {
    /// Same as [`MmapReplayBuffer::push`].
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::push`].
    pub fn push(&self, env_index: EnvIndex<'_>, rows: Transitions<'_>) -> Result<()> {
        push(&mut &*self, env_index, rows, |buffer| {
            let _guard = buffer.lock_multi_step()?;
            // Another thread may have sealed rows in the meantime.
            let has_enough_room = buffer.read(|b| b.has_room() && b.max_unsealed_rows() < b.segment_rows)?;
            if has_enough_room { Ok(()) } else { seal(buffer) }
        })
    }

    /// Same as [`MmapReplayBuffer::flush`].
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::flush`].
    pub fn flush(&self) -> Result<()> {
        let _guard = self.lock_multi_step()?;
        flush(&mut &*self)
    }

    /// Same as [`MmapReplayBuffer::save`].
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::save`].
    pub fn save(&self, name: &str) -> Result<()> {
        let _guard = self.lock_multi_step()?;
        save(&mut &*self, name)
    }

    /// Same as [`MmapReplayBuffer::restore`].
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::restore`].
    pub fn restore(&self, name: &str) -> Result<()> {
        let _guard = self.lock_multi_step()?;
        restore(&mut &*self, name)
    }

    /// Same as [`MmapReplayBuffer::close`].
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::close`].
    pub fn close(&self, keep_files: bool) -> Result<()> {
        let _guard = self.lock_multi_step()?;
        close(&mut &*self, keep_files)
    }
}
