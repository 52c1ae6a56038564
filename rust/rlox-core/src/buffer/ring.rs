//! What the buffers in memory do alike.

use std::path::Path;
use std::sync::Arc;

use super::archive::{Archive, Saved};
use super::replay::DrawState;
use super::schema::Schema;
use super::storage::Storage;
use crate::error::Result;
use crate::store::Fs;

/// Rows, where draws come from, and what is saved of them.
#[derive(Debug)]
pub struct Ring {
    pub(super) storage: Storage,
    pub(super) draws: DrawState,
    pub(super) archive: Archive,
}

impl Ring {
    /// An empty ring; see [`Storage::new`].
    pub(super) fn new(schema: Schema, capacity: usize, n_envs: usize, seed: u64) -> Result<Self> {
        let storage = Storage::new(schema, capacity, n_envs)?;
        Ok(Self { storage, draws: DrawState::new(seed), archive: Archive::default() })
    }

    /// [`RingBuffer::save`] with columns of the buffer's own: name, bytes per element, bytes.
    pub(super) fn save(
        &mut self,
        folder: &Path,
        name: &str,
        own: &[(&str, usize, Vec<u8>)],
    ) -> Result<Saved> {
        self.archive.save(&self.storage, &self.draws, folder, name, own)
    }
}

/// A buffer whose rows are all in memory, the oldest overwritten first.
pub trait RingBuffer {
    /// Its rows, draws and saves.
    #[must_use]
    fn ring(&self) -> &Ring;

    /// As [`RingBuffer::ring`], to change.
    fn ring_mut(&mut self) -> &mut Ring;

    /// The rows.
    #[must_use]
    fn storage(&self) -> &Storage {
        &self.ring().storage
    }

    /// The rows, to update columns.
    fn storage_mut(&mut self) -> &mut Storage {
        &mut self.ring_mut().storage
    }

    /// Where draws come from.
    #[must_use]
    fn draws(&self) -> &DrawState {
        &self.ring().draws
    }

    /// Replaces where draws come from.
    fn set_draws(&mut self, draws: DrawState) {
        self.ring_mut().draws = draws;
    }

    /// Forgets every row; indices go on counting.
    ///
    /// # Errors
    /// None that a caller could cause.
    fn clear(&mut self) -> Result<()> {
        self.storage_mut().clear();
        Ok(())
    }

    /// Saves the buffer as `name` in `folder`, which other saves and buffers may share: what was
    /// sealed there before is only listed, and segments that no saved buffer needs are removed.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses: what was saved before under any name is still whole.
    /// [`Error::Config`] unless `name` is of letters, digits, `_` and `-`, and not `newest`.
    ///
    /// [`Error::Storage`]: crate::Error::Storage
    /// [`Error::Config`]: crate::Error::Config
    fn save(&mut self, folder: &Path, name: &str) -> Result<Saved> {
        self.ring_mut().save(folder, name, &[])
    }

    /// Continues from what a buffer of the same columns and size saved as `name` in `folder`.
    /// Settings that are no state, such as whether windows cross episodes, stay this buffer's own.
    ///
    /// # Errors
    /// [`Error::Damaged`] for files that are not what was written, [`Error::Snapshot`] for a buffer
    /// of another layout, [`Error::Storage`] if the disk refuses. Nothing is changed then.
    ///
    /// [`Error::Damaged`]: crate::Error::Damaged
    /// [`Error::Snapshot`]: crate::Error::Snapshot
    /// [`Error::Storage`]: crate::Error::Storage
    fn load(&mut self, folder: &Path, name: &str) -> Result<()> {
        let restored = Archive::load(self.storage().empty_copy()?, folder, name)?;
        *self.ring_mut() = restored.ring;
        Ok(())
    }

    /// Puts another file system in place, to try what happens when it fails.
    fn set_file_system(&mut self, fs: Arc<dyn Fs>) {
        self.ring_mut().archive = Archive::on(fs);
    }
}
