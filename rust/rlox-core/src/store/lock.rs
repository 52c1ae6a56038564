//! The lock of a folder: one writer at a time. Locks of a process that forks are put right in its child.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use super::fs::{Fs, is_unsupported, open_plain};
use crate::error::{Error, Result};
use crate::shared;

/// Name of the lock file. Its content is the name of the manifest that the folder depends on.
pub(super) const LOCK_FILE: &str = "lock";
/// Maximum number of bytes that are read from the lock file: more than the longest name.
const MAX_NOTE_BYTES: u64 = 256;

/// An open lock file; None in a forked child.
type OpenLockFile = Mutex<Option<File>>;

/// The lock files of this process.
static OPEN_LOCK_FILES: Mutex<Vec<Weak<OpenLockFile>>> = Mutex::new(Vec::new());

/// The right to write to a folder. The lock is the system's (`flock`), so it ends with the process,
/// however the process ends. On a disk without locks it notices other buffers of this process, but
/// no other processes.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    file: Arc<OpenLockFile>,
    /// The process that has the lock. A forked child has the same object, but not the lock.
    owner: u32,
}

impl FolderLock {
    /// Takes the lock of `folder`.
    ///
    /// # Errors
    /// [`Error::Storage`] if another buffer or process has the lock.
    pub(super) fn take(fs: &dyn Fs, folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK_FILE);
        let file = open_plain(OpenOptions::new().create(true).truncate(false).write(true), &path);
        let file = file.map_err(|cause| Error::storage("open", &path, cause))?;
        let already_locked = || {
            let cause = "another buffer or process is writing there";
            Error::storage("lock", &path, cause)
        };
        match fs.lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(already_locked()),
            Err(TryLockError::Error(cause)) if has_no_locks(&cause) => {}
            Err(TryLockError::Error(cause)) => return Err(Error::storage("lock", &path, cause)),
        }
        let mut open_files = OPEN_LOCK_FILES.lock();
        open_files.retain(|other| other.strong_count() > 0);
        let this_file_id = file_id(Some(&file));
        if open_files
            .iter()
            .filter_map(Weak::upgrade)
            .any(|other| file_id(other.lock().as_ref()) == this_file_id)
        {
            return Err(already_locked());
        }
        let file = Arc::new(Mutex::new(Some(file)));
        open_files.push(Arc::downgrade(&file));
        Ok(Self { path, file, owner: process::id() })
    }

    /// Checks that this process may write. It may not if it was forked from the process that has
    /// the lock. It may not either if the lock file was removed or replaced, since another process
    /// may have a lock now.
    ///
    /// # Errors
    /// [`Error::Storage`] if it may not write.
    pub(super) fn check(&self) -> Result<()> {
        let cause = if !self.is_owner() {
            "it belongs to the process that this one was forked from; open it in one of them"
        } else if self.is_present() {
            return Ok(());
        } else {
            "its lock file was removed or replaced since it was opened, so another process may write there"
        };
        Err(Error::storage("write to", self.path.parent().unwrap_or(&self.path), cause))
    }

    /// Returns false in a process that was forked from the one that has the lock.
    pub(super) fn is_owner(&self) -> bool {
        self.owner == process::id()
    }

    fn is_present(&self) -> bool {
        let open_id = file_id(self.file.lock().as_ref());
        let present_id =
            fs::symlink_metadata(&self.path).ok().map(|metadata| (metadata.dev(), metadata.ino()));
        open_id.is_some() && open_id == present_id
    }

    /// Returns the text that an owner of the lock last wrote into the lock file.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses.
    pub(super) fn read_note(&self) -> Result<String> {
        let mut note = String::new();
        let file = open_plain(OpenOptions::new().read(true), &self.path);
        let read = file.and_then(|file| file.take(MAX_NOTE_BYTES).read_to_string(&mut note));
        read.map_err(|cause| Error::storage("read", &self.path, cause))?;
        Ok(note)
    }

    /// Writes `note` into the lock file.
    ///
    /// # Errors
    /// The errors of [`FolderLock::check`]; [`Error::Storage`] if the disk refuses.
    pub(super) fn write_note(&self, note: &str) -> Result<()> {
        self.check()?;
        let Some(file) = &*self.file.lock() else { return Ok(()) };
        let written = file.set_len(0).and_then(|()| file.write_all_at(note.as_bytes(), 0));
        written.map_err(|cause| Error::storage("write", &self.path, cause))
    }
}

/// Returns the numbers that identify an open file on this machine.
fn file_id(file: Option<&File>) -> Option<(u64, u64)> {
    let metadata = file?.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns whether an error means that a disk has no locks.
fn has_no_locks(cause: &io::Error) -> bool {
    is_unsupported(cause) || cause.raw_os_error() == Some(libc::ENOLCK)
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.is_owner()
            && let Some(file) = &*self.file.lock()
        {
            // Closing the file would not be enough: a fork of this process that rlox does not know
            // may have it open too.
            drop(file.unlock());
        }
    }
}

/// Prepares the locks of this crate for use in the child of a fork. A program that forks calls this
/// in the child before it uses anything else of this crate.
///
/// The child's only thread is the one that forked. The child becomes the owner of the locks for work
/// in several steps that this thread holds. The lock files of its folders are closed: they would
/// otherwise stay locked while the child lives, even after the parent has ended.
pub fn after_fork_in_child() {
    shared::own_locks_of_forked_thread();
    // If the mutex is locked, its owner is a thread that the child does not have.
    let Some(mut open_files) = OPEN_LOCK_FILES.try_lock() else { return };
    for file in open_files.drain(..).filter_map(|file| file.upgrade()) {
        if let Some(mut file) = file.try_lock() {
            drop(file.take());
        }
    }
}
