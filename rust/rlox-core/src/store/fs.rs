//! The file operations that a store needs; tests replace them by `FaultyFs`.

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
const UNSUPPORTED_CODES: [i32; 8] = [
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
pub(super) fn is_unsupported(cause: &io::Error) -> bool {
    cause.raw_os_error().is_some_and(|code| UNSUPPORTED_CODES.contains(&code))
}

/// Forces a folder's entries to the device if the file system can; CIFS and VirtualBox refuse it
/// for every folder.
///
/// # Errors
/// Errors that may be temporary.
pub(super) fn sync_folder(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    fs.sync_dir(path).or_else(|cause| if is_unsupported(&cause) { Ok(()) } else { Err(cause) })
}

/// Creates a folder and its parents, so that they survive a power cut.
///
/// # Errors
/// Errors of the system.
pub(super) fn create_folder(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    let missing_folders: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    fs.create_dirs(path)?;
    missing_folders.iter().filter_map(|folder| folder.parent()).try_for_each(|parent| sync_folder(fs, parent))
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
    /// Errors of the system; `UnexpectedEof` if the file ends before `out` is full.
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
        let mut options = OpenOptions::new();
        Ok(Box::new(Arc::new(open_plain(options.write(true).create(true).truncate(true), path)?)))
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
        Ok(Box::new(open_plain(OpenOptions::new().read(true), path)?))
    }
}

/// Opens a plain file. A link could lead out of the folder, and a pipe could block for ever.
pub(super) fn open_plain(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let refusal = || io::Error::other("not a plain file");
    let open_result = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
    let file = open_result.map_err(|cause| match cause.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => refusal(),
        _ => cause,
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(refusal()) }
}

impl NewFile for Arc<File> {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        let file = Self::clone(self);
        let sync_result = interrupt::run_blocking(move || file.sync_all());
        sync_result.unwrap_or_else(|error| Err(io::Error::new(io::ErrorKind::Interrupted, error)))
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
    temporary_path: PathBuf,
    file: Box<dyn NewFile>,
    is_finished: bool,
}

impl Replacement {
    pub(crate) fn begin(fs: Arc<dyn Fs>, path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary_path = path.with_file_name(format!(".{name}.new"));
        let file = fs.create(&temporary_path).map_err(|cause| write_error(path, cause))?;
        Ok(Self { fs, path: path.to_owned(), temporary_path, file, is_finished: false })
    }

    pub(crate) fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(bytes, offset).map_err(|cause| write_error(&self.path, cause))
    }

    pub(crate) fn finish(mut self) -> Result<()> {
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        let sync_result = self.file.sync();
        let result = sync_result
            .and_then(|()| self.fs.rename(&self.temporary_path, &self.path))
            .and_then(|()| sync_folder(&*self.fs, folder));
        self.is_finished = result.is_ok();
        result.map_err(|cause| write_error(&self.path, cause))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_finished {
            // The result is ignored: an unfinished file that remains does no harm, since the next
            // try truncates it.
            drop(self.fs.remove(&self.temporary_path));
        }
    }
}

fn write_error(path: &Path, cause: io::Error) -> Error {
    match cause.kind() {
        io::ErrorKind::Interrupted => Error::Interrupted,
        _ => Error::storage("write", path, cause),
    }
}
