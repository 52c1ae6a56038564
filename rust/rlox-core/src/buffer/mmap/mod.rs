//! A replay buffer larger than memory: recent rows in memory, older ones on disk.

mod buffer;
mod reopen;
#[cfg(test)]
mod schedules;
mod steps;

pub use buffer::{MmapReplayBuffer, Tiers};

use self::steps::{close, flush, push, restore, save, seal};
use super::rows::{EnvIndex, Transitions};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::shared::{Access, Direct, Shared};

impl MmapReplayBuffer {
    /// Stores rows; in blocks, each after what must be sealed before it.
    ///
    /// A seal that the disk refuses is tried again at the next push as long as there is memory.
    ///
    /// # Errors
    /// As [`MemoryRows::push`](super::MemoryRows::push), nothing is stored then. Those of
    /// [`MmapReplayBuffer::flush`] if memory is full of rows that the disk does not take: the blocks
    /// before that are stored.
    pub fn push(&mut self, to: EnvIndex<'_>, rows: Transitions<'_>) -> Result<()> {
        push(&mut Direct(self), to, rows, seal)
    }

    /// Seals the rows that are only in memory, so that they outlast the process. The newest row of
    /// an environment is left out while its next observation is not known.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses or the lock was taken away, [`Error::Damaged`] if a segment
    /// was, [`Error::Config`] after `close`.
    pub fn flush(&mut self) -> Result<()> {
        flush(&mut Direct(self))
    }

    /// Saves the state exactly as `name` beside the rows, which are sealed and kept for it.
    ///
    /// # Errors
    /// As [`MmapReplayBuffer::flush`].
    pub fn save(&mut self, name: &str) -> Result<()> {
        save(&mut Direct(self), name)
    }

    /// Goes on from the state saved as `name`; rows sealed since are forgotten.
    ///
    /// # Errors
    /// [`Error::Missing`] without such a save, [`Error::Damaged`] for files that are not what was written,
    /// [`Error::Snapshot`] for another layout. Nothing is changed then.
    pub fn restore(&mut self, name: &str) -> Result<()> {
        restore(&mut Direct(self), name)
    }

    /// Ends the buffer: with `keep` every row is sealed and the files stay, without they go but for
    /// what saves need, this buffer's and others'.
    ///
    /// # Errors
    /// As [`MmapReplayBuffer::flush`]; [`Error::Damaged`] if nobody knows what a save needs. The buffer
    /// stays open then.
    pub fn close(&mut self, keep: bool) -> Result<()> {
        close(&mut Direct(self), keep)
    }
}

/// The same while other threads use the buffer: they wait for what is read of the disk, and not for
/// what is written to it.
impl Shared<MmapReplayBuffer> {
    /// [`MmapReplayBuffer::push`].
    ///
    /// # Errors
    /// As there.
    pub fn push(&self, to: EnvIndex<'_>, rows: Transitions<'_>) -> Result<()> {
        push(&mut &*self, to, rows, |buffer| {
            let _alone = buffer.alone()?;
            // Another thread may have sealed meanwhile.
            let done = buffer.read(|b| b.has_room() && b.waiting() < b.chunk)?;
            if done { Ok(()) } else { seal(buffer) }
        })
    }

    /// [`MmapReplayBuffer::flush`].
    ///
    /// # Errors
    /// As there.
    pub fn flush(&self) -> Result<()> {
        let _alone = self.alone()?;
        flush(&mut &*self)
    }

    /// [`MmapReplayBuffer::save`].
    ///
    /// # Errors
    /// As there.
    pub fn save(&self, name: &str) -> Result<()> {
        let _alone = self.alone()?;
        save(&mut &*self, name)
    }

    /// [`MmapReplayBuffer::restore`].
    ///
    /// # Errors
    /// As there.
    pub fn restore(&self, name: &str) -> Result<()> {
        let _alone = self.alone()?;
        restore(&mut &*self, name)
    }

    /// [`MmapReplayBuffer::close`].
    ///
    /// # Errors
    /// As there.
    pub fn close(&self, keep: bool) -> Result<()> {
        let _alone = self.alone()?;
        close(&mut &*self, keep)
    }
}
