//! Reads and checks rows that an earlier buffer left in a folder.

// Numbers in files are untrusted, so arithmetic that could overflow is denied.
#![deny(clippy::arithmetic_side_effects)]

use crate::buffer::persist::{Checker, Header, StackChecker, check_meta, items, open_all, pieces};
use crate::buffer::rows::{
    DiskRows, EnvRing, Rings, TieredRows, layout_of, own_sources, queues_mut, sources_of_each,
};
use crate::error::Result;
use crate::store::{Folder, Fs};

/// The rows of a manifest and its segments, with the header.
pub(super) struct Reopened {
    pub rows: TieredRows,
    pub header: Header,
}

/// Opens the rows that manifest `name` lists, as rows of `empty`, which has none yet.
///
/// The records and frame numbers of all rows are read and checked here. Observations are checked
/// when they are sampled.
pub(super) fn reopen(
    empty: TieredRows,
    folder: &Folder,
    fs: &dyn Fs,
    name: &str,
) -> Result<Reopened> {
    let TieredRows { mut memory, rings: Rings { capacity, .. }, .. } = empty;
    let manifest = folder.manifest(name)?;
    check_meta(&manifest.meta, &layout_of(&memory))?;
    let disk = DiskRows::new(folder.path(), open_all(fs, folder.path(), &manifest, &memory)?);
    let column = |name| Ok(manifest.column(name)?.to_vec());
    let header = Header::parse(&memory, u64::MAX, &column)?;
    let each = sources_of_each(&memory, header.rings.len());
    for (env, ring) in header.rings.iter().enumerate() {
        let own = own_sources(env, each);
        let ranges = header.ranges.get(own.clone()).unwrap_or_default();
        check(&memory, &disk, ring, (own.start, ranges))?;
        for (queue, range) in queues_mut(&mut memory, env).zip(ranges.iter().skip(1)) {
            queue.restart(range.1);
        }
        if let Some(slot) = memory.rings.rings.get_mut(env) {
            let (open, begins) = (ring.open, ring.begins);
            *slot = EnvRing { open, begins, ..EnvRing::empty_at(ring.pushed) };
        }
    }
    let mut rows = TieredRows::new(memory, disk, capacity);
    rows.begin(&header.rings);
    Ok(Reopened { rows, header })
}

/// Checks the rows of an environment whose sources begin at number `first`.
fn check(
    like: &crate::buffer::rows::MemoryRows,
    disk: &DiskRows,
    ring: &EnvRing,
    (first, ranges): (usize, &[(u64, u64)]),
) -> Result<()> {
    if ring.start == ring.pushed {
        return Ok(());
    }
    let items = items(like, ranges).into_iter().map(|(_, end)| (0, end)).collect();
    let mut checker = Checker::new(ring, like.layout.flags, items, false);
    pieces(ring.start..ring.pushed, like.layout.stride, |numbers, bytes| {
        disk.read(first, numbers.clone(), bytes)?;
        let records = bytes.chunks_exact(like.layout.stride);
        numbers.zip(records).try_for_each(|(position, record)| checker.record(position, record))
    })?;
    checker.finish()?;
    let mut at = 1; // after the records
    for (envs, oldest) in like.obs.iter().zip(checker.oldest()) {
        let source = first.saturating_add(at);
        let end = ranges.get(at).map_or(0, |range| range.1);
        at = at.saturating_add(1);
        let Some(stacks) = envs.first().and_then(|observations| observations.stacks()) else {
            disk.covers(source, oldest..end)?;
            continue;
        };
        let frames = ranges.get(at).map_or(0, |range| range.1);
        at = at.saturating_add(1);
        let mut checker = StackChecker::new((0, frames));
        let width = stacks.items().width();
        pieces(oldest..end, width, |numbers, bytes| {
            disk.read(source, numbers, bytes)?;
            bytes.chunks_exact(width).try_for_each(|stack| checker.stack(stack))
        })?;
        disk.covers(source.saturating_add(1), checker.oldest()..frames)?;
    }
    Ok(())
}
