//! The file operations that a store needs; tests replace them by [`super::FaultyFs`].

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::interrupt;

/// A file system.
pub trait Fs: Debug + Send + Sync {
    /// Creates a folder and its parents.
    ///
    /// # Errors
    /// Errors of the system.
    fn create_dirs(&self, path: &Path) -> io::Result<()>;

    /// Creates a file or truncates an existing one; refuses a link.
    ///
    /// # Errors
    /// Errors of the system.
    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>>;

    /// Replaces `to` by `from` in one step.
    ///
    /// # Errors
    /// Errors of the system.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Forces a folder's entries to the device.
    ///
    /// # Errors
    /// Errors of the system.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Errors of the system.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Returns the names of a folder's entries in any order, except those that are not UTF-8.
    ///
    /// # Errors
    /// Errors of the system.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Opens a plain file for reading; refuses a link or a device.
    ///
    /// # Errors
    /// Errors of the system.
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomRead>>;

    /// Locks an open file for this process without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if another object or process has the lock; errors of the system.
    fn lock(&self, file: &File) -> std::result::Result<(), TryLockError> {
        file.try_lock()
    }
}

/// Error codes of a file system that does not support an operation and never will.
const NEVER: [i32; 8] = [
    libc::EINVAL,
    libc::EISDIR,
    libc::ENOSYS,
    libc::ENOTDIR,
    libc::ENOTSUP,
    libc::EOPNOTSUPP,
    libc::EPERM,
    libc::EROFS,
];

/// Returns whether a file system does not support an operation, so that another try would not help.
pub(super) fn is_lacking(cause: &io::Error) -> bool {
    cause.raw_os_error().is_some_and(|code| NEVER.contains(&code))
}

/// Forces a folder's entries to the device if the file system can; CIFS and VirtualBox refuse it
/// for every folder.
///
/// # Errors
/// Errors that may be temporary.
pub(super) fn sync_folder(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    fs.sync_dir(path).or_else(|cause| if is_lacking(&cause) { Ok(()) } else { Err(cause) })
}

/// Creates a folder and its parents, so that they survive a power cut.
///
/// # Errors
/// Errors of the system.
pub(super) fn create_folder(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    let made: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    fs.create_dirs(path)?;
    made.iter().filter_map(|folder| folder.parent()).try_for_each(|parent| sync_folder(fs, parent))
}

/// A file that is being written.
pub trait NewFile: Debug + Send + Sync {
    /// Writes all of `bytes` from `offset` on.
    ///
    /// # Errors
    /// Errors of the system; part of the bytes may be written then.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Forces what was written to the device.
    ///
    /// # Errors
    /// Errors of the system; kind `Interrupted` if the work was interrupted, see
    /// [`crate::interrupt`].
    fn sync(&mut self) -> io::Result<()>;
}

/// An open file, read by position.
pub trait RandomRead: Debug + Send + Sync {
    /// Returns the size of the file in bytes.
    ///
    /// # Errors
    /// Errors of the system.
    fn size(&self) -> io::Result<u64>;

    /// Fills `out` from `offset` on.
    ///
    /// # Errors
    /// Errors of the system; `UnexpectedEof` if the file ends before.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
}

/// The machine's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl Fs for RealFs {
    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        let mut how = OpenOptions::new();
        Ok(Box::new(Arc::new(plain(how.write(true).create(true).truncate(true), path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
        Ok(names.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomRead>> {
        Ok(Box::new(plain(OpenOptions::new().read(true), path)?))
    }
}

/// Opens a plain file. A link could lead out of the folder, and a pipe could block for ever.
pub(super) fn plain(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let refused = || io::Error::other("not a plain file");
    let opened = how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = opened.map_err(|cause| match cause.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => refused(),
        _ => cause,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused()) }
}

impl NewFile for Arc<File> {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        let file = Self::clone(self);
        let synced = interrupt::blocking(move || file.sync_all());
        synced.unwrap_or_else(|stopped| Err(io::Error::new(io::ErrorKind::Interrupted, stopped)))
    }
}

impl RandomRead for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(out, offset)
    }
}

/// A file that replaces another one once it is complete. A crash leaves the old file or the new
/// one, never a mix. After [`Replacement::finish`] the new file survives a power cut.
#[derive(Debug)]
pub(crate) struct Replacement {
    fs: Arc<dyn Fs>,
    path: PathBuf,
    new: PathBuf,
    file: Box<dyn NewFile>,
    finished: bool,
}

impl Replacement {
    pub(crate) fn begin(fs: Arc<dyn Fs>, path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let new = path.with_file_name(format!(".{name}.new"));
        let file = fs.create(&new).map_err(|cause| failure(path, cause))?;
        Ok(Self { fs, path: path.to_owned(), new, file, finished: false })
    }

    pub(crate) fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset).map_err(|cause| failure(&self.path, cause))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        let synced = self.file.sync();
        let done = synced
            .and_then(|()| self.fs.rename(&self.new, &self.path))
            .and_then(|()| sync_folder(&*self.fs, folder));
        self.finished = done.is_ok();
        done.map_err(|cause| failure(&self.path, cause))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.finished {
            // An unfinished file does no harm, since the next try truncates it.
            drop(self.fs.remove(&self.new));
        }
    }
}

fn failure(path: &Path, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::Interrupted => Error::Interrupted,
        _ => Error::storage("write", path, cause),
    }
}
