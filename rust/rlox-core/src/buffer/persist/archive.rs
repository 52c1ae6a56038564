//! Which rows are sealed, and in which segments.
//!
//! Row numbers never change and rows are only appended. So a save seals the rows that were added
//! since the last save, and lists the segments that still have live rows. Several manifests of one
//! folder share segments.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::rows::{MemoryRows, Source, own_sources, sources};
use crate::error::{Error, Result};
use crate::store::{Folder, Fs, Manifest, RealFs, Segment, SegmentRef, open_segment};

/// If an archive has this many segments, the next save writes all rows into a new one.
const MAX_SEGMENTS: usize = 128;

/// The result of a save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Number of segments of the saved buffer.
    pub segments: usize,
    /// Size in bytes of the segment that this save wrote; 0 if no row was new.
    pub new_bytes: u64,
}

/// Name of the manifest from which an `MmapReplayBuffer` is reopened.
pub(in crate::buffer) const NEWEST: &str = "newest";

/// Checks that a save may have this name.
pub(in crate::buffer) fn check_name(name: &str) -> Result<()> {
    if name == NEWEST {
        let expected = "another name; this one is of the rows of an MmapReplayBuffer";
        return Err(Error::config("name", name, expected));
    }
    Ok(())
}

/// Removes every save of the folder `path` except those named in `keep`, and the segments that no
/// remaining save lists. Returns the number of removed segments and unfinished files.
///
/// The rows that an `MmapReplayBuffer` left there stay.
///
/// # Errors
/// Nothing is removed if a save named in `keep` is missing or damaged.
/// - [`Error::Storage`] if the folder does not exist, the disk fails, or another process writes
///   there.
/// - [`Error::Missing`] if a save named in `keep` does not exist.
/// - [`Error::Damaged`] if one cannot be read.
pub fn prune(path: &Path, keep: &[&str]) -> Result<usize> {
    if !path.is_dir() {
        return Err(Error::storage("prune", path, "there is no such folder"));
    }
    let folder = Folder::open_real(path)?;
    // Checked first, so that a misspelt name does not remove the save that it means.
    keep.iter().try_for_each(|name| folder.manifest(name).map(drop))?;
    Ok(folder.prune(&[keep, &[NEWEST]].concat())?.files)
}

/// A segment and the numbers of its rows, `[sources]`: the first and the one after the last.
#[derive(Debug, Clone)]
pub(in crate::buffer) struct Entry {
    pub reference: SegmentRef,
    pub ranges: Vec<(u64, u64)>,
}

/// The sealed rows of a buffer and their segments.
#[derive(Debug)]
pub(in crate::buffer) struct Archive {
    pub fs: Arc<dyn Fs>,
    folder: Option<PathBuf>,
    pub entries: Vec<Entry>,
    /// Rows below this number are sealed, `[sources]`.
    sealed: Vec<u64>,
    /// Number of updates of the rows at the last seal. Records that were updated since are sealed
    /// again.
    updates: u64,
}

impl Default for Archive {
    fn default() -> Self {
        Self::on(Arc::new(RealFs))
    }
}

impl Archive {
    /// Makes an archive without sealed rows.
    pub(in crate::buffer) fn on(fs: Arc<dyn Fs>) -> Self {
        Self { fs, folder: None, entries: Vec::new(), sealed: Vec::new(), updates: 0 }
    }

    /// Makes the archive of a buffer whose rows are all in `entries` of `folder`.
    pub(in crate::buffer) fn resumed(
        fs: Arc<dyn Fs>,
        folder: &Path,
        entries: Vec<Entry>,
        rows: &MemoryRows,
    ) -> Result<Self> {
        let folder = canonical(folder)?;
        let sealed = sources(rows).iter().map(|source| source.end).collect();
        Ok(Self { fs, folder: Some(folder), entries, sealed, updates: rows.updates })
    }

    /// Continues with `entries`, which have the rows below `ends`, `[sources]`.
    pub(in crate::buffer) fn follow(&mut self, entries: Vec<Entry>, ends: Vec<u64>) {
        (self.entries, self.sealed) = (entries, ends);
    }

    /// Returns the position below which the records of `env` are sealed.
    pub(in crate::buffer) fn sealed_rows(&self, n_envs: usize, env: usize) -> u64 {
        let each = self.sealed.len().checked_div(n_envs).unwrap_or(0);
        self.sealed.get(own_sources(env, each).start).copied().unwrap_or(0)
    }

    /// Returns whether a save into `folder` can share the sealed segments.
    pub(super) fn is_of(&self, folder: &Folder) -> Result<bool> {
        let same = self.folder.as_ref() == Some(&canonical(folder.path())?);
        let missing = |entry: &Entry| folder.segment(entry.reference).is_err();
        Ok(same && !self.entries.iter().any(missing))
    }

    /// Prepares a save of `rows`: removes the segments from the list that the save cannot use.
    pub(super) fn prepare(
        &mut self,
        rows: &MemoryRows,
        folder: &Folder,
        shared: bool,
    ) -> Result<()> {
        self.folder = Some(canonical(folder.path())?);
        self.retire(sources(rows).iter().map(|source| source.start));
        if !shared || self.entries.is_empty() || self.entries.len() >= MAX_SEGMENTS {
            self.entries.clear();
            self.sealed.clear();
        }
        Ok(())
    }

    /// Returns the number of the first row to seal of each source. None if every row is sealed.
    pub(super) fn unsealed(&mut self, rows: &MemoryRows, all: &[Source]) -> Option<Vec<u64>> {
        self.sealed.resize(all.len(), 0);
        let again = self.updates != rows.updates;
        let from = all.iter().zip(&self.sealed).map(|(source, &sealed)| {
            if again && source.is_records() {
                source.start
            } else {
                sealed.clamp(source.start, source.end)
            }
        });
        let from: Vec<u64> = from.collect();
        all.iter().zip(&from).any(|(source, &from)| from < source.end).then_some(from)
    }

    /// Lists a new segment, which has the rows of each source from a first number on. The last
    /// argument is the number of updates before it was written.
    pub(super) fn sealed(
        &mut self,
        reference: SegmentRef,
        all: &[Source],
        from: &[u64],
        updates: u64,
    ) {
        if self.updates != updates {
            // The new segment has all records.
            for (at, _) in all.iter().enumerate().filter(|(_, source)| source.is_records()) {
                for entry in &mut self.entries {
                    if let Some(range) = entry.ranges.get_mut(at) {
                        *range = (0, 0);
                    }
                }
            }
        }
        let ranges = from.iter().zip(all).map(|(&from, source)| (from, source.end)).collect();
        self.entries.push(Entry { reference, ranges });
        self.sealed = all.iter().map(|source| source.end).collect();
        self.updates = updates;
    }

    /// Returns the first row of the newest segment for each source, if that segment is to be
    /// rewritten.
    ///
    /// It is rewritten, together with newer rows, if all its rows are still in memory and it has
    /// fewer rows of each environment than the limit.
    pub(super) fn reopened(&self, all: &[Source], rows: u64) -> Option<Vec<u64>> {
        let entry = self.entries.last()?;
        let small = entry.ranges.iter().zip(all).all(|(&(first, end), source)| {
            first >= source.start && (end.saturating_sub(first) < rows || !source.is_records())
        });
        small.then(|| entry.ranges.iter().map(|&(first, _)| first).collect())
    }

    /// Removes the newest segment from the list.
    pub(super) fn forget_newest(&mut self) {
        self.entries.pop();
    }

    /// Removes the segments from the list that have no row at or after `starts`, `[sources]`.
    pub(in crate::buffer) fn retire(&mut self, starts: impl Iterator<Item = u64> + Clone) {
        let alive = |entry: &Entry| {
            let mut rows = entry.ranges.iter().zip(starts.clone());
            rows.any(|(&(first, end), start)| first < end && end > start)
        };
        self.entries.retain(alive);
    }
}

fn canonical(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().map_err(|cause| Error::storage("open", folder, cause))
}

/// Returns the segments with the numbers of their rows.
pub(in crate::buffer) fn entries(segments: &[(SegmentRef, Segment)]) -> Vec<Entry> {
    let ranges = |segment: &Segment| segment.columns().iter().map(|c| (c.first, c.end())).collect();
    let entry = |(reference, segment): &(SegmentRef, Segment)| Entry {
        reference: *reference,
        ranges: ranges(segment),
    };
    segments.iter().map(entry).collect()
}

/// Opens the segments of a manifest, whose columns have to fit `rows`.
pub(in crate::buffer) fn open_all(
    fs: &dyn Fs,
    folder: &Path,
    manifest: &Manifest,
    rows: &MemoryRows,
) -> Result<Vec<(SegmentRef, Segment)>> {
    let all = sources(rows);
    let segments = manifest.segments.iter().map(|&which| {
        let segment = open_segment(fs, folder, which)?;
        let columns = segment.columns();
        let fits = columns.len() == all.len()
            && columns
                .iter()
                .zip(&all)
                .all(|(c, source)| c.name == source.name && c.row_bytes == source.row_bytes);
        if fits {
            Ok((which, segment))
        } else {
            Err(Error::damaged(segment.path(), 0, "columns of another buffer"))
        }
    });
    segments.collect()
}
