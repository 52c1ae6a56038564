//! Saving and restoring storages as immutable segments that later saves share.
//!
//! Rows are numbered for ever and only appended, so a save seals what came since the last one and
//! lists the segments that still hold live rows. Several manifests of one folder share segments.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::replay::DrawState;
use super::ring::Ring;
use super::saved;
use super::source::{Source, describe, layout, sources};
use super::storage::{Changes, Storage};
use crate::error::{Error, Result};
use crate::store::{
    ColumnData, Folder, Fs, Manifest, RealFs, Segment, SegmentRef, open_segment, read_manifest,
};

/// From this many segments on, a save writes everything into one again.
const MOST_SEGMENTS: usize = 128;

/// What a save did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Segments that the saved buffer consists of.
    pub segments: usize,
    /// Bytes of the segment written for this save; 0 if nothing was new.
    pub new_bytes: u64,
}

/// Name of the manifest that an `MmapReplayBuffer` is reopened from.
pub(super) const NEWEST: &str = "newest";

/// Checks that a save may have this name.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name == NEWEST {
        let expected = "another name; this one is of the rows of an MmapReplayBuffer";
        return Err(Error::config("name", name, expected));
    }
    Ok(())
}

/// Removes every save of the folder `path` but those named in `keep`, and the segments that none of
/// these lists; returns how many segments went. The rows that an `MmapReplayBuffer` left stay.
///
/// # Errors
/// [`Error::Storage`] if there is no such folder, the disk refuses, or another process writes there;
/// [`Error::Damaged`] if a save that is kept cannot be read: no segment is removed then.
pub fn prune(path: &Path, keep: &[&str]) -> Result<usize> {
    if !path.is_dir() {
        return Err(Error::storage("prune", path, "there is no such folder"));
    }
    Ok(Folder::open_real(path)?.prune(&[keep, &[NEWEST]].concat())?.files)
}

/// A segment and the numbers of its rows, `[sources]`: first and behind the last.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub reference: SegmentRef,
    pub ranges: Vec<(u64, u64)>,
}

/// Which rows of a storage are sealed, and where.
#[derive(Debug)]
pub(super) struct Archive {
    fs: Arc<dyn Fs>,
    folder: Option<PathBuf>,
    pub entries: Vec<Entry>,
    /// Rows below this number are sealed, `[sources]`.
    sealed: Vec<u64>,
    /// Those of the storage at the last seal: what was written to since is sealed again.
    changes: Changes,
}

impl Default for Archive {
    fn default() -> Self {
        Self::on(Arc::new(RealFs))
    }
}

/// What was restored.
#[derive(Debug)]
pub(super) struct Restored {
    pub ring: Ring,
    pub manifest: Manifest,
}

impl Archive {
    /// Nothing sealed yet.
    pub(super) fn on(fs: Arc<dyn Fs>) -> Self {
        Self {
            fs,
            folder: None,
            entries: Vec::new(),
            sealed: Vec::new(),
            changes: Changes::default(),
        }
    }

    /// Position below which the records of `stream` are sealed.
    pub(super) fn sealed_rows(&self, storage: &Storage, stream: usize) -> u64 {
        let each = self.sealed.len() / storage.streams.len().max(1);
        self.sealed.get(stream * each).copied().unwrap_or(0)
    }

    /// The state of a storage whose rows below `ends`, `[sources]`, are in `entries`.
    pub(super) fn resumed(&mut self, entries: Vec<Entry>, ends: Vec<u64>) {
        self.entries = entries;
        self.sealed = ends;
    }

    /// Saves `storage` as `name` in `folder`: seals what is not sealed there, publishes a manifest
    /// with the `own` columns (name, bytes of a row, rows), and removes what no manifest needs.
    pub(super) fn save(
        &mut self,
        storage: &Storage,
        draws: &DrawState,
        folder: &Path,
        name: &str,
        own: &[(&str, usize, Vec<u8>)],
    ) -> Result<Saved> {
        check_name(name)?;
        let mut open = Folder::open(folder, Arc::clone(&self.fs))?;
        let path = folder.canonicalize().map_err(|e| Error::storage("open", folder, e))?;
        let missing = |entry: &Entry| open.segment(entry.reference).is_err();
        let replaced = self.changes.replaced != storage.changes.replaced;
        if replaced || self.folder.as_ref() != Some(&path) || self.entries.iter().any(missing) {
            self.entries.clear();
            self.folder = Some(path);
        }
        let all = sources(storage);
        self.retire(all.iter().map(|source| source.start));
        if self.entries.is_empty() || self.entries.len() >= MOST_SEGMENTS {
            self.entries.clear();
            self.sealed.clear();
        }
        let sealed = self.seal(storage, &all, &mut open)?;
        let mut manifest = saved::manifest(storage, draws, &storage.streams, describe(storage));
        manifest.segments = self.entries.iter().map(|entry| entry.reference).collect();
        let own = own
            .iter()
            .map(|(name, row_bytes, rows)| ((*name).to_owned(), *row_bytes, rows.clone()));
        manifest.columns.extend(own);
        open.publish(name, &manifest)?;
        // What is left over costs space, not safety, and the next save tries again.
        drop(open.sweep());
        let new_bytes = sealed.map_or(0, |segment| segment.bytes);
        Ok(Saved { segments: self.entries.len(), new_bytes })
    }

    /// Seals every row that is not sealed; None if there is none.
    pub(super) fn seal(
        &mut self,
        storage: &Storage,
        all: &[Source<'_>],
        folder: &mut Folder,
    ) -> Result<Option<SegmentRef>> {
        let changed = self.changes.updates != storage.changes.updates;
        self.sealed.resize(all.len(), 0);
        let again = |source: &Source<'_>| changed && source.name.starts_with("records");
        let from = all.iter().zip(&self.sealed).map(|(source, &sealed)| {
            if again(source) { source.start } else { sealed.clamp(source.start, source.end) }
        });
        let from: Vec<u64> = from.collect();
        if all.iter().zip(&from).all(|(source, &from)| from == source.end) {
            return Ok(None);
        }
        let columns = all.iter().zip(&from).map(|(source, &from)| ColumnData {
            name: source.name.clone(),
            row_bytes: source.row_bytes,
            first: from,
            parts: source.parts(from),
        });
        let columns: Vec<ColumnData<'_>> = columns.collect();
        let reference = folder.seal(&columns, layout(storage).as_bytes())?;
        for (at, _) in all.iter().enumerate().filter(|(_, source)| again(source)) {
            // The new segment holds all of these.
            for entry in &mut self.entries {
                if let Some(range) = entry.ranges.get_mut(at) {
                    *range = (0, 0);
                }
            }
        }
        let ranges = from.iter().zip(all).map(|(&from, source)| (from, source.end)).collect();
        self.entries.push(Entry { reference, ranges });
        self.sealed = all.iter().map(|source| source.end).collect();
        self.changes = storage.changes;
        Ok(Some(reference))
    }

    /// Takes the newest segment out of the list if all its rows are still in memory and it has
    /// fewer than `rows` of each stream, so that they are sealed again with what came since.
    pub(super) fn reopen_newest(&mut self, all: &[Source<'_>], rows: u64) {
        let small = |entry: &Entry| {
            entry.ranges.iter().zip(all).all(|(&(first, end), source)| {
                first >= source.start && (end - first < rows || !source.name.starts_with("records"))
            })
        };
        if self.entries.last().is_some_and(small) {
            self.forget_newest();
        }
    }

    /// Takes the newest segment, whose rows are all in memory, out of the list.
    pub(super) fn forget_newest(&mut self) {
        if let Some(entry) = self.entries.pop() {
            self.sealed = entry.ranges.iter().map(|&(first, _)| first).collect();
        }
    }

    /// Forgets the segments without a row at or after `starts`, `[sources]`, and returns them.
    pub(super) fn retire(&mut self, starts: impl Iterator<Item = u64> + Clone) -> Vec<SegmentRef> {
        let alive = |entry: &Entry| {
            let mut rows = entry.ranges.iter().zip(starts.clone());
            rows.any(|(&(first, end), start)| first < end && end > start)
        };
        let (kept, gone) = std::mem::take(&mut self.entries).into_iter().partition(alive);
        self.entries = kept;
        gone.into_iter().map(|entry| entry.reference).collect()
    }

    /// Fills `storage`, which is empty, with what was saved as `name` in `folder`.
    pub(super) fn load(storage: Storage, folder: &Path, name: &str) -> Result<Restored> {
        let fs: Arc<dyn Fs> = Arc::new(RealFs);
        let manifest = read_manifest(&*fs, folder, name)?;
        saved::check_meta(&manifest, &describe(&storage))?;
        let segments = open_all(&*fs, folder, &manifest, &storage)?;
        let (storage, draws) = saved::fill(storage, &manifest, &segments)?;
        let all = sources(&storage);
        let entries = entries(&manifest, &segments);
        let sealed = all.iter().map(|source| source.end).collect();
        let changes = storage.changes;
        let folder = folder.canonicalize().map_err(|e| Error::storage("open", folder, e))?;
        let archive = Self { fs, folder: Some(folder), entries, sealed, changes };
        Ok(Restored { ring: Ring { storage, draws, archive }, manifest })
    }
}

/// The segments with the ranges of their rows.
pub(super) fn entries(manifest: &Manifest, segments: &[Segment]) -> Vec<Entry> {
    let ranges =
        |segment: &Segment| segment.columns().iter().map(|c| (c.first, c.first + c.rows)).collect();
    let both = manifest.segments.iter().zip(segments);
    both.map(|(&reference, segment)| Entry { reference, ranges: ranges(segment) }).collect()
}

/// Opens the segments of a manifest of a storage like `storage`.
pub(super) fn open_all(
    fs: &dyn Fs,
    folder: &Path,
    manifest: &Manifest,
    storage: &Storage,
) -> Result<Vec<Segment>> {
    let all = sources(storage);
    let segments = manifest.segments.iter().map(|&which| {
        let segment = open_segment(fs, folder, which)?;
        let columns = segment.columns();
        let fits = columns.len() == all.len()
            && columns
                .iter()
                .zip(&all)
                .all(|(c, source)| c.name == source.name && c.row_bytes == source.row_bytes);
        if fits {
            Ok(segment)
        } else {
            Err(Error::damaged(segment.path(), 0, "columns of another buffer"))
        }
    });
    segments.collect()
}
