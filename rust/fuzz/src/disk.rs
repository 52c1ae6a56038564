//! A file system in memory.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rlox_core::store::{Fs, NewFile, RandomRead};

type Files = Arc<Mutex<HashMap<PathBuf, Vec<u8>>>>;

/// Files by their paths, without folders.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryFs(Files);

impl MemoryFs {
    /// Stores a file at `path`.
    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        self.0.lock().insert(path.to_owned(), bytes);
    }

    /// Returns the bytes of a file.
    #[must_use]
    pub(crate) fn get(&self, path: &Path) -> Option<Vec<u8>> {
        self.0.lock().get(path).cloned()
    }
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Fs for MemoryFs {
    fn create_dirs(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.put(path, Vec::new());
        Ok(Box::new(MemoryFile { files: Arc::clone(&self.0), path: path.to_owned() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut files = self.0.lock();
        let bytes = files.remove(from).ok_or_else(not_found)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.lock().remove(path).map(drop).ok_or_else(not_found)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let files = self.0.lock();
        let entries = files.keys().filter(|file| file.parent() == Some(path));
        Ok(entries.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned())).collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn RandomRead>> {
        Ok(Box::new(FileCopy(self.get(path).ok_or_else(not_found)?)))
    }
}

/// A file that is being written.
#[derive(Debug)]
struct MemoryFile {
    files: Files,
    path: PathBuf,
}

impl NewFile for MemoryFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut files = self.files.lock();
        let file = files.get_mut(&self.path).ok_or_else(not_found)?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let end = start + bytes.len();
        file.resize(file.len().max(end), 0);
        file.get_mut(start..end).ok_or_else(not_found)?.copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file as it was when it was opened.
#[derive(Debug)]
struct FileCopy(Vec<u8>);

impl RandomRead for FileCopy {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let rest = usize::try_from(offset).ok().and_then(|from| self.0.get(from..));
        let bytes = rest.and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}
