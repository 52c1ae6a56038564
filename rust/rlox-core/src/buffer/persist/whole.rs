//! Saves and restores buffers whose rows are all in memory.

use std::path::Path;
use std::sync::Arc;

use super::archive::{Archive, Saved, check_name};
use super::header::{Column, Header};
use super::load::load;
use super::saving::Sealing;
use super::state::State;
use crate::buffer::rows::{MemoryRows, describe};
use crate::buffer::sampling::SamplerState;
use crate::error::Result;
use crate::interrupt;
use crate::shared::{Access, Direct, Shared};
use crate::store::{Folder, Fs, Manifest};

/// Returns the bytes of a saved column by its name.
pub type Columns<'a> = dyn Fn(&'static str) -> Result<Vec<u8>> + 'a;

/// The rows of a buffer, the state of its draws, and its archive of sealed segments.
#[derive(Debug)]
pub struct Saveable {
    pub(in crate::buffer) rows: MemoryRows,
    pub(in crate::buffer) state: SamplerState,
    pub(in crate::buffer) archive: Archive,
}

/// A buffer whose rows are all in memory.
pub trait InMemory: Sized {
    /// Returns the rows, draws and archive.
    #[must_use]
    fn held(&self) -> &Saveable;

    /// Same as [`InMemory::held`], but mutable.
    fn held_mut(&mut self) -> &mut Saveable;

    /// Returns the columns that are saved besides rows and draws: name, bytes of an element, bytes.
    #[must_use]
    fn own_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)>;

    /// Takes over the saved rows and restores the other saved columns.
    ///
    /// # Errors
    /// [`Error::Snapshot`](crate::Error::Snapshot) if they do not fit. Nothing is changed then.
    fn adopt(&mut self, held: Saveable, columns: &Columns<'_>) -> Result<()>;

    /// Returns the rows.
    #[must_use]
    fn rows(&self) -> &MemoryRows {
        &self.held().rows
    }

    /// Returns the state of the random draws.
    #[must_use]
    fn sampler_state(&self) -> &SamplerState {
        &self.held().state
    }

    /// Replaces the file system, so that tests can make it fail.
    fn set_file_system(&mut self, fs: Arc<dyn Fs>) {
        self.held_mut().archive = Archive::on(fs);
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
    fn save(&mut self, folder: &Path, name: &str) -> Result<Saved> {
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
    fn state(&self) -> State {
        State::of(self.rows(), columns(self))
    }

    /// Restores the state of a buffer of the same columns and size.
    ///
    /// # Errors
    /// Same as [`InMemory::load`], except the errors of the disk. Nothing is changed then.
    fn restore(&mut self, state: &State) -> Result<()> {
        let (rows, header) = state.restored(self.rows().empty_copy()?)?;
        let archive = Archive::on(Arc::clone(&self.held().archive.fs));
        let held = Saveable { rows, state: header.sampler_state(), archive };
        self.adopt(held, &|name| state.column(name))
    }
}

/// Returns the columns to save: those of rows, draws and the buffer itself.
fn columns<B: InMemory>(buffer: &B) -> Vec<Column> {
    let mut columns = Header::of(buffer.rows(), buffer.sampler_state()).columns();
    let own = buffer.own_columns().into_iter();
    columns.extend(own.map(|(name, size, bytes)| (name.to_owned(), size, bytes)));
    columns
}

impl<B: InMemory> Shared<B> {
    /// Same as [`InMemory::save`], while other threads use the buffer.
    ///
    /// # Errors
    /// Same as [`InMemory::save`].
    pub fn save(&self, folder: &Path, name: &str) -> Result<Saved> {
        let _alone = self.alone()?;
        save(&mut &*self, folder, name)
    }

    /// Same as [`InMemory::load`]. Other threads use the old content until the new one is loaded.
    ///
    /// # Errors
    /// Same as [`InMemory::load`].
    pub fn load(&self, folder: &Path, name: &str) -> Result<()> {
        let _alone = self.alone()?;
        load_into(&mut &*self, folder, name)
    }

    /// Replaces the content of the buffer by `change`, after saves in progress have ended.
    ///
    /// # Errors
    /// The errors of `change` and of the wait.
    pub fn replace<T>(&self, change: impl FnOnce(&mut B) -> Result<T>) -> Result<T> {
        let _alone = self.alone()?;
        self.write(change)?
    }
}

fn save<B: InMemory>(buffer: &mut impl Access<B>, path: &Path, name: &str) -> Result<Saved> {
    check_name(name)?;
    let fs = buffer.read(|buffer| Arc::clone(&buffer.held().archive.fs))?;
    let folder = Arc::new(Folder::open(path, fs)?);
    let shared = buffer.read(|buffer| buffer.held().archive.is_of(&folder))??;
    let begun = buffer.write(|buffer| {
        let (columns, meta) = (columns(buffer), describe(buffer.rows()).into_bytes());
        let Saveable { rows, archive, .. } = buffer.held_mut();
        archive.prepare(rows, &folder, shared)?;
        Ok((Sealing::begin(archive, rows, &folder)?, columns, meta))
    })?;
    let (sealing, columns, meta) = begun?;
    let new = sealing.map(|sealing| seal(buffer, sealing)).transpose()?;
    let segments = buffer.read(|buffer| {
        let entries = &buffer.held().archive.entries;
        entries.iter().map(|entry| entry.reference).collect::<Vec<_>>()
    })?;
    let saved = Saved { segments: segments.len(), new_bytes: new.unwrap_or(0) };
    folder.publish(name, &Manifest { segments, columns, meta })?;
    // Leftover files cost space but do no harm, and the next save tries again.
    drop(folder.sweep());
    Ok(saved)
}

/// Writes a segment while others use the buffer and lists it. Returns its size in bytes.
fn seal<B: InMemory>(buffer: &mut impl Access<B>, sealing: Sealing) -> Result<u64> {
    let written = sealing.write(|sealing| buffer.read(|buffer| sealing.copy(buffer.rows())));
    // Runs also if this thread is being interrupted, because it must release the copies.
    interrupt::uninterrupted(|| {
        buffer.write(|buffer| {
            let Saveable { rows, archive, .. } = buffer.held_mut();
            rows.let_go();
            Ok(written?.list(archive, false).bytes)
        })
    })?
}

fn load_into<B: InMemory>(buffer: &mut impl Access<B>, folder: &Path, name: &str) -> Result<()> {
    let (fs, empty) = buffer.read(|buffer| {
        let Saveable { rows, archive, .. } = buffer.held();
        Ok((Arc::clone(&archive.fs), rows.empty_copy()?))
    })??;
    let (rows, header, archive, manifest) = load(fs, empty, folder, name)?;
    let held = Saveable { rows, state: header.sampler_state(), archive };
    buffer.write(|buffer| buffer.adopt(held, &|name| Ok(manifest.column(name)?.to_vec())))?
}
