//! Operations of several steps. Each step locks the buffer alone or with other readers. The disk is
//! waited for between the steps, without the lock.

use std::sync::Arc;

use super::buffer::{MmapReplayBuffer, whole};
use super::reopen::reopen;
use crate::buffer::persist::{Header, NEWEST, Sealing, check_name};
use crate::buffer::rows::{EnvIndex, EnvRing, Transitions, layout_of};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::shared::Access;
use crate::store::{Folder, Manifest};

/// A seal that has begun.
struct Begun {
    folder: Arc<Folder>,
    /// The segment, and whether it replaces the newest one. None if every row is sealed.
    sealing: Option<(Sealing, bool)>,
    /// The header of the newest manifest after the seal: it has the complete rows.
    header: Header,
    /// The header of a save: the exact state at the beginning of the seal.
    exact: Header,
}

/// Stores rows in blocks, and calls `seal` when too many rows are not sealed.
pub(super) fn push<A: Access<MmapReplayBuffer>>(
    buffer: &mut A,
    to: EnvIndex<'_>,
    rows: Transitions<'_>,
    seal: impl Fn(&mut A) -> Result<()>,
) -> Result<()> {
    let block = buffer.read(|b| {
        b.open()?;
        b.rows.memory.check(to, &rows)?;
        Ok(usize::try_from(b.chunk).unwrap_or(usize::MAX))
    })??;
    let each = matches!(to, EnvIndex::Each);
    let mut next = 0;
    while next < rows.n {
        let part = next..if each { rows.n } else { rows.n.min(next + block) };
        if !buffer.write(|b| b.try_push(to, &rows, part.clone(), false))?? {
            let sealed = seal(buffer);
            if matches!(sealed, Err(Error::Interrupted)) {
                return sealed;
            }
            if !buffer.write(|b| b.try_push(to, &rows, part.clone(), true))?? {
                // Other threads may have filled the room that the seal made. If the seal failed,
                // the disk has refused.
                sealed?;
                continue;
            }
        }
        next = part.end;
    }
    Ok(())
}

/// Seals every row and lists it in the newest manifest.
pub(super) fn seal(buffer: &mut impl Access<MmapReplayBuffer>) -> Result<()> {
    sealed(buffer).map(drop)
}

/// Same as [`seal`]. Returns the state at the beginning of the seal, all of which is sealed now.
fn sealed(buffer: &mut impl Access<MmapReplayBuffer>) -> Result<(Arc<Folder>, Header)> {
    let Begun { folder, sealing, header, exact } = buffer.write(begin)??;
    let done = sealing.map_or(Ok(()), |(sealing, again)| write(buffer, &folder, sealing, again));
    // Runs also if this thread is being interrupted.
    interrupt::uninterrupted(|| buffer.write(|b| b.sealing = None))?;
    done?;
    let starts: Vec<u64> = header.rings.iter().map(|ring| ring.start).collect();
    let needed = buffer.read(|b| b.rows.needed(&starts))??;
    buffer.write(|b| {
        b.archive.retire(needed.iter().copied());
        let MmapReplayBuffer { rows, archive, .. } = b;
        let listed = &archive.entries;
        rows.disk.retain(|known| listed.iter().any(|entry| entry.reference == *known));
    })?;
    let manifest = buffer.read(|b| manifest(b, &header))?;
    folder.publish(NEWEST, &manifest)?;
    buffer.write(|b| b.durable = header.rings.iter().map(|ring| ring.pushed).collect())?;
    // Leftover files cost space but do no harm, and the next seal tries again.
    drop(folder.sweep());
    Ok((folder, exact))
}

fn begin(b: &mut MmapReplayBuffer) -> Result<Begun> {
    let folder = Arc::clone(b.open()?);
    let rings = b.rows.memory.rings().rings.iter().enumerate().map(|(env, ring)| {
        let (start, end) = (b.rows.start_of(env, whole(ring)), whole(ring));
        EnvRing { start, episodes: b.rows.cuts(env, start + 1, end), ..EnvRing::empty_at(end) }
    });
    let now = Header::of(&b.rows.memory, &b.state);
    let header = Header { rings: rings.collect(), ..now.clone() };
    let rings = now.rings.iter().enumerate().map(|(env, ring)| {
        let start = b.rows.start_of(env, ring.pushed);
        let episodes = b.rows.cuts(env, start, ring.pushed);
        EnvRing { start, head: 0, episodes, ..ring.clone() }
    });
    let exact = Header { rings: rings.collect(), ..now };
    let sealing = Sealing::begin_again(&mut b.archive, &mut b.rows.memory, &folder, b.chunk)?;
    if sealing.is_some() {
        b.sealing = Some(b.rows.memory.rings().rings.iter().map(|ring| ring.pushed).collect());
    }
    Ok(Begun { folder, sealing, header, exact })
}

/// Writes a segment while others use the buffer, opens it for reading and lists it.
fn write(
    buffer: &mut impl Access<MmapReplayBuffer>,
    folder: &Folder,
    sealing: Sealing,
    again: bool,
) -> Result<()> {
    let written = sealing.write(|sealing| buffer.read(|b| sealing.copy(&b.rows.memory)));
    let written = written.and_then(|done| Ok((folder.segment(done.reference)?, done)));
    interrupt::uninterrupted(|| {
        buffer.write(|b| {
            b.rows.memory.let_go();
            let (segment, finished) = written?;
            let reference = finished.list(&mut b.archive, again);
            b.rows.disk.push(reference, segment);
            Ok(())
        })
    })?
}

/// Returns the manifest of the header's rows in the segments that are open.
fn manifest(b: &MmapReplayBuffer, header: &Header) -> Manifest {
    let meta = layout_of(&b.rows.memory).into_bytes();
    Manifest { segments: b.rows.disk.references(), columns: header.columns(), meta }
}

pub(super) fn flush(buffer: &mut impl Access<MmapReplayBuffer>) -> Result<()> {
    let (folder, durable, listed) = buffer.read(|b| {
        let rings = b.rows.memory.rings().rings.iter().zip(&b.durable);
        let durable = rings.into_iter().all(|(ring, &durable)| whole(ring) == durable);
        Ok((Arc::clone(b.open()?), durable, b.rows.disk.references()))
    })??;
    // If the list of segments was removed or truncated, the seal below writes it again.
    if durable && folder.manifest(NEWEST).is_ok() {
        return folder.check_present(&listed);
    }
    seal(buffer)
}

pub(super) fn save(buffer: &mut impl Access<MmapReplayBuffer>, name: &str) -> Result<()> {
    check_name(name)?;
    // Others may push in the meantime. The save has the state at its beginning.
    let (folder, exact) = sealed(buffer)?;
    let manifest = buffer.read(|b| manifest(b, &exact))?;
    folder.publish(name, &manifest)
}

pub(super) fn restore(buffer: &mut impl Access<MmapReplayBuffer>, name: &str) -> Result<()> {
    let (folder, fs, empty) = buffer
        .read(|b| Ok((Arc::clone(b.open()?), Arc::clone(&b.archive.fs), b.rows.empty_copy()?)))??;
    let reopened = reopen(empty, &folder, &*fs, name)?;
    buffer.write(|b| b.state = b.adopt(reopened))?;
    // Until this seal succeeds, now or later, a reopened buffer would find the rows that were
    // sealed since the save.
    drop(seal(buffer));
    Ok(())
}

pub(super) fn close(buffer: &mut impl Access<MmapReplayBuffer>, keep: bool) -> Result<()> {
    let begun = buffer.write(|b| {
        // From here on, no row is stored that the flush would miss.
        b.closing = b.folder.is_some();
        b.folder.clone()
    })?;
    let Some(folder) = begun else { return Ok(()) };
    let done = if keep {
        flush(buffer)
    } else if folder.is_own() && folder.path().exists() {
        folder.delete(NEWEST)
    } else {
        // A forked child does not own the files. Without the folder there are no files.
        Ok(())
    };
    drop(folder);
    interrupt::uninterrupted(|| {
        buffer.write(|b| {
            b.closing = false;
            done?;
            b.folder = None;
            b.rows.close();
            Ok(())
        })
    })?
}
