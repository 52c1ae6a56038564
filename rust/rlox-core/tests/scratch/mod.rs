//! A folder for one test, in memory if possible, because stores force every write to the device.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// A folder that is removed when this object is dropped.
pub(crate) struct Scratch(PathBuf);

/// Returns a path for one test, at which nothing exists.
pub(crate) fn folder(test: &str) -> Scratch {
    let memory = PathBuf::from("/dev/shm");
    let root = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let path = root.join(format!("rlox-{}-{test}", std::process::id()));
    drop(fs::remove_dir_all(&path));
    Scratch(path)
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Scratch {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}
