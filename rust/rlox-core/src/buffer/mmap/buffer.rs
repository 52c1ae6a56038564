//! A replay buffer larger than memory: recent rows in memory, older ones on disk.

use std::path::Path;
use std::sync::Arc;

use super::reopen::{Reopened, reopen};
use crate::buffer::batch::Batch;
use crate::buffer::persist::{Archive, NEWEST, entries};
use crate::buffer::rows::{
    DiskRows, EnvIndex, EnvRing, MAX_CAPACITY, MemoryRows, NStep, RowRef, Rows, TieredRows,
    Transitions, check_frames,
};
use crate::buffer::sampling::{Drawn, Request, SamplerState, Uniform};
use crate::buffer::schema::Schema;
use crate::error::{Error, Result};
use crate::interrupt::Pace;
use crate::store::{Folder, Fs, Manifest, RealFs};

/// An environment's rows are sealed in about this many parts.
const SEGMENTS: usize = 256;

/// Smaller segments than this are not worth a write.
const SEGMENT_BYTES: usize = 1 << 20;

/// How many rows, and where.
#[derive(Debug, Clone)]
pub struct Tiers<'a> {
    /// Rows held in memory at least.
    pub hot_capacity: usize,
    /// Rows held in all.
    pub total_capacity: usize,
    /// The folder of the segments.
    pub path: &'a Path,
    /// Whether rows that an earlier buffer sealed there are taken over; if not, they are refused.
    pub reopen: bool,
}

/// A ring of transitions of which the older part is on disk.
///
/// Rows are sealed in segments of 1/256 of the capacity or 1 MiB (at most a third of the hot rows);
/// the newest rows that wait for that are lost if the process dies, and `flush` seals them. The
/// oldest segment is removed when all its rows have left the ring. Every read from disk is checked.
#[derive(Debug)]
pub struct MmapReplayBuffer {
    pub(super) rows: TieredRows,
    pub(super) state: SamplerState,
    pub(super) archive: Archive,
    /// None after `close`.
    pub(super) folder: Option<Arc<Folder>>,
    /// Rows per environment that are sealed at a time.
    pub(super) chunk: u64,
    /// Position of each environment up to which a reopening finds the rows, `[envs]`.
    pub(super) durable: Vec<u64>,
    /// Position of each environment up to which rows are being sealed, if they are.
    pub(super) sealing: Option<Vec<u64>>,
    /// Whether it is being closed: nothing can be stored any more.
    pub(super) closing: bool,
}

impl MmapReplayBuffer {
    /// A buffer over the folder, with the rows that are there.
    ///
    /// # Errors
    /// As [`MemoryRows::new`]; [`Error::Config`] if the capacities are out of order;
    /// [`Error::Storage`] if the disk refuses, another buffer uses the folder, or it has rows and
    /// `reopen` is false; [`Error::Damaged`] or [`Error::Snapshot`] for rows that do not fit.
    pub fn new(schema: Schema, tiers: &Tiers<'_>, n_envs: usize, seed: u64) -> Result<Self> {
        Self::on(Arc::new(RealFs), schema, tiers, n_envs, seed)
    }

    /// [`MmapReplayBuffer::new`] on another file system.
    ///
    /// # Errors
    /// As there.
    pub fn on(
        fs: Arc<dyn Fs>,
        schema: Schema,
        tiers: &Tiers<'_>,
        n_envs: usize,
        seed: u64,
    ) -> Result<Self> {
        let Tiers { hot_capacity: hot, total_capacity: total, path, reopen: anew } = *tiers;
        if !(n_envs..=MAX_CAPACITY).contains(&total) {
            let expected = format!("at least n_envs ({n_envs}) and at most {MAX_CAPACITY}");
            return Err(Error::config("total_capacity", total, expected));
        }
        if hot == 0 || hot > total {
            let expected = format!("1 to total_capacity ({total})");
            return Err(Error::config("hot_capacity", hot, expected));
        }
        let each = total / n_envs.max(1);
        // No more than a third of what is to be hot anyway, to save disk operations.
        let few = (SEGMENT_BYTES / row_bytes(&schema)).min(hot / n_envs.max(1) / 3);
        let chunk = each.div_ceil(SEGMENTS).max(few).max(1);
        // Two blocks wait in memory while the disk is slow, and one row longer: until its next
        // observation is known, the newest is not durable.
        let ring = (hot / n_envs.max(1)).max(2 * chunk + 2).saturating_mul(n_envs.max(1));
        check_frames("total_capacity", &schema, total, each)?;
        let memory = MemoryRows::new(schema, ring, n_envs)?;
        let folder = Arc::new(Folder::open(path, Arc::clone(&fs))?);
        let mut buffer = Self {
            rows: TieredRows::new(memory, DiskRows::new(path, Vec::new()), each),
            state: SamplerState::new(seed),
            archive: Archive::on(fs),
            folder: Some(Arc::clone(&folder)),
            chunk: chunk as u64,
            durable: vec![0; n_envs],
            sealing: None,
            closing: false,
        };
        folder.check_relied_on()?;
        if folder.has_manifest(NEWEST)? && !folder.manifest(NEWEST)?.segments.is_empty() {
            if !anew {
                let cause =
                    "an earlier buffer left rows there; pass reopen=True to go on with them";
                return Err(Error::storage("start anew in", path, cause));
            }
            let reopened = reopen(buffer.rows.empty_copy()?, &folder, &*buffer.archive.fs, NEWEST)?;
            buffer.adopt(reopened);
            buffer.durable = buffer.rows.memory.rings().rings.iter().map(whole).collect();
        } else {
            folder.publish(NEWEST, &Manifest::default())?;
        }
        folder.rely_on(NEWEST)?;
        Ok(buffer)
    }

    /// Takes over what was reopened; returns where draws stood.
    pub(super) fn adopt(&mut self, reopened: Reopened) -> SamplerState {
        let Reopened { rows, header } = reopened;
        let ends =
            crate::buffer::rows::sources(&rows.memory).iter().map(|source| source.end).collect();
        self.archive.follow(entries(rows.disk.segments()), ends);
        self.rows = rows;
        header.sampler_state()
    }

    /// All rows, in memory and on disk.
    #[must_use]
    pub const fn rows(&self) -> &impl Rows {
        &self.rows
    }

    /// The rows in memory.
    #[must_use]
    pub const fn memory(&self) -> &MemoryRows {
        &self.rows.memory
    }

    /// Where draws stand.
    #[must_use]
    pub const fn sampler_state(&self) -> &SamplerState {
        &self.state
    }

    /// Rows that are lost if the process dies now.
    #[must_use]
    pub fn unsealed(&self) -> u64 {
        if self.folder.is_none() {
            return 0;
        }
        let rings = self.rows.memory.rings().rings.iter().zip(&self.durable);
        rings.map(|(ring, &durable)| ring.pushed.saturating_sub(durable)).sum()
    }

    /// Bytes of the sealed segments.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.rows.disk.bytes()
    }

    /// Position below which the rows of an environment are sealed, or are being sealed.
    fn sealed(&self, env: usize) -> u64 {
        let sealing = self.sealing.as_ref().and_then(|ends| ends.get(env));
        sealing.copied().unwrap_or_else(|| self.archive.sealed_rows(self.durable.len(), env))
    }

    /// Whether a block can be stored in memory with all that would be lost if the process died now.
    pub(super) fn has_room(&self) -> bool {
        let rings = self.rows.memory.rings();
        let each = rings.rings.iter().zip(&self.durable);
        let most = each.map(|(ring, &durable)| ring.pushed.saturating_sub(durable)).max();
        most.unwrap_or(0) + self.chunk < rings.capacity as u64
    }

    /// The largest number of rows of an environment that are in no segment yet.
    pub(super) fn waiting(&self) -> u64 {
        let n = self.durable.len();
        let rings = self.rows.memory.rings().rings.iter().enumerate();
        let each = rings.map(|(env, ring)| {
            ring.pushed.saturating_sub(self.archive.sealed_rows(n, env).min(ring.pushed))
        });
        each.max().unwrap_or(0)
    }

    /// Stores rows `part`, unless so many wait that they have to be sealed first; with `in_need` only
    /// if otherwise some would be lost. Returns whether they are stored.
    pub(super) fn try_push(
        &mut self,
        to: EnvIndex<'_>,
        rows: &Transitions<'_>,
        part: std::ops::Range<usize>,
        in_need: bool,
    ) -> Result<bool> {
        self.writable()?;
        let wanted = !in_need && self.sealing.is_none() && self.waiting() >= self.chunk;
        if wanted || !self.has_room() {
            return Ok(false);
        }
        self.rows.memory.push_part(to, rows, part, &mut |_, _| {});
        self.rows.follow();
        Ok(true)
    }

    /// Draws rows, uniformly and with replacement, batch after batch.
    ///
    /// The draws depend on the rows held and the seed, not on where the rows are.
    ///
    /// # Errors
    /// [`Error::Config`] for an empty or closed buffer or a request out of range.
    pub fn sample(&self, request: Request) -> Result<Drawn> {
        self.open()?;
        request.draw(&Uniform, &self.rows.rings, &self.state, |_, _, _| Ok(()))
    }

    /// The row with an index.
    ///
    /// # Errors
    /// As [`Rings::find`](crate::buffer::Rings::find); [`Error::Config`] after `close`.
    pub fn find(&self, index: u64) -> Result<RowRef> {
        self.open()?;
        self.rows.rings.find(index)
    }

    /// Copies rows out, as n-step windows if asked; those on disk are read and checked.
    ///
    /// # Errors
    /// [`Error::Damaged`] for a row that is not what was written, [`Error::Storage`] if the disk
    /// refuses, [`Error::Config`] after `close`.
    pub fn gather(
        &self,
        rows: &[RowRef],
        n_step: Option<NStep>,
        out: &mut Batch<'_, '_>,
    ) -> Result<()> {
        self.open()?;
        match n_step {
            Some(n_step) => n_step.gather(&self.rows, rows, out),
            None => self.rows.gather(rows, rows, out),
        }
    }

    /// Writes `values`, `[indices, ...]` bytes, into a column of rows that are not sealed yet;
    /// returns how many of `indices` are no longer held and were passed over.
    ///
    /// # Errors
    /// [`Error::Config`] if one is sealed, because segments never change and its old value would
    /// come back when it leaves memory; [`Error::StaleIndex`] if one was never written; [`Error::Shape`] if there is not one value per index.
    /// Nothing is written then.
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        self.writable()?;
        let mut pace = Pace::default();
        for &index in indices {
            pace.spend(1)?;
            let row = self.rows.rings.to_change(index)?;
            if row.is_some_and(|row| row.position < self.sealed(row.env as usize)) {
                let expected = "indices of rows that are not sealed on disk yet: segments never \
                                change, so that what is written there stays (ReplayBuffer holds \
                                rows that can be updated at any time)";
                return Err(Error::config("indices", index, expected));
            }
        }
        let stale = self.rows.memory.update(column, indices, values)?;
        // Only rows that are in memory alone were written to: nothing sealed has become old.
        self.rows.memory.updates = 0;
        Ok(stale)
    }

    /// Reads and checks every sealed row.
    ///
    /// # Errors
    /// As [`MmapReplayBuffer::gather`].
    pub fn verify(&self) -> Result<()> {
        self.open()?.check_present(&self.rows.disk.references())?;
        self.rows.disk.verify()
    }

    /// Ends the running episode of `env` after its newest row; see [`MemoryRows::cut_episode`].
    ///
    /// # Errors
    /// As there; [`Error::Config`] after `close`.
    pub fn cut_episode(&mut self, env: usize) -> Result<()> {
        self.writable()?;
        self.rows.repeat_newest(env)?;
        self.rows.memory.cut_episode(env)?;
        self.rows.follow();
        let ring = self.rows.rings.rings.get_mut(env);
        if let Some(ring) = ring.filter(|r| r.episodes.back().is_none_or(|&cut| cut < r.pushed)) {
            ring.episodes.push_back(ring.pushed);
        }
        Ok(())
    }

    pub(super) fn open(&self) -> Result<&Arc<Folder>> {
        self.folder.as_ref().ok_or_else(closed)
    }

    /// Refuses what would be stored too late.
    fn writable(&self) -> Result<()> {
        if self.closing || self.folder.is_none() { Err(closed()) } else { Ok(()) }
    }
}

fn closed() -> Error {
    Error::config("buffer", "closed", "an open one; make another to go on")
}

/// Bytes of a transition, about.
fn row_bytes(schema: &Schema) -> usize {
    let obs = schema.obs().iter().map(|c| c.field.row_bytes() / c.stack.map_or(1, |s| s.size));
    obs.chain(schema.columns().iter().map(crate::Field::row_bytes)).sum::<usize>().max(1)
}

/// Rows of an environment that a reopening can give back: without its next observation the newest is
/// not whole, and what is pushed after a reopening does not continue its episode.
pub(super) fn whole(ring: &EnvRing) -> u64 {
    ring.pushed - u64::from(ring.open)
}
