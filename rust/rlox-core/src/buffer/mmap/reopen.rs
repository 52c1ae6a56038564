//! Reads and checks rows that an earlier buffer left in a folder.

// Numbers in files are untrusted, so arithmetic that could overflow is denied.
#![deny(clippy::arithmetic_side_effects)]

use crate::buffer::persist::{
    Header, RecordChecker, StackChecker, check_layout, for_each_piece, item_ranges, open_segments,
};
use crate::buffer::rows::{
    DiskRows, EnvRing, Rings, TieredRows, describe_columns, env_sources, queues_mut, sources_per_env,
};
use crate::error::Result;
use crate::store::{Folder, Fs};

/// The rows that a manifest lists, and their header.
pub(super) struct ReopenedRows {
    pub rows: TieredRows,
    pub header: Header,
}

/// Opens the rows that manifest `name` lists. They must have the layout of `empty`, which has no rows.
///
/// The records and frame numbers of all rows are read and checked here. Observations are checked
/// when they are sampled.
pub(super) fn reopen(empty: TieredRows, folder: &Folder, fs: &dyn Fs, name: &str) -> Result<ReopenedRows> {
    let TieredRows { mut memory, rings: Rings { capacity, .. }, .. } = empty;
    let manifest = folder.manifest(name)?;
    check_layout(&manifest.meta, &describe_columns(&memory))?;
    let disk = DiskRows::new(folder.path(), open_segments(fs, folder.path(), &manifest, &memory)?);
    let column = |name| Ok(manifest.column(name)?.to_vec());
    let header = Header::parse(&memory, u64::MAX, &column)?;
    let n_sources = sources_per_env(&memory, header.rings.len());
    for (env, ring) in header.rings.iter().enumerate() {
        let source_range = env_sources(env, n_sources);
        let ranges = header.ranges.get(source_range.clone()).unwrap_or_default();
        check_rows(&memory, &disk, ring, (source_range.start, ranges))?;
        for (queue, range) in queues_mut(&mut memory, env).zip(ranges.iter().skip(1)) {
            queue.restart(range.1);
        }
        if let Some(slot) = memory.rings.by_env.get_mut(env) {
            let (awaits_next_obs, begins_episode) = (ring.awaits_next_obs, ring.begins_episode);
            *slot = EnvRing { awaits_next_obs, begins_episode, ..EnvRing::empty_at(ring.n_pushed) };
        }
    }
    let mut rows = TieredRows::new(memory, disk, capacity);
    rows.start_from_disk(&header.rings);
    Ok(ReopenedRows { rows, header })
}

/// Checks the rows of an environment. `first` is the index of its first source, and `ranges` has
/// the range of row numbers of each of its sources.
fn check_rows(
    template: &crate::buffer::rows::MemoryRows,
    disk: &DiskRows,
    ring: &EnvRing,
    (first, ranges): (usize, &[(u64, u64)]),
) -> Result<()> {
    if ring.start == ring.n_pushed {
        return Ok(());
    }
    let items = item_ranges(template, ranges).into_iter().map(|(_, end)| (0, end)).collect();
    let mut checker = RecordChecker::new(ring, template.layout.flags_offset, items, false);
    for_each_piece(ring.start..ring.n_pushed, template.layout.stride, |numbers, bytes| {
        disk.read(first, numbers.clone(), bytes)?;
        let records = bytes.chunks_exact(template.layout.stride);
        numbers.zip(records).try_for_each(|(position, record)| checker.check_record(position, record))
    })?;
    checker.check_end()?;
    let mut source_index = 1; // after the records
    for (envs, oldest) in template.obs.iter().zip(checker.oldest()) {
        let source = first.saturating_add(source_index);
        let end = ranges.get(source_index).map_or(0, |range| range.1);
        source_index = source_index.saturating_add(1);
        let Some(stacks) = envs.first().and_then(|observations| observations.stacks()) else {
            disk.check_covers(source, oldest..end)?;
            continue;
        };
        let frames = ranges.get(source_index).map_or(0, |range| range.1);
        source_index = source_index.saturating_add(1);
        let mut checker = StackChecker::new((0, frames));
        let width = stacks.items().width();
        for_each_piece(oldest..end, width, |numbers, bytes| {
            disk.read(source, numbers, bytes)?;
            bytes.chunks_exact(width).try_for_each(|stack| checker.check_stack(stack))
        })?;
        disk.check_covers(source.saturating_add(1), checker.oldest()..frames)?;
    }
    Ok(())
}
