//! Operations of several steps. Each step locks the buffer, alone or with other readers. An operation
//! waits for the disk between its steps, without the lock.

use std::sync::Arc;

use super::buffer::{MmapReplayBuffer, complete_end};
use super::reopen::reopen;
use crate::buffer::persist::{Header, NEWEST, PendingSegment, check_name};
use crate::buffer::rows::{EnvIndex, EnvRing, Transitions, describe_columns};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::shared::Access;
use crate::store::{Folder, Manifest};

/// A seal that has begun.
struct SealPlan {
    folder: Arc<Folder>,
    /// The segment, and whether it replaces the newest one. None if every row is sealed.
    pending: Option<(PendingSegment, bool)>,
    /// The header of the newest manifest after the seal. It leaves out the newest row of an environment
    /// if that row still lacks its next observation.
    header: Header,
    /// The header of a save: the exact state at the beginning of the seal.
    exact_header: Header,
}

/// Stores rows in blocks, and calls `seal` when too many rows are not sealed.
pub(super) fn push<A: Access<MmapReplayBuffer>>(
    buffer: &mut A,
    env_index: EnvIndex<'_>,
    rows: Transitions<'_>,
    seal: impl Fn(&mut A) -> Result<()>,
) -> Result<()> {
    let block_rows = buffer.read(|b| {
        b.open_folder()?;
        b.rows.memory.check(env_index, &rows)?;
        Ok(usize::try_from(b.segment_rows).unwrap_or(usize::MAX))
    })??;
    let one_per_env = matches!(env_index, EnvIndex::Each);
    let mut next = 0;
    while next < rows.n {
        let part = next..if one_per_env { rows.n } else { rows.n.min(next + block_rows) };
        if !buffer.write(|b| b.try_push(env_index, &rows, part.clone(), false))?? {
            let seal_result = seal(buffer);
            if matches!(seal_result, Err(Error::Interrupted)) {
                return seal_result;
            }
            if !buffer.write(|b| b.try_push(env_index, &rows, part.clone(), true))?? {
                // Memory still has no room: because the seal failed, or because other threads have
                // filled the room that it made. In the second case, try again.
                seal_result?;
                continue;
            }
        }
        next = part.end;
    }
    Ok(())
}

/// Seals every row and lists it in the newest manifest.
pub(super) fn seal(buffer: &mut impl Access<MmapReplayBuffer>) -> Result<()> {
    seal_all(buffer).map(drop)
}

/// Same as [`seal`]. Returns the folder, and the header of the state at the beginning of the seal.
fn seal_all(buffer: &mut impl Access<MmapReplayBuffer>) -> Result<(Arc<Folder>, Header)> {
    let SealPlan { folder, pending, header, exact_header } = buffer.write(plan_seal)??;
    let write_result = pending.map_or(Ok(()), |(sealing, replaces_newest)| {
        write_segment(buffer, &folder, sealing, replaces_newest)
    });
    // Runs also if this thread is being interrupted.
    interrupt::uninterruptible(|| buffer.write(|b| b.sealing_ends = None))?;
    write_result?;
    let starts: Vec<u64> = header.rings.iter().map(|ring| ring.start).collect();
    let needed = buffer.read(|b| b.rows.oldest_needed(&starts))??;
    buffer.write(|b| {
        b.archive.remove_before(needed.iter().copied());
        let MmapReplayBuffer { rows, archive, .. } = b;
        let entries = &archive.entries;
        rows.disk.retain(|open_reference| entries.iter().any(|entry| entry.reference == *open_reference));
    })?;
    let manifest = buffer.read(|b| make_manifest(b, &header))?;
    folder.publish(NEWEST, &manifest)?;
    buffer.write(|b| b.durable_ends = header.rings.iter().map(|ring| ring.n_pushed).collect())?;
    // Leftover files cost space but do no harm, and the next seal tries again.
    drop(folder.remove_unused());
    Ok((folder, exact_header))
}

fn plan_seal(b: &mut MmapReplayBuffer) -> Result<SealPlan> {
    let folder = Arc::clone(b.open_folder()?);
    let rings = b.rows.memory.rings().by_env.iter().enumerate().map(|(env, ring)| {
        let (start, end) = (b.rows.start_of(env, complete_end(ring)), complete_end(ring));
        EnvRing { start, episode_starts: b.rows.cuts(env, start + 1, end), ..EnvRing::empty_at(end) }
    });
    let current = Header::from_rows(&b.rows.memory, &b.sampler_state);
    let header = Header { rings: rings.collect(), ..current.clone() };
    let rings = current.rings.iter().enumerate().map(|(env, ring)| {
        let start = b.rows.start_of(env, ring.n_pushed);
        let episodes = b.rows.cuts(env, start, ring.n_pushed);
        EnvRing { start, head: 0, episode_starts: episodes, ..ring.clone() }
    });
    let exact_header = Header { rings: rings.collect(), ..current };
    let pending = PendingSegment::begin_merged(&mut b.archive, &mut b.rows.memory, &folder, b.segment_rows)?;
    if pending.is_some() {
        b.sealing_ends = Some(b.rows.memory.rings().by_env.iter().map(|ring| ring.n_pushed).collect());
    }
    Ok(SealPlan { folder, pending, header, exact_header })
}

/// Writes a segment while others use the buffer, opens it for reading and lists it.
fn write_segment(
    buffer: &mut impl Access<MmapReplayBuffer>,
    folder: &Folder,
    pending: PendingSegment,
    replaces_newest: bool,
) -> Result<()> {
    let write_result = pending.write(|sealing| buffer.read(|b| sealing.copy(&b.rows.memory)));
    let segment_result = write_result.and_then(|done| Ok((folder.segment(done.reference)?, done)));
    interrupt::uninterruptible(|| {
        buffer.write(|b| {
            b.rows.memory.end_snapshot();
            let (segment, sealed_segment) = segment_result?;
            let reference = sealed_segment.add_to(&mut b.archive, replaces_newest);
            b.rows.disk.push(reference, segment);
            Ok(())
        })
    })?
}

/// Returns the manifest of the header's rows in the segments that are open.
fn make_manifest(b: &MmapReplayBuffer, header: &Header) -> Manifest {
    let meta = describe_columns(&b.rows.memory).into_bytes();
    Manifest { segments: b.rows.disk.references(), columns: header.columns(), meta }
}

pub(super) fn flush(buffer: &mut impl Access<MmapReplayBuffer>) -> Result<()> {
    let (folder, is_durable, references) = buffer.read(|b| {
        let rings = b.rows.memory.rings().by_env.iter().zip(&b.durable_ends);
        let all_durable = rings.into_iter().all(|(ring, &durable)| complete_end(ring) == durable);
        Ok((Arc::clone(b.open_folder()?), all_durable, b.rows.disk.references()))
    })??;
    // If the list of segments was removed or truncated, the seal below writes it again.
    if is_durable && folder.manifest(NEWEST).is_ok() {
        return folder.check_present(&references);
    }
    seal(buffer)
}

pub(super) fn save(buffer: &mut impl Access<MmapReplayBuffer>, name: &str) -> Result<()> {
    check_name(name)?;
    // Others may push in the meantime. The save has the state at its beginning.
    let (folder, exact_header) = seal_all(buffer)?;
    let manifest = buffer.read(|b| make_manifest(b, &exact_header))?;
    folder.publish(name, &manifest)
}

pub(super) fn restore(buffer: &mut impl Access<MmapReplayBuffer>, name: &str) -> Result<()> {
    let (folder, fs, empty) = buffer
        .read(|b| Ok((Arc::clone(b.open_folder()?), Arc::clone(&b.archive.fs), b.rows.empty_copy()?)))??;
    let reopened = reopen(empty, &folder, &*fs, name)?;
    buffer.write(|b| b.sampler_state = b.adopt(reopened))?;
    // Until this seal succeeds, now or later, a reopened buffer would find the rows that were
    // sealed since the save.
    drop(seal(buffer));
    Ok(())
}

pub(super) fn close(buffer: &mut impl Access<MmapReplayBuffer>, keep_files: bool) -> Result<()> {
    let open_folder = buffer.write(|b| {
        // From here on, no row is stored that the flush would miss.
        b.is_closing = b.folder.is_some();
        b.folder.clone()
    })?;
    let Some(folder) = open_folder else { return Ok(()) };
    let result = if keep_files {
        flush(buffer)
    } else if folder.is_owner() && folder.path().exists() {
        folder.delete(NEWEST)
    } else {
        // A forked child does not own the files. Without the folder there are no files.
        Ok(())
    };
    drop(folder);
    interrupt::uninterruptible(|| {
        buffer.write(|b| {
            b.is_closing = false;
            result?;
            b.folder = None;
            b.rows.close();
            Ok(())
        })
    })?
}
