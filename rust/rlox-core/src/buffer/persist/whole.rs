//! Saves and restores buffers whose rows are all in memory.

use std::path::Path;
use std::sync::Arc;

use super::archive::{Archive, SaveReport, check_name};
use super::header::{Header, SavedColumn};
use super::load::load_rows;
use super::saving::PendingSegment;
use super::state::BufferState;
use crate::buffer::rows::{MemoryRows, describe_buffer};
use crate::buffer::sampling::SamplerState;
use crate::error::Result;
use crate::interrupt;
use crate::shared::{Access, Direct, Shared};
use crate::store::{Folder, Fs, Manifest};

/// Returns the bytes of a saved column by its name.
pub type ColumnReader<'a> = dyn Fn(&'static str) -> Result<Vec<u8>> + 'a;

/// The rows of a buffer, the state of its draws, and its archive of sealed segments.
#[derive(Debug)]
pub struct BufferStorage {
    pub(in crate::buffer) rows: MemoryRows,
    pub(in crate::buffer) sampler_state: SamplerState,
    pub(in crate::buffer) archive: Archive,
}

/// A buffer whose rows are all in memory.
pub trait InMemoryBuffer: Sized {
    /// Returns the rows, draws and archive.
    #[must_use]
    fn storage(&self) -> &BufferStorage;

    /// Same as [`InMemoryBuffer::storage`], but mutable.
    fn storage_mut(&mut self) -> &mut BufferStorage;

    /// Returns the columns that are saved besides rows and draws: name, size of an element in bytes,
    /// content.
    #[must_use]
    fn saved_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)>;

    /// Takes over the saved rows and restores the other saved columns.
    ///
    /// # Errors
    /// [`Error::Snapshot`](crate::Error::Snapshot) if they do not fit. Nothing is changed then.
    fn adopt(&mut self, storage: BufferStorage, columns: &ColumnReader<'_>) -> Result<()>;

    /// Returns the rows.
    #[must_use]
    fn rows(&self) -> &MemoryRows {
        &self.storage().rows
    }

    /// Returns the state of the random draws.
    #[must_use]
    fn sampler_state(&self) -> &SamplerState {
        &self.storage().sampler_state
    }

    /// Replaces the file system, so that tests can make it fail.
    fn set_file_system(&mut self, fs: Arc<dyn Fs>) {
        self.storage_mut().archive = Archive::with_fs(fs);
    }

    /// Saves the buffer as `name` in `folder`, which other saves and buffers may share.
    ///
    /// Rows that were sealed there before are listed and not written again. Segments that no save
    /// needs are removed.
    ///
    /// # Errors
    /// - [`Error::Storage`] if the disk fails. All earlier saves are still complete then.
    /// - [`Error::Config`] unless `name` consists of letters, digits, `_` and `-`, and is not
    ///   `newest`.
    /// - [`Error::Interrupted`].
    ///
    /// [`Error::Storage`]: crate::Error::Storage
    /// [`Error::Config`]: crate::Error::Config
    /// [`Error::Interrupted`]: crate::Error::Interrupted
    fn save(&mut self, folder: &Path, name: &str) -> Result<SaveReport> {
        save(&mut Direct(self), folder, name)
    }

    /// Restores the save `name` of `folder`, made by a buffer of the same columns and size.
    ///
    /// Settings that are no state, such as whether windows cross episodes, keep this buffer's
    /// values.
    ///
    /// # Errors
    /// Nothing is changed if there is an error.
    /// - [`Error::Missing`] if there is no such save.
    /// - [`Error::Damaged`] if the bytes of a file are not those that were written.
    /// - [`Error::Snapshot`] for another layout, or for rows that no buffer can have.
    /// - [`Error::Storage`] if the disk fails.
    /// - [`Error::Interrupted`].
    ///
    /// [`Error::Missing`]: crate::Error::Missing
    /// [`Error::Damaged`]: crate::Error::Damaged
    /// [`Error::Snapshot`]: crate::Error::Snapshot
    /// [`Error::Storage`]: crate::Error::Storage
    /// [`Error::Interrupted`]: crate::Error::Interrupted
    fn load(&mut self, folder: &Path, name: &str) -> Result<()> {
        load_into(&mut Direct(self), folder, name)
    }

    /// Returns the exact state of the buffer.
    #[must_use]
    fn state(&self) -> BufferState {
        BufferState::from_rows(self.rows(), all_columns(self))
    }

    /// Restores the state of a buffer of the same columns and size.
    ///
    /// # Errors
    /// Same as [`InMemoryBuffer::load`], except the errors of the disk. Nothing is changed then.
    fn restore(&mut self, state: &BufferState) -> Result<()> {
        let (rows, header) = state.restore_rows(self.rows().empty_copy()?)?;
        let archive = Archive::with_fs(Arc::clone(&self.storage().archive.fs));
        let storage = BufferStorage { rows, sampler_state: header.sampler_state(), archive };
        self.adopt(storage, &|name| state.column(name))
    }
}

/// Returns the columns to save: those of rows, draws and the buffer itself.
fn all_columns<B: InMemoryBuffer>(buffer: &B) -> Vec<SavedColumn> {
    let mut columns = Header::from_rows(buffer.rows(), buffer.sampler_state()).columns();
    let buffer_columns = buffer.saved_columns().into_iter();
    columns.extend(buffer_columns.map(|(name, size, bytes)| (name.to_owned(), size, bytes)));
    columns
}

impl<B: InMemoryBuffer> Shared<B> {
    /// Same as [`InMemoryBuffer::save`], while other threads use the buffer.
    ///
    /// # Errors
    /// Same as [`InMemoryBuffer::save`].
    pub fn save(&self, folder: &Path, name: &str) -> Result<SaveReport> {
        let _guard = self.lock_multi_step()?;
        save(&mut &*self, folder, name)
    }

    /// Same as [`InMemoryBuffer::load`]. Other threads use the old content until the new one is loaded.
    ///
    /// # Errors
    /// Same as [`InMemoryBuffer::load`].
    pub fn load(&self, folder: &Path, name: &str) -> Result<()> {
        let _guard = self.lock_multi_step()?;
        load_into(&mut &*self, folder, name)
    }

    /// Changes the content of the buffer with `change`, after saves in progress have ended.
    ///
    /// # Errors
    /// The errors of `change` and of the wait.
    pub fn replace<T>(&self, change: impl FnOnce(&mut B) -> Result<T>) -> Result<T> {
        let _guard = self.lock_multi_step()?;
        self.write(change)?
    }
}

fn save<B: InMemoryBuffer>(buffer: &mut impl Access<B>, path: &Path, name: &str) -> Result<SaveReport> {
    check_name(name)?;
    let fs = buffer.read(|buffer| Arc::clone(&buffer.storage().archive.fs))?;
    let folder = Arc::new(Folder::open(path, fs)?);
    let is_shared = buffer.read(|buffer| buffer.storage().archive.can_share(&folder))??;
    let seal_start = buffer.write(|buffer| {
        let (columns, meta) = (all_columns(buffer), describe_buffer(buffer.rows()).into_bytes());
        let BufferStorage { rows, archive, .. } = buffer.storage_mut();
        archive.prepare(rows, &folder, is_shared)?;
        Ok((PendingSegment::begin(archive, rows, &folder)?, columns, meta))
    })?;
    let (sealing, columns, meta) = seal_start?;
    let segment_bytes = sealing.map(|sealing| seal(buffer, sealing)).transpose()?;
    let segments = buffer.read(|buffer| {
        let entries = &buffer.storage().archive.entries;
        entries.iter().map(|entry| entry.reference).collect::<Vec<_>>()
    })?;
    let report = SaveReport { segments: segments.len(), new_bytes: segment_bytes.unwrap_or(0) };
    folder.publish(name, &Manifest { segments, columns, meta })?;
    // Leftover files cost space but do no harm, and the next save tries again.
    drop(folder.remove_unused());
    Ok(report)
}

/// Writes a segment while other threads use the buffer, and lists it. Returns its size in bytes.
fn seal<B: InMemoryBuffer>(buffer: &mut impl Access<B>, sealing: PendingSegment) -> Result<u64> {
    let write_result = sealing.write(|sealing| buffer.read(|buffer| sealing.copy(buffer.rows())));
    // Runs also if this thread is being interrupted, because it must release the copies.
    interrupt::uninterruptible(|| {
        buffer.write(|buffer| {
            let BufferStorage { rows, archive, .. } = buffer.storage_mut();
            rows.end_snapshot();
            Ok(write_result?.add_to(archive, false).bytes)
        })
    })?
}

fn load_into<B: InMemoryBuffer>(buffer: &mut impl Access<B>, folder: &Path, name: &str) -> Result<()> {
    let (fs, empty) = buffer.read(|buffer| {
        let BufferStorage { rows, archive, .. } = buffer.storage();
        Ok((Arc::clone(&archive.fs), rows.empty_copy()?))
    })??;
    let (rows, header, archive, manifest) = load_rows(fs, empty, folder, name)?;
    let storage = BufferStorage { rows, sampler_state: header.sampler_state(), archive };
    buffer.write(|buffer| buffer.adopt(storage, &|name| Ok(manifest.column(name)?.to_vec())))?
}
