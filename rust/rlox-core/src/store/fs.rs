//! The file operations a store needs; tests put [`super::FaultyFs`] in their place.

use std::fmt::Debug;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::error::{Error, Result};

/// A file system.
pub trait Fs: Debug + Send + Sync {
    /// Creates a folder and its parents.
    ///
    /// # Errors
    /// The system's.
    fn create_dirs(&self, path: &Path) -> io::Result<()>;

    /// Writes a new file of `parts` one after the other and forces it to the device.
    ///
    /// # Errors
    /// The system's; part of the file may be there then.
    fn write(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()>;

    /// Puts `from` in the place of `to` in one step.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Forces a folder's entries to the device.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Names of a folder's entries, in no order; those that are not UTF-8 are left out.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// Opens a plain file for reading; a link or a device is refused.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomRead>>;
}

/// An open file, read by position.
pub trait RandomRead: Debug + Send + Sync {
    /// Bytes of the file.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Fills `out` from `offset` on.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` where the file ends before.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()>;
}

/// The machine's file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct RealFs;

impl Fs for RealFs {
    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn write(&self, path: &Path, parts: &[&[u8]]) -> io::Result<()> {
        let mut file = File::create(path)?;
        for part in parts {
            file.write_all(part)?;
        }
        file.sync_all()
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
        if !fs::symlink_metadata(path)?.is_file() {
            return Err(io::Error::other("not a plain file"));
        }
        Ok(Box::new(File::open(path)?))
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

/// Replaces `path` so that a crash leaves the old file or the new one, never a mix, and what is
/// there after an `Ok` is there after a power cut.
///
/// # Errors
/// [`Error::Storage`]; the old file is still there then, or the new one, whole.
pub fn replace_file(fs: &dyn Fs, path: &Path, parts: &[&[u8]]) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.new"));
    let folder = path.parent().unwrap_or_else(|| Path::new("."));
    let done = fs
        .write(&new, parts)
        .and_then(|()| fs.rename(&new, path))
        .and_then(|()| fs.sync_dir(folder));
    done.map_err(|cause| {
        // What could not be finished is in nobody's way: the next try truncates it.
        drop(fs.remove(&new));
        Error::storage("write", path, cause)
    })
}
