//! Rows in sealed segments on disk.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::store::{Segment, SegmentRef};

/// The open segments of a buffer, each with rows of its sources.
#[derive(Debug)]
pub(in crate::buffer) struct DiskRows {
    folder: PathBuf,
    segments: Vec<(SegmentRef, Segment)>,
}

impl DiskRows {
    /// Makes the rows of `segments`. If two segments have the same row, the later one counts.
    pub(in crate::buffer) fn new(folder: &Path, segments: Vec<(SegmentRef, Segment)>) -> Self {
        Self { folder: folder.to_owned(), segments }
    }

    /// Returns the folder of the segments.
    pub(in crate::buffer) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the segments, oldest first.
    pub(in crate::buffer) fn segments(&self) -> &[(SegmentRef, Segment)] {
        &self.segments
    }

    /// Returns the references of the segments, as a manifest lists them.
    pub(in crate::buffer) fn references(&self) -> Vec<SegmentRef> {
        self.segments.iter().map(|(reference, _)| *reference).collect()
    }

    /// Adds a newer segment.
    pub(in crate::buffer) fn push(&mut self, reference: SegmentRef, segment: Segment) {
        self.segments.push((reference, segment));
    }

    /// Closes the segments for which `keep` is false.
    pub(in crate::buffer) fn retain(&mut self, keep: impl Fn(&SegmentRef) -> bool) {
        self.segments.retain(|(reference, _)| keep(reference));
    }

    /// Reads rows of a source into `out`.
    ///
    /// # Errors
    /// - [`Error::Damaged`] if no segment has a row, or its bytes are not those that were written.
    /// - [`Error::Storage`] if the disk fails.
    pub(in crate::buffer) fn read(&self, source: usize, numbers: Range<u64>, out: &mut [u8]) -> Result<()> {
        let (mut scratch, mut next, mut rest) = (Vec::new(), numbers.start, out);
        while next < numbers.end {
            let (segment, segment_end) = self.find(source, next..numbers.end)?;
            let width = rest.len() / usize::try_from(numbers.end - next).unwrap_or(usize::MAX).max(1);
            let bytes = usize::try_from(segment_end - next).unwrap_or(usize::MAX) * width;
            let (part, tail) = rest.split_at_mut(bytes);
            segment.read_rows(source, next..segment_end, part, &mut scratch)?;
            (rest, next) = (tail, segment_end);
        }
        Ok(())
    }

    /// Checks that the segments have all rows `numbers` of a source.
    ///
    /// # Errors
    /// [`Error::Damaged`] if a row is missing.
    pub(in crate::buffer) fn check_covers(&self, source: usize, numbers: Range<u64>) -> Result<()> {
        let mut next = numbers.start;
        while next < numbers.end {
            next = self.find(source, next..numbers.end)?.1;
        }
        Ok(())
    }

    /// Returns the segment that has the first of `numbers`, and the number at which it ends or
    /// another segment takes over.
    fn find(&self, source: usize, numbers: Range<u64>) -> Result<(&Segment, u64)> {
        let mut limit = numbers.end;
        for (_, segment) in self.segments.iter().rev() {
            let Some(rows) = segment.columns().get(source) else { continue };
            let (first, end) = (rows.first, rows.first + rows.rows);
            if (first..end).contains(&numbers.start) {
                return Ok((segment, limit.min(end)));
            }
            if first > numbers.start && first < end {
                limit = limit.min(first);
            }
        }
        let message = format!("no segment has row {} of source {source}", numbers.start);
        Err(Error::damaged(&self.folder, 0, message))
    }

    /// Reads and checks every byte.
    pub(in crate::buffer) fn verify(&self) -> Result<()> {
        self.segments.iter().try_for_each(|(_, segment)| segment.verify())
    }

    /// Returns the size of the segments in bytes.
    pub(in crate::buffer) fn bytes(&self) -> u64 {
        self.segments.iter().map(|(_, segment)| segment.bytes()).sum()
    }
}
