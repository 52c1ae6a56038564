//! Which rows are sealed, and in which segments.
//!
//! Row numbers never change and rows are only appended. So a save seals the rows that were added
//! since the last save, and lists the segments that still have live rows. Several manifests of one
//! folder share segments.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::rows::{MemoryRows, Source, env_sources, sources};
use crate::error::{Error, Result};
use crate::store::{Folder, Fs, Manifest, RealFs, Segment, SegmentRef, open_segment};

/// If an archive has this many segments, the next save writes all rows into one new segment.
const MAX_SEGMENTS: usize = 128;

/// The result of a save.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SaveReport {
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

/// A segment, with the range of its row numbers for each source: the first, and the one after the
/// last.
#[derive(Debug, Clone)]
pub(in crate::buffer) struct ArchiveEntry {
    pub reference: SegmentRef,
    pub ranges: Vec<(u64, u64)>,
}

/// The sealed rows of a buffer and their segments.
#[derive(Debug)]
pub(in crate::buffer) struct Archive {
    pub fs: Arc<dyn Fs>,
    folder: Option<PathBuf>,
    pub entries: Vec<ArchiveEntry>,
    /// Rows below this number are sealed, `[sources]`.
    sealed_ends: Vec<u64>,
    /// Number of updates of the rows at the last seal. If rows were updated since, all
    /// records are sealed again.
    updates: u64,
}

impl Default for Archive {
    fn default() -> Self {
        Self::with_fs(Arc::new(RealFs))
    }
}

impl Archive {
    /// Makes an archive without sealed rows.
    pub(in crate::buffer) fn with_fs(fs: Arc<dyn Fs>) -> Self {
        Self { fs, folder: None, entries: Vec::new(), sealed_ends: Vec::new(), updates: 0 }
    }

    /// Makes the archive of a buffer whose rows are all in `entries` of `folder`.
    pub(in crate::buffer) fn from_entries(
        fs: Arc<dyn Fs>,
        folder: &Path,
        entries: Vec<ArchiveEntry>,
        rows: &MemoryRows,
    ) -> Result<Self> {
        let folder = canonical_path(folder)?;
        let sealed = sources(rows).iter().map(|source| source.end).collect();
        Ok(Self { fs, folder: Some(folder), entries, sealed_ends: sealed, updates: rows.updates })
    }

    /// Continues with `entries`, which have the rows below `ends`, `[sources]`.
    pub(in crate::buffer) fn continue_from(&mut self, entries: Vec<ArchiveEntry>, ends: Vec<u64>) {
        (self.entries, self.sealed_ends) = (entries, ends);
    }

    /// Returns the position below which the records of `env` are sealed.
    pub(in crate::buffer) fn sealed_rows(&self, n_envs: usize, env: usize) -> u64 {
        let n_sources = self.sealed_ends.len().checked_div(n_envs).unwrap_or(0);
        self.sealed_ends.get(env_sources(env, n_sources).start).copied().unwrap_or(0)
    }

    /// Returns whether a save into `folder` can share the sealed segments.
    pub(super) fn can_share(&self, folder: &Folder) -> Result<bool> {
        let is_same_folder = self.folder.as_ref() == Some(&canonical_path(folder.path())?);
        let is_missing = |entry: &ArchiveEntry| folder.segment(entry.reference).is_err();
        Ok(is_same_folder && !self.entries.iter().any(is_missing))
    }

    /// Prepares a save of `rows`: takes segments that the save cannot use off the list.
    pub(super) fn prepare(&mut self, rows: &MemoryRows, folder: &Folder, is_shared: bool) -> Result<()> {
        self.folder = Some(canonical_path(folder.path())?);
        self.remove_before(sources(rows).iter().map(|source| source.start));
        if !is_shared || self.entries.is_empty() || self.entries.len() >= MAX_SEGMENTS {
            self.entries.clear();
            self.sealed_ends.clear();
        }
        Ok(())
    }

    /// Returns, for each source, the number of the first row to seal. None if every row is sealed.
    pub(super) fn first_unsealed(&mut self, rows: &MemoryRows, sources: &[Source]) -> Option<Vec<u64>> {
        self.sealed_ends.resize(sources.len(), 0);
        let has_updates = self.updates != rows.updates;
        let start_numbers = sources.iter().zip(&self.sealed_ends).map(|(source, &sealed)| {
            if has_updates && source.is_records() {
                source.start
            } else {
                sealed.clamp(source.start, source.end)
            }
        });
        let starts: Vec<u64> = start_numbers.collect();
        sources.iter().zip(&starts).any(|(source, &from)| from < source.end).then_some(starts)
    }

    /// Lists a new segment, which has the rows of each source from `starts` on. `updates` is the number
    /// of updates when the writing of the segment began.
    pub(super) fn add_segment(
        &mut self,
        reference: SegmentRef,
        sources: &[Source],
        starts: &[u64],
        updates: u64,
    ) {
        if self.updates != updates {
            // The new segment has all records.
            for (index, _) in sources.iter().enumerate().filter(|(_, source)| source.is_records()) {
                for entry in &mut self.entries {
                    if let Some(range) = entry.ranges.get_mut(index) {
                        *range = (0, 0);
                    }
                }
            }
        }
        let ranges = starts.iter().zip(sources).map(|(&from, source)| (from, source.end)).collect();
        self.entries.push(ArchiveEntry { reference, ranges });
        self.sealed_ends = sources.iter().map(|source| source.end).collect();
        self.updates = updates;
    }

    /// Returns the first row of the newest segment for each source, if that segment is to be
    /// rewritten.
    ///
    /// It is rewritten, together with newer rows, if all its rows are still in memory and it has
    /// fewer rows of each environment than the limit.
    pub(super) fn rewritable_starts(&self, sources: &[Source], max_rows: u64) -> Option<Vec<u64>> {
        let entry = self.entries.last()?;
        let is_small = entry.ranges.iter().zip(sources).all(|(&(first, end), source)| {
            first >= source.start && (end.saturating_sub(first) < max_rows || !source.is_records())
        });
        is_small.then(|| entry.ranges.iter().map(|&(first, _)| first).collect())
    }

    /// Removes the newest segment from the list.
    pub(super) fn forget_newest(&mut self) {
        self.entries.pop();
    }

    /// Takes the segments off the list that have no row at or after `starts`, `[sources]`.
    pub(in crate::buffer) fn remove_before(&mut self, starts: impl Iterator<Item = u64> + Clone) {
        let has_live_rows = |entry: &ArchiveEntry| {
            let mut rows = entry.ranges.iter().zip(starts.clone());
            rows.any(|(&(first, end), start)| first < end && end > start)
        };
        self.entries.retain(has_live_rows);
    }
}

fn canonical_path(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().map_err(|cause| Error::storage("open", folder, cause))
}

/// Returns the segments with the numbers of their rows.
pub(in crate::buffer) fn archive_entries(segments: &[(SegmentRef, Segment)]) -> Vec<ArchiveEntry> {
    let ranges = |segment: &Segment| segment.columns().iter().map(|c| (c.first, c.end())).collect();
    let entry = |(reference, segment): &(SegmentRef, Segment)| ArchiveEntry {
        reference: *reference,
        ranges: ranges(segment),
    };
    segments.iter().map(entry).collect()
}

/// Opens the segments of a manifest, whose columns have to fit `rows`.
pub(in crate::buffer) fn open_segments(
    fs: &dyn Fs,
    folder: &Path,
    manifest: &Manifest,
    rows: &MemoryRows,
) -> Result<Vec<(SegmentRef, Segment)>> {
    let source_list = sources(rows);
    let segments = manifest.segments.iter().map(|&reference| {
        let segment = open_segment(fs, folder, reference)?;
        let columns = segment.columns();
        let is_match = columns.len() == source_list.len()
            && columns
                .iter()
                .zip(&source_list)
                .all(|(c, source)| c.name == source.name && c.row_bytes == source.row_bytes);
        if is_match {
            Ok((reference, segment))
        } else {
            Err(Error::damaged(segment.path(), 0, "columns of another buffer"))
        }
    });
    segments.collect()
}
