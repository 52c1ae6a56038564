//! The lock of a folder: one writer at a time.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The file that is locked; what is in it says which manifest somebody relies on.
pub(super) const LOCK: &str = "lock";

/// An open lock file; None in a forked child.
type Held = Mutex<Option<File>>;

/// Those of this process.
static ALL: Mutex<Vec<Weak<Held>>> = Mutex::new(Vec::new());

/// The right to write to a folder. The lock is the system's (`flock`): it ends with the process,
/// however that ends.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    file: Arc<Held>,
    /// The process that has the lock: a forked child has the same object, and not the right to it.
    owner: u32,
}

impl FolderLock {
    /// # Errors
    /// [`Error::Storage`] if another buffer or process has it.
    pub(super) fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(LOCK);
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(|cause| Error::storage("open", &path, cause))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let cause = "another buffer or process is writing there";
                return Err(Error::storage("lock", &path, cause));
            }
            Err(TryLockError::Error(cause)) => return Err(Error::storage("lock", &path, cause)),
        }
        let file = Arc::new(Mutex::new(Some(file)));
        let mut all = ALL.lock();
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&file));
        Ok(Self { path, file, owner: process::id() })
    }

    /// Refuses to write in a process that was forked from the one that has the lock, and where somebody
    /// took the lock file away, and may have another now.
    ///
    /// # Errors
    /// [`Error::Storage`].
    pub(super) fn check(&self) -> Result<()> {
        let cause = if !self.is_own() {
            "it belongs to the process that this one was forked from; open it in one of them"
        } else if self.is_there() {
            return Ok(());
        } else {
            "its lock file was removed or replaced since it was opened, so another may write there"
        };
        Err(Error::storage("write to", self.path.parent().unwrap_or(&self.path), cause))
    }

    /// False in a process that was forked from the one that has the lock.
    pub(super) fn is_own(&self) -> bool {
        self.owner == process::id()
    }

    fn is_there(&self) -> bool {
        let number = |file: Metadata| (file.dev(), file.ino());
        let open = self.file.lock().as_ref().and_then(|file| file.metadata().ok()).map(number);
        open.is_some() && open == fs::metadata(&self.path).ok().map(number)
    }

    /// What was written into the lock file last, by whoever had it.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses.
    pub(super) fn note(&self) -> Result<String> {
        fs::read_to_string(&self.path).map_err(|cause| Error::storage("read", &self.path, cause))
    }

    /// Writes into the lock file.
    ///
    /// # Errors
    /// As [`FolderLock::check`]; [`Error::Storage`] if the disk refuses.
    pub(super) fn write(&self, note: &str) -> Result<()> {
        self.check()?;
        let Some(file) = &*self.file.lock() else { return Ok(()) };
        let written = file.set_len(0).and_then(|()| file.write_all_at(note.as_bytes(), 0));
        written.map_err(|cause| Error::storage("write", &self.path, cause))
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        if self.is_own()
            && let Some(file) = &*self.file.lock()
        {
            // Not left to closing the file: a fork that nobody told of may have it open too.
            drop(file.unlock());
        }
    }
}

/// In the child of a fork: closes the lock files, which would stay locked while the child lives, also
/// when the parent is gone.
pub fn after_fork_in_child() {
    // A lock that is held is one of a thread that the child does not have.
    let Some(mut all) = ALL.try_lock() else { return };
    for file in all.drain(..).filter_map(|file| file.upgrade()) {
        if let Some(mut file) = file.try_lock() {
            drop(file.take());
        }
    }
}
