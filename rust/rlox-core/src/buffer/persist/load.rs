//! Fills a buffer in memory with saved rows, which are read by their numbers.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::archive::{Archive, archive_entries, open_segments};
use super::check::{RecordChecker, StackChecker};
use super::header::{Header, check_layout};
use crate::buffer::rows::{DiskRows, MemoryRows, describe_buffer, env_sources, queues_mut, sources_per_env};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::store::{Fs, Manifest, read_manifest};

/// Bytes that are read at a time, approximately.
const PIECE: usize = 1 << 20;

/// Reads the bytes of numbered rows. The arguments are the index of the source, the
/// numbers, and the destination.
pub(in crate::buffer) type RowReader<'a> = dyn Fn(usize, Range<u64>, &mut [u8]) -> Result<()> + 'a;

/// Fills the empty `rows` with the rows of `header`, whose bytes come from `read`.
///
/// # Errors
/// [`Error::Snapshot`] for rows that no buffer can have.
pub(in crate::buffer) fn fill_rows(
    mut rows: MemoryRows,
    header: &Header,
    read: &RowReader<'_>,
) -> Result<MemoryRows> {
    let n_sources = sources_per_env(&rows, header.rings.len());
    rows.rings.by_env.clone_from(&header.rings);
    for env in 0..header.rings.len() {
        let source_range = env_sources(env, n_sources);
        let ranges = header.ranges.get(source_range.clone()).unwrap_or_default();
        fill_queues(&mut rows, env, (source_range.start, ranges), read)?;
        fill_records(&mut rows, env, (source_range.start, ranges), read)?;
    }
    Ok(rows)
}

/// Reads the records of an environment and checks them.
fn fill_records(
    rows: &mut MemoryRows,
    env: usize,
    (source, ranges): (usize, &[(u64, u64)]),
    read: &RowReader<'_>,
) -> Result<()> {
    let Some(ring) = rows.rings.by_env.get(env).cloned() else { return Ok(()) };
    if ranges.first() != Some(&(ring.start, ring.n_pushed)) {
        let expected = format!("{} to {}", ring.start, ring.n_pushed);
        return Err(Error::snapshot("queues", "records of other rows", expected));
    }
    let (capacity, stride) = (rows.rings.capacity, rows.layout.stride);
    let mut checker = RecordChecker::new(&ring, rows.layout.flags_offset, item_ranges(rows, ranges), true);
    for_each_piece(ring.start..ring.n_pushed, stride, |numbers, bytes| {
        read(source, numbers.clone(), bytes)?;
        for (position, record) in numbers.zip(bytes.chunks_exact(stride)) {
            checker.check_record(position, record)?;
            let first = env.saturating_mul(capacity);
            let slot = first.saturating_add(ring.slot(position, capacity));
            let target = rows.records.chunks_exact_mut(stride).nth(slot);
            target.unwrap_or_default().copy_from_slice(record);
        }
        Ok(())
    })?;
    checker.check_end()
}

/// Selects the ranges of the observation columns' items from the ranges of an environment's
/// sources.
pub(in crate::buffer) fn item_ranges(rows: &MemoryRows, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut ranges = ranges.iter().skip(1);
    let column = |envs: &Vec<crate::buffer::rows::Observations>| {
        let items = ranges.next().copied().unwrap_or_default();
        if envs.first().is_some_and(|observations| observations.stacks().is_some()) {
            ranges.next();
        }
        items
    };
    rows.obs.iter().map(column).collect()
}

/// Reads the queues of an environment and checks its stacks.
fn fill_queues(
    rows: &mut MemoryRows,
    env: usize,
    (source, ranges): (usize, &[(u64, u64)]),
    read: &RowReader<'_>,
) -> Result<()> {
    let stacked = rows.obs.iter().flat_map(|envs| match envs.get(env) {
        Some(observations) if observations.stacks().is_some() => vec![true, false],
        _ => vec![false],
    });
    let stacked: Vec<bool> = stacked.collect();
    for (queue_index, (queue, stacked)) in queues_mut(rows, env).zip(stacked).enumerate() {
        let source_index = queue_index.saturating_add(1); // after the records
        let (start, end) = ranges.get(source_index).copied().unwrap_or_default();
        let frames = ranges.get(source_index.saturating_add(1)).copied().unwrap_or_default();
        let mut stacks = stacked.then(|| StackChecker::new(frames));
        queue.restart(start);
        let width = queue.width();
        for_each_piece(start..end, width, |numbers, bytes| {
            read(source.saturating_add(source_index), numbers, bytes)?;
            for row in bytes.chunks_exact(width) {
                if let Some(stacks) = &mut stacks {
                    stacks.check_stack(row)?;
                }
                queue.push(row);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Calls `visit` with consecutive parts of `numbers`, each with memory for its rows of `width` bytes.
pub(in crate::buffer) fn for_each_piece(
    numbers: Range<u64>,
    width: usize,
    mut visit: impl FnMut(Range<u64>, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let rows = PIECE.checked_div(width).unwrap_or(0).max(1);
    let mut bytes = Vec::new();
    let mut next = numbers.start;
    while next < numbers.end {
        interrupt::check()?;
        let piece_end = numbers.end.min(next.saturating_add(rows as u64));
        let count = usize::try_from(piece_end.saturating_sub(next)).unwrap_or(usize::MAX);
        bytes.resize(count.saturating_mul(width), 0);
        visit(next..piece_end, &mut bytes)?;
        next = piece_end;
    }
    Ok(())
}

/// Loads the save `name` of `folder` into the empty `rows`.
///
/// Returns the rows, their header, the archive that further saves share, and the manifest.
pub(in crate::buffer) fn load_rows(
    fs: Arc<dyn Fs>,
    rows: MemoryRows,
    folder: &Path,
    name: &str,
) -> Result<(MemoryRows, Header, Archive, Manifest)> {
    let manifest = read_manifest(&*fs, folder, name)?;
    check_layout(&manifest.meta, &describe_buffer(&rows))?;
    let segments = open_segments(&*fs, folder, &manifest, &rows)?;
    let max_rows = rows.rings().capacity as u64;
    let header = Header::parse(&rows, max_rows, &|name| Ok(manifest.column(name)?.to_vec()))?;
    let disk = DiskRows::new(folder, segments);
    let rows = fill_rows(rows, &header, &|source, numbers, out| disk.read(source, numbers, out))?;
    let archive = Archive::from_entries(fs, folder, archive_entries(disk.segments()), &rows)?;
    Ok((rows, header, archive, manifest))
}
