//! Saving and restoring buffers whose rows are all in memory.

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

/// Finds the bytes of a saved column by its name.
pub type Columns<'a> = dyn Fn(&'static str) -> Result<Vec<u8>> + 'a;

/// Rows, and what is saved of them.
#[derive(Debug)]
pub struct Saveable {
    pub(in crate::buffer) rows: MemoryRows,
    pub(in crate::buffer) state: SamplerState,
    pub(in crate::buffer) archive: Archive,
}

/// A buffer whose rows are all in memory.
pub trait InMemory: Sized {
    /// Its rows, draws and saves.
    #[must_use]
    fn held(&self) -> &Saveable;

    /// As [`InMemory::held`], to change.
    fn held_mut(&mut self) -> &mut Saveable;

    /// What is saved beside rows and draws: name, bytes of an element, bytes.
    #[must_use]
    fn own_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)>;

    /// Takes the place of what `own_columns` gave, with the rows of `held`, and takes `held` over.
    ///
    /// # Errors
    /// [`Error::Snapshot`](crate::Error::Snapshot) for what does not fit. Nothing is changed then.
    fn adopt(&mut self, held: Saveable, columns: &Columns<'_>) -> Result<()>;

    /// The rows.
    #[must_use]
    fn rows(&self) -> &MemoryRows {
        &self.held().rows
    }

    /// Where draws stand.
    #[must_use]
    fn sampler_state(&self) -> &SamplerState {
        &self.held().state
    }

    /// Puts another file system in place, to try what happens when it fails.
    fn set_file_system(&mut self, fs: Arc<dyn Fs>) {
        self.held_mut().archive = Archive::on(fs);
    }

    /// Saves the buffer as `name` in `folder`, which other saves and buffers may share: what was
    /// sealed there before is only listed, and segments that no saved buffer needs are removed.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses: what was saved before under any name is still whole.
    /// [`Error::Config`] unless `name` is of letters, digits, `_` and `-`, and not `newest`.
    /// [`Error::Interrupted`].
    ///
    /// [`Error::Storage`]: crate::Error::Storage
    /// [`Error::Config`]: crate::Error::Config
    /// [`Error::Interrupted`]: crate::Error::Interrupted
    fn save(&mut self, folder: &Path, name: &str) -> Result<Saved> {
        save(&mut Direct(self), folder, name)
    }

    /// Continues from what a buffer of the same columns and size saved as `name` in `folder`.
    /// Settings that are no state, such as whether windows cross episodes, stay this buffer's own.
    ///
    /// # Errors
    /// [`Error::Missing`] without such a save, [`Error::Damaged`] for files that are not what was
    /// written, [`Error::Snapshot`] for a buffer of another layout or rows that no buffer has,
    /// [`Error::Storage`] if the disk refuses, [`Error::Interrupted`]. Nothing is changed then.
    ///
    /// [`Error::Missing`]: crate::Error::Missing
    /// [`Error::Damaged`]: crate::Error::Damaged
    /// [`Error::Snapshot`]: crate::Error::Snapshot
    /// [`Error::Storage`]: crate::Error::Storage
    /// [`Error::Interrupted`]: crate::Error::Interrupted
    fn load(&mut self, folder: &Path, name: &str) -> Result<()> {
        load_into(&mut Direct(self), folder, name)
    }

    /// Everything needed to go on from here.
    #[must_use]
    fn state(&self) -> State {
        State::of(self.rows(), columns(self))
    }

    /// Continues from the state of a buffer of the same columns and size.
    ///
    /// # Errors
    /// As [`InMemory::load`], but for the disk's. Nothing is changed then.
    fn restore(&mut self, state: &State) -> Result<()> {
        let (rows, header) = state.restored(self.rows().empty_copy()?)?;
        let archive = Archive::on(Arc::clone(&self.held().archive.fs));
        let held = Saveable { rows, state: header.sampler_state(), archive };
        self.adopt(held, &|name| state.column(name))
    }
}

/// Rows, draws and own columns as they are saved.
fn columns<B: InMemory>(buffer: &B) -> Vec<Column> {
    let mut columns = Header::of(buffer.rows(), buffer.sampler_state()).columns();
    let own = buffer.own_columns().into_iter();
    columns.extend(own.map(|(name, size, bytes)| (name.to_owned(), size, bytes)));
    columns
}

impl<B: InMemory> Shared<B> {
    /// [`InMemory::save`], while other threads go on using the buffer.
    ///
    /// # Errors
    /// As there.
    pub fn save(&self, folder: &Path, name: &str) -> Result<Saved> {
        let _alone = self.alone()?;
        save(&mut &*self, folder, name)
    }

    /// [`InMemory::load`]; other threads use the buffer as it was until it is there.
    ///
    /// # Errors
    /// As there.
    pub fn load(&self, folder: &Path, name: &str) -> Result<()> {
        let _alone = self.alone()?;
        load_into(&mut &*self, folder, name)
    }

    /// Replaces what the buffer holds by `change`, after saves that are on their way.
    ///
    /// # Errors
    /// Those of `change`, and of waiting.
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
    // What is left over costs space, not safety, and the next save tries again.
    drop(folder.sweep());
    Ok(saved)
}

/// Writes a segment while others use the buffer, and lists it; returns its bytes.
fn seal<B: InMemory>(buffer: &mut impl Access<B>, sealing: Sealing) -> Result<u64> {
    let written = sealing.write(|sealing| buffer.read(|buffer| sealing.copy(buffer.rows())));
    // Even if this is to stop: what is held has to be let go.
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
