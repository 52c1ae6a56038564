//! A file system whose k-th operation fails.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fs::{Fs, NewFile, RandomRead, RealFs};

/// Linux's "no space left on device".
const ENOSPC: i32 = 28;
/// Linux's "input/output error".
const EIO: i32 = 5;

/// The machine's file system, but operation number `fail_at` (counted from 0) fails. If `is_persistent`,
/// all later operations fail too.
///
/// An operation is a call of a method of [`Fs`] except `lock`, of [`NewFile`], or of
/// [`RandomRead::read_at`]. A write that fails writes half of its bytes. A sync that fails keeps all
/// bytes.
#[derive(Debug, Clone)]
pub struct FaultyFs {
    fail_at: u64,
    is_persistent: bool,
    n_operations: Arc<AtomicU64>,
}

impl FaultyFs {
    /// Returns a file system that fails at operation `fail_at`, and at every later one if
    /// `is_persistent`.
    #[must_use]
    pub fn new(fail_at: u64, is_persistent: bool) -> Self {
        Self { fail_at, is_persistent, n_operations: Arc::default() }
    }

    /// Returns the number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.n_operations.load(Ordering::SeqCst)
    }

    /// Counts an operation; returns an error if this operation fails.
    fn count_operation(&self, code: i32) -> io::Result<()> {
        let index = self.n_operations.fetch_add(1, Ordering::SeqCst);
        if index == self.fail_at || (self.is_persistent && index > self.fail_at) {
            return Err(io::Error::from_raw_os_error(code));
        }
        Ok(())
    }
}

impl Fs for FaultyFs {
    fn create_dirs(&self, path: &Path) -> io::Result<()> {
        self.count_operation(ENOSPC)?;
        RealFs.create_dirs(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.count_operation(ENOSPC)?;
        Ok(Box::new(FaultyNewFile { inner: RealFs.create(path)?, fs: self.clone() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.count_operation(EIO)?;
        RealFs.rename(from, to)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.count_operation(EIO)?;
        RealFs.sync_dir(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.count_operation(EIO)?;
        RealFs.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.count_operation(EIO)?;
        RealFs.list(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomRead>> {
        self.count_operation(EIO)?;
        Ok(Box::new(FaultyFile { inner: RealFs.open(path)?, fs: self.clone() }))
    }
}

/// A new file on a [`FaultyFs`].
#[derive(Debug)]
struct FaultyNewFile {
    inner: Box<dyn NewFile>,
    fs: FaultyFs,
}

impl NewFile for FaultyNewFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if let Err(error) = self.fs.count_operation(ENOSPC) {
            self.inner.write_at(bytes.get(..bytes.len() / 2).unwrap_or_default(), offset)?;
            return Err(error);
        }
        self.inner.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.inner.sync()?;
        self.fs.count_operation(EIO)
    }
}

/// A file of a [`FaultyFs`]; reads are operations too.
#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn RandomRead>,
    fs: FaultyFs,
}

impl RandomRead for FaultyFile {
    fn size(&self) -> io::Result<u64> {
        self.inner.size()
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        self.fs.count_operation(EIO)?;
        self.inner.read_at(out, offset)
    }
}
