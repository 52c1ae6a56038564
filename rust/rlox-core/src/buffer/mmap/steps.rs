//! What takes several steps: each has the buffer alone or with readers, and the disk is waited for
//! in between.

use std::sync::Arc;

use super::buffer::{MmapReplayBuffer, whole};
use super::reopen::reopen;
use crate::buffer::persist::{Header, NEWEST, Sealing, check_name};
use crate::buffer::rows::{EnvIndex, EnvRing, Transitions, layout_of};
use crate::error::Result;
use crate::interrupt;
use crate::shared::Access;
use crate::store::{Folder, Manifest};

/// A seal that has begun.
struct Begun {
    folder: Arc<Folder>,
    /// The segment, and whether it takes the place of the newest; None if every row is sealed.
    sealing: Option<(Sealing, bool)>,
    /// What the newest manifest says once it is done.
    header: Header,
}

/// Stores rows in blocks; `seal` is called where so many wait that they have to be sealed.
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
            if !buffer.write(|b| b.try_push(to, &rows, part.clone(), true))?? {
                // Others may have filled the room that was made; without any the disk has refused.
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
    let Begun { folder, sealing, header } = buffer.write(begin)??;
    let done = sealing.map_or(Ok(()), |(sealing, again)| write(buffer, &folder, sealing, again));
    // Even if this is to stop.
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
    // What is left over costs space, not safety, and the next seal tries again.
    drop(folder.sweep());
    Ok(())
}

fn begin(b: &mut MmapReplayBuffer) -> Result<Begun> {
    let folder = Arc::clone(b.open()?);
    let rings = b.rows.memory.rings().rings.iter().enumerate().map(|(env, ring)| {
        let (start, end) = (b.rows.start_of(env, whole(ring)), whole(ring));
        EnvRing { start, episodes: b.rows.cuts(env, start + 1, end), ..EnvRing::empty_at(end) }
    });
    let rings: Vec<EnvRing> = rings.collect();
    let header = Header { rings, ..Header::of(&b.rows.memory, &b.state) };
    let sealing = Sealing::begin_again(&mut b.archive, &mut b.rows.memory, &folder, b.chunk)?;
    if sealing.is_some() {
        b.sealing = Some(b.rows.memory.rings().rings.iter().map(|ring| ring.pushed).collect());
    }
    Ok(Begun { folder, sealing, header })
}

/// Writes a segment while others use the buffer, opens it for reading and lists it.
fn write(
    buffer: &mut impl Access<MmapReplayBuffer>,
    folder: &Folder,
    mut sealing: Sealing,
    again: bool,
) -> Result<()> {
    let written = (|| {
        while buffer.read(|b| sealing.copy(&b.rows.memory))? {
            sealing.write()?;
            interrupt::check()?;
        }
        let finished = sealing.finish()?;
        let segment = folder.segment(finished.reference)?;
        Ok((finished, segment))
    })();
    interrupt::uninterrupted(|| {
        buffer.write(|b| {
            b.rows.memory.let_go();
            let (finished, segment) = written?;
            let reference = finished.list(&mut b.archive, again);
            b.rows.disk.push(reference, segment);
            Ok(())
        })
    })?
}

/// The manifest of the rows of `header` in the segments that there are.
fn manifest(b: &MmapReplayBuffer, header: &Header) -> Manifest {
    let segments = b.rows.disk.segments().iter().map(|(reference, _)| *reference).collect();
    let meta = layout_of(&b.rows.memory).into_bytes();
    Manifest { segments, columns: header.columns(), meta }
}

pub(super) fn flush(buffer: &mut impl Access<MmapReplayBuffer>) -> Result<()> {
    let durable = buffer.read(|b| {
        b.open()?;
        let rings = b.rows.memory.rings().rings.iter().zip(&b.durable);
        Ok(rings.into_iter().all(|(ring, &durable)| whole(ring) == durable))
    })??;
    if durable { Ok(()) } else { seal(buffer) }
}

pub(super) fn save(buffer: &mut impl Access<MmapReplayBuffer>, name: &str) -> Result<()> {
    check_name(name)?;
    loop {
        seal(buffer)?;
        // Of what others pushed since then, nothing is sealed: then it is sealed once more.
        let sealed = buffer.read(|b| {
            if b.waiting() > 0 {
                return Ok(None);
            }
            let rings = b.rows.memory.rings().rings.iter().enumerate().map(|(env, ring)| {
                let start = b.rows.start_of(env, ring.pushed);
                let episodes = b.rows.cuts(env, start, ring.pushed);
                EnvRing { start, head: 0, episodes, ..ring.clone() }
            });
            let header = Header { rings: rings.collect(), ..Header::of(&b.rows.memory, &b.state) };
            Ok(Some((Arc::clone(b.open()?), manifest(b, &header))))
        })??;
        if let Some((folder, manifest)) = sealed {
            return folder.publish(name, &manifest);
        }
    }
}

pub(super) fn restore(buffer: &mut impl Access<MmapReplayBuffer>, name: &str) -> Result<()> {
    let reopened = buffer.read(|b| reopen(&b.rows, b.open()?, &*b.archive.fs, name))??;
    buffer.write(|b| b.state = b.adopt(reopened))?;
    // A reopening would find the rows sealed since until this is done, now or at the next seal.
    drop(seal(buffer));
    Ok(())
}

pub(super) fn close(buffer: &mut impl Access<MmapReplayBuffer>, keep: bool) -> Result<()> {
    let Some(folder) = buffer.read(|b| b.folder.clone())? else { return Ok(()) };
    if keep {
        flush(buffer)?;
    } else {
        folder.delete()?;
    }
    drop(folder);
    buffer.write(|b| {
        b.folder = None;
        b.rows.close();
    })
}
