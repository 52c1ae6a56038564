//! Fills rows in memory from numbered rows of bytes.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::archive::{Archive, entries, open_all};
use super::check::{Checker, StackChecker};
use super::header::{Header, check_meta};
use crate::buffer::rows::{
    DiskRows, MemoryRows, describe, own_sources, queues_mut, sources_of_each,
};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::store::{Fs, Manifest, read_manifest};

/// Bytes that are read at a time, approximately.
const PIECE: usize = 1 << 20;

/// Reads the bytes of numbered rows. The arguments are source, numbers and destination.
pub(in crate::buffer) type Read<'a> = dyn Fn(usize, Range<u64>, &mut [u8]) -> Result<()> + 'a;

/// Fills the empty `rows` with the rows of `header`, whose bytes come from `read`.
///
/// # Errors
/// [`Error::Snapshot`] for rows that no buffer can have.
pub(in crate::buffer) fn fill(
    mut rows: MemoryRows,
    header: &Header,
    read: &Read<'_>,
) -> Result<MemoryRows> {
    let each = sources_of_each(&rows, header.rings.len());
    rows.rings.rings.clone_from(&header.rings);
    for env in 0..header.rings.len() {
        let own = own_sources(env, each);
        let ranges = header.ranges.get(own.clone()).unwrap_or_default();
        fill_queues(&mut rows, env, (own.start, ranges), read)?;
        fill_records(&mut rows, env, (own.start, ranges), read)?;
    }
    Ok(rows)
}

/// Reads the records of an environment and checks them.
fn fill_records(
    rows: &mut MemoryRows,
    env: usize,
    (source, ranges): (usize, &[(u64, u64)]),
    read: &Read<'_>,
) -> Result<()> {
    let Some(ring) = rows.rings.rings.get(env).cloned() else { return Ok(()) };
    if ranges.first() != Some(&(ring.start, ring.pushed)) {
        let expected = format!("{} to {}", ring.start, ring.pushed);
        return Err(Error::snapshot("queues", "records of other rows", expected));
    }
    let (capacity, stride) = (rows.rings.capacity, rows.layout.stride);
    let mut checker = Checker::new(&ring, rows.layout.flags, items(rows, ranges), true);
    pieces(ring.start..ring.pushed, stride, |numbers, bytes| {
        read(source, numbers.clone(), bytes)?;
        for (position, record) in numbers.zip(bytes.chunks_exact(stride)) {
            checker.record(position, record)?;
            let first = env.saturating_mul(capacity);
            let slot = first.saturating_add(ring.slot(position, capacity));
            let held = rows.records.chunks_exact_mut(stride).nth(slot);
            held.unwrap_or_default().copy_from_slice(record);
        }
        Ok(())
    })?;
    checker.finish()
}

/// Selects the ranges of the observation columns' items from the ranges of an environment's
/// sources.
pub(in crate::buffer) fn items(rows: &MemoryRows, ranges: &[(u64, u64)]) -> Vec<(u64, u64)> {
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
    read: &Read<'_>,
) -> Result<()> {
    let stacked = rows.obs.iter().flat_map(|envs| match envs.get(env) {
        Some(observations) if observations.stacks().is_some() => vec![true, false],
        _ => vec![false],
    });
    let stacked: Vec<bool> = stacked.collect();
    for (at, (queue, stacked)) in queues_mut(rows, env).zip(stacked).enumerate() {
        let at = at.saturating_add(1); // after the records
        let (start, end) = ranges.get(at).copied().unwrap_or_default();
        let frames = ranges.get(at.saturating_add(1)).copied().unwrap_or_default();
        let mut stacks = stacked.then(|| StackChecker::new(frames));
        queue.restart(start);
        let width = queue.width();
        pieces(start..end, width, |numbers, bytes| {
            read(source.saturating_add(at), numbers, bytes)?;
            for row in bytes.chunks_exact(width) {
                if let Some(stacks) = &mut stacks {
                    stacks.stack(row)?;
                }
                queue.push(row);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Calls the last argument with consecutive parts of `numbers` and memory for rows of `width`
/// bytes.
pub(in crate::buffer) fn pieces(
    numbers: Range<u64>,
    width: usize,
    mut each: impl FnMut(Range<u64>, &mut [u8]) -> Result<()>,
) -> Result<()> {
    let rows = PIECE.checked_div(width).unwrap_or(0).max(1);
    let mut bytes = Vec::new();
    let mut next = numbers.start;
    while next < numbers.end {
        interrupt::check()?;
        let until = numbers.end.min(next.saturating_add(rows as u64));
        let count = usize::try_from(until.saturating_sub(next)).unwrap_or(usize::MAX);
        bytes.resize(count.saturating_mul(width), 0);
        each(next..until, &mut bytes)?;
        next = until;
    }
    Ok(())
}

/// Loads the save `name` of `folder` into the empty `rows`.
///
/// Returns the rows, their header, the archive that further saves share, and the manifest.
pub(in crate::buffer) fn load(
    fs: Arc<dyn Fs>,
    rows: MemoryRows,
    folder: &Path,
    name: &str,
) -> Result<(MemoryRows, Header, Archive, Manifest)> {
    let manifest = read_manifest(&*fs, folder, name)?;
    check_meta(&manifest.meta, &describe(&rows))?;
    let segments = open_all(&*fs, folder, &manifest, &rows)?;
    let most = rows.rings().capacity as u64;
    let header = Header::parse(&rows, most, &|name| Ok(manifest.column(name)?.to_vec()))?;
    let disk = DiskRows::new(folder, segments);
    let rows = fill(rows, &header, &|source, numbers, out| disk.read(source, numbers, out))?;
    let archive = Archive::resumed(fs, folder, entries(disk.segments()), &rows)?;
    Ok((rows, header, archive, manifest))
}
