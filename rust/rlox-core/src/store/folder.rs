//! A folder of segments and manifests with one writer at a time.

use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::fs::{Fs, RealFs, create_folder, sync_folder};
use super::header::ColumnPlan;
use super::lock::{FolderLock, LOCK_FILE};
use super::manifest::{Manifest, SegmentRef};
use super::segment::{Segment, SegmentWriter};
use crate::error::{Error, Result};

const SEGMENT_SUFFIX: &str = ".seg";
const MANIFEST_SUFFIX: &str = ".manifest";
/// Maximum number of names of saves in a message.
const MAX_NAMES_SHOWN: usize = 8;

/// How many files a call removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RemovedFiles {
    /// Number of segments and unfinished files.
    pub files: usize,
}

/// A folder that only this object may write to.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    fs: Arc<dyn Fs>,
    /// Number of the next segment. It exceeds the numbers of all segments that were in the folder when
    /// it was opened.
    next_number: AtomicU64,
    lock: FolderLock,
}

impl Folder {
    /// Opens the folder for writing; creates it if it is missing.
    ///
    /// # Errors
    /// [`Error::Storage`] if it cannot be created, or if another buffer or process is writing to it.
    pub fn open(path: &Path, fs: Arc<dyn Fs>) -> Result<Self> {
        // The path is absolute, since the process may change its working folder.
        let path = &std::path::absolute(path).map_err(|cause| Error::storage("find", path, cause))?;
        create_folder(&*fs, path).map_err(|cause| Error::storage("create", path, cause))?;
        let lock = FolderLock::take(&*fs, path)?;
        let mut folder = Self { path: path.to_owned(), fs, next_number: AtomicU64::new(0), lock };
        let last_number = folder.names()?.iter().filter_map(|name| segment_number(name)).max();
        folder.next_number = AtomicU64::new(last_number.map_or(0, |number| number.saturating_add(1)));
        Ok(folder)
    }

    /// Calls [`Folder::open`] on the machine's file system.
    ///
    /// # Errors
    /// The errors of [`Folder::open`].
    pub fn open_real(path: &Path) -> Result<Self> {
        Self::open(path, Arc::new(RealFs))
    }

    /// Returns the path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns false in a process that was forked from the one that opened the folder. Such a
    /// process may not write.
    #[must_use]
    pub fn is_owner(&self) -> bool {
        self.lock.is_owner()
    }

    /// Begins the folder's next segment. Returns its number, which this object uses only once, and its
    /// writer.
    ///
    /// # Errors
    /// The errors of [`SegmentWriter::begin`].
    pub fn begin_segment(&self, columns: Vec<ColumnPlan>, meta: &[u8]) -> Result<(u64, SegmentWriter)> {
        self.lock.check()?;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(segment_name(number));
        Ok((number, SegmentWriter::begin(Arc::clone(&self.fs), &path, columns, meta)?))
    }

    /// Opens the segment that `reference` names, and checks its size and checksum.
    ///
    /// # Errors
    /// The errors of [`Segment::open`]; [`Error::Damaged`] for another segment under that number.
    pub fn segment(&self, reference: SegmentRef) -> Result<Segment> {
        open_segment(&*self.fs, &self.path, reference)
    }

    /// Writes `manifest` durably under `name`, which must consist of letters, digits, `_` and `-`.
    ///
    /// # Errors
    /// The errors of [`Folder::check_present`] and [`Manifest::write`]; [`Error::Config`] for
    /// another name.
    pub fn publish(&self, name: &str, manifest: &Manifest) -> Result<()> {
        self.lock.check()?;
        self.check_present(&manifest.segments)?;
        manifest.write(Arc::clone(&self.fs), &manifest_path(&self.path, name)?)
    }

    /// Returns the manifest `name`.
    ///
    /// # Errors
    /// The errors of [`Manifest::read`]; [`Error::Missing`] if there is none.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        read_manifest(&*self.fs, &self.path, name)
    }

    /// Returns whether there is a manifest `name`.
    ///
    /// # Errors
    /// [`Error::Storage`] if the folder cannot be listed.
    pub fn has_manifest(&self, name: &str) -> Result<bool> {
        Ok(self.names()?.iter().any(|other| other.strip_suffix(MANIFEST_SUFFIX) == Some(name)))
    }

    /// Removes the manifests that are not in `keep`, then the files that no manifest needs.
    ///
    /// # Errors
    /// The errors of [`Folder::remove_unused`].
    pub fn prune(&self, keep: &[&str]) -> Result<RemovedFiles> {
        self.check_required_manifest()?;
        for file in self.names()? {
            if manifest_name(&file).is_some_and(|name| !keep.contains(&name)) {
                self.remove(&file)?;
            }
        }
        self.sync()?;
        self.remove_unused()
    }

    /// Removes the segments that no manifest of the folder lists, and unfinished files.
    ///
    /// Call it directly after publishing a manifest. It would also remove a segment that was sealed
    /// later, since no manifest lists that one yet.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a manifest cannot be read. Nothing is removed then, because its list
    /// is unknown. [`Error::Storage`] if the disk refuses.
    pub fn remove_unused(&self) -> Result<RemovedFiles> {
        self.remove_all(&self.unused_files(None)?)
    }

    /// Records that the folder depends on manifest `name`. Until [`Folder::delete`], no call
    /// removes segments while this manifest is missing.
    ///
    /// # Errors
    /// [`Error::Storage`] if the disk refuses.
    pub fn set_required_manifest(&self, name: &str) -> Result<()> {
        self.lock.write_note(name)
    }

    /// Checks that the manifest of [`Folder::set_required_manifest`] is in the folder.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it is missing, [`Error::Storage`] if the disk refuses.
    pub fn check_required_manifest(&self) -> Result<()> {
        let name = self.lock.read_note()?;
        if name.is_empty() || self.has_manifest(&name)? {
            return Ok(());
        }
        let what = "the file is missing, so the segments that it listed are unknown";
        Err(Error::damaged(&manifest_path(&self.path, &name)?, 0, what.to_owned()))
    }

    /// Removes manifest `name` and the files that no other manifest needs. Removes the folder too
    /// if nothing else is in it.
    ///
    /// # Errors
    /// The errors of [`Folder::remove_unused`].
    pub fn delete(&self, name: &str) -> Result<()> {
        self.lock.check()?;
        let unused = self.unused_files(Some(name))?;
        self.set_required_manifest("")?;
        // If the process stops during the removal, an empty manifest remains. So the segments that
        // the manifest listed before are known to be unused.
        self.publish(name, &Manifest::default())?;
        self.remove_all(&unused)?;
        self.remove(&format!("{name}{MANIFEST_SUFFIX}"))?;
        if self.names()?.iter().all(|file| file == LOCK_FILE) {
            self.remove(LOCK_FILE)?;
            drop(fs::remove_dir(&self.path));
        }
        Ok(())
    }

    /// Returns the segments that no manifest except `excluded` lists, and unfinished files.
    fn unused_files(&self, excluded: Option<&str>) -> Result<Vec<String>> {
        self.check_required_manifest()?;
        let mut names = self.names()?;
        let mut needed = HashSet::new();
        for name in names.iter().filter_map(|file| manifest_name(file)) {
            if !is_valid_name(name) {
                let cause = "no manifest has such a name; rename or remove it";
                return Err(Error::storage(
                    "read the list of",
                    &self.path.join(format!("{name}{MANIFEST_SUFFIX}")),
                    cause,
                ));
            }
            if Some(name) != excluded {
                needed.extend(self.manifest(name)?.segments.iter().map(|s| s.number));
            }
        }
        names.retain(|file| {
            let unused = segment_number(file).is_some_and(|number| !needed.contains(&number));
            is_unfinished(file) || unused
        });
        Ok(names)
    }

    fn remove_all(&self, files: &[String]) -> Result<RemovedFiles> {
        files.iter().try_for_each(|file| self.remove(file))?;
        Ok(RemovedFiles { files: files.len() })
    }

    /// Checks that the segments are still in the folder. Open segments can be read after their
    /// removal, but they are lost when the process ends.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first one that is missing or cut short; [`Error::Storage`] if
    /// another process may write here.
    pub fn check_present(&self, segments: &[SegmentRef]) -> Result<()> {
        if self.lock.is_owner() {
            self.lock.check()?;
        }
        for segment in segments {
            let path = self.path.join(segment_name(segment.number));
            let bytes = match self.fs.open(&path).and_then(|file| file.size()) {
                Ok(bytes) => bytes,
                Err(cause) if cause.kind() == ErrorKind::NotFound => 0,
                Err(cause) => return Err(Error::storage("look at", &path, cause)),
            };
            if bytes != segment.bytes {
                let what = format!(
                    "{bytes} bytes of {} are left: it was removed or cut short while a buffer used it",
                    segment.bytes
                );
                return Err(Error::damaged(&path, bytes, what));
            }
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        self.fs.list(&self.path).map_err(|cause| Error::storage("list", &self.path, cause))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.lock.check()?;
        let path = self.path.join(name);
        self.fs.remove(&path).map_err(|cause| Error::storage("remove", &path, cause))
    }

    fn sync(&self) -> Result<()> {
        sync_folder(&*self.fs, &self.path).map_err(|cause| Error::storage("sync", &self.path, cause))
    }
}

/// Opens the segment of a folder that `reference` names. The folder need not be locked, since
/// segments never change.
///
/// # Errors
/// The errors of [`Folder::segment`].
pub(crate) fn open_segment(fs: &dyn Fs, folder: &Path, reference: SegmentRef) -> Result<Segment> {
    let path = folder.join(segment_name(reference.number));
    let segment = Segment::open(fs, &path)?;
    if segment.checksum() == reference.checksum && segment.bytes() == reference.bytes {
        return Ok(segment);
    }
    let what = format!(
        "a segment of {} bytes, checksum {:08x}; the manifest lists {} bytes, {:08x}",
        segment.bytes(),
        segment.checksum(),
        reference.bytes,
        reference.checksum
    );
    Err(Error::damaged(&path, 0, what))
}

/// Reads manifest `name` of a folder. The folder need not be locked.
///
/// # Errors
/// The errors of [`Folder::manifest`].
pub(crate) fn read_manifest(fs: &dyn Fs, folder: &Path, name: &str) -> Result<Manifest> {
    let path = manifest_path(folder, name)?;
    Manifest::read(fs, &path).map_err(|error| {
        let files = match fs.list(folder) {
            Ok(files) => files,
            Err(cause) if cause.kind() == ErrorKind::NotFound => Vec::new(),
            Err(_) => return error,
        };
        let mut save_names: Vec<&str> = files.iter().filter_map(|file| manifest_name(file)).collect();
        if save_names.contains(&name) {
            return error;
        }
        save_names.sort_unstable();
        let more = if save_names.len() > MAX_NAMES_SHOWN {
            format!(" and {} more", save_names.len().saturating_sub(MAX_NAMES_SHOWN))
        } else {
            String::new()
        };
        save_names.truncate(MAX_NAMES_SHOWN);
        let there = if save_names.is_empty() { "none".to_owned() } else { save_names.join(", ") + &more };
        Error::Missing { name: name.to_owned(), folder: folder.display().to_string(), there }
    })
}

/// Returns whether a file is an unfinished file of [`super::fs::Replacement`].
fn is_unfinished(file: &str) -> bool {
    file.strip_suffix(".new").is_some_and(|name| name.starts_with('.'))
}

/// Returns the name of a manifest from its file name. Returns None for other files, and for another
/// program's hidden file about a manifest.
fn manifest_name(file: &str) -> Option<&str> {
    file.strip_suffix(MANIFEST_SUFFIX).filter(|name| !name.starts_with('.'))
}

fn segment_name(number: u64) -> String {
    format!("{number:012}{SEGMENT_SUFFIX}")
}

fn segment_number(file: &str) -> Option<u64> {
    let digits = file.strip_suffix(SEGMENT_SUFFIX)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

fn is_valid_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=128).contains(&name.len()) && name.bytes().all(is_valid)
}

fn manifest_path(folder: &Path, name: &str) -> Result<PathBuf> {
    if is_valid_name(name) {
        return Ok(folder.join(format!("{name}{MANIFEST_SUFFIX}")));
    }
    Err(Error::config("name", format!("{name:?}"), "1 to 128 letters, digits, '_' or '-'"))
}
