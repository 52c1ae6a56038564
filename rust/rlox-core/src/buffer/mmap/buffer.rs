//! A replay buffer larger than memory: recent rows are in memory, older rows are on disk.

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

/// The rows of an environment are sealed in about this many segments.
const SEGMENTS: usize = 256;

/// Minimum size of a segment: a smaller one is not worth a write.
const SEGMENT_BYTES: usize = 1 << 20;

/// Capacities and folder of an [`MmapReplayBuffer`].
#[derive(Debug, Clone)]
pub struct Tiers<'a> {
    /// Minimum number of rows in memory.
    pub hot_capacity: usize,
    /// Maximum number of rows in memory and on disk together.
    pub total_capacity: usize,
    /// Folder of the segments.
    pub path: &'a Path,
    /// Whether to continue with rows that an earlier buffer sealed in the folder. If false, such
    /// rows are an error.
    pub reopen: bool,
}

/// A ring of transitions whose older part is on disk.
///
/// Rows are sealed in segments of 1/256 of the capacity or, if that is larger, of 1 MiB (but at
/// most a third of the hot rows). If the process dies, rows that are not sealed yet are lost;
/// `flush` seals them. The oldest segment is removed when all its rows have left the ring. Every
/// read from disk is checked.
#[derive(Debug)]
pub struct MmapReplayBuffer {
    pub(super) rows: TieredRows,
    pub(super) state: SamplerState,
    pub(super) archive: Archive,
    /// None after `close`.
    pub(super) folder: Option<Arc<Folder>>,
    /// Rows per environment that are sealed at a time.
    pub(super) chunk: u64,
    /// Position of each environment below which a reopened buffer finds its rows, `[envs]`.
    pub(super) durable: Vec<u64>,
    /// Position of each environment below which rows are being sealed. None if no seal is running.
    pub(super) sealing: Option<Vec<u64>>,
    /// Whether the buffer is being closed. No row can be stored then.
    pub(super) closing: bool,
}

impl MmapReplayBuffer {
    /// Opens a buffer in the folder, with the rows that are there.
    ///
    /// # Errors
    /// - The errors of [`MemoryRows::new`].
    /// - [`Error::Config`] if a capacity is out of range.
    /// - [`Error::Storage`] if the disk fails, if another buffer uses the folder, or if it has rows
    ///   and `reopen` is false.
    /// - [`Error::Damaged`] or [`Error::Snapshot`] for rows that do not fit.
    pub fn new(schema: Schema, tiers: &Tiers<'_>, n_envs: usize, seed: u64) -> Result<Self> {
        Self::on(Arc::new(RealFs), schema, tiers, n_envs, seed)
    }

    /// Same as [`MmapReplayBuffer::new`], on another file system.
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::new`].
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
        // 1 MiB a segment saves disk operations. A third of the hot rows is the limit, because they
        // are in memory anyway.
        let few = (SEGMENT_BYTES / row_bytes(&schema)).min(hot / n_envs.max(1) / 3);
        let chunk = each.div_ceil(SEGMENTS).max(few).max(1);
        // Two blocks wait in memory while the disk is slow. The ring has one more row because the
        // newest row is not durable until its next observation is known.
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

    /// Replaces the rows by the reopened ones and returns the saved sampler state.
    pub(super) fn adopt(&mut self, reopened: Reopened) -> SamplerState {
        let Reopened { rows, header } = reopened;
        let ends =
            crate::buffer::rows::sources(&rows.memory).iter().map(|source| source.end).collect();
        self.archive.follow(entries(rows.disk.segments()), ends);
        self.rows = rows;
        header.sampler_state()
    }

    /// Returns all rows, in memory and on disk.
    #[must_use]
    pub const fn rows(&self) -> &impl Rows {
        &self.rows
    }

    /// Returns the rows in memory.
    #[must_use]
    pub const fn memory(&self) -> &MemoryRows {
        &self.rows.memory
    }

    /// Returns the state of the random draws.
    #[must_use]
    pub const fn sampler_state(&self) -> &SamplerState {
        &self.state
    }

    /// Returns the number of rows that are lost if the process dies now.
    #[must_use]
    pub fn unsealed(&self) -> u64 {
        if self.folder.is_none() {
            return 0;
        }
        let rings = self.rows.memory.rings().rings.iter().zip(&self.durable);
        rings.map(|(ring, &durable)| ring.pushed.saturating_sub(durable)).sum()
    }

    /// Returns the size of the sealed segments in bytes.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.rows.disk.bytes()
    }

    /// Returns the position below which the rows of an environment are sealed or being sealed.
    fn sealed(&self, env: usize) -> u64 {
        let sealing = self.sealing.as_ref().and_then(|ends| ends.get(env));
        sealing.copied().unwrap_or_else(|| self.archive.sealed_rows(self.durable.len(), env))
    }

    /// Whether memory has room for one more block beside all rows that are not durable yet.
    pub(super) fn has_room(&self) -> bool {
        let rings = self.rows.memory.rings();
        let each = rings.rings.iter().zip(&self.durable);
        let most = each.map(|(ring, &durable)| ring.pushed.saturating_sub(durable)).max();
        most.unwrap_or(0) + self.chunk < rings.capacity as u64
    }

    /// Returns the largest number of rows of an environment that are in no segment yet.
    pub(super) fn waiting(&self) -> u64 {
        let n = self.durable.len();
        let rings = self.rows.memory.rings().rings.iter().enumerate();
        let each = rings.map(|(env, ring)| {
            ring.pushed.saturating_sub(self.archive.sealed_rows(n, env).min(ring.pushed))
        });
        each.max().unwrap_or(0)
    }

    /// Stores one range of rows, unless so many rows wait that they have to be sealed first.
    ///
    /// If the last argument is true, it refuses only if rows would otherwise be lost. Returns
    /// whether the rows are stored.
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

    /// Draws batches of rows, uniformly and with replacement.
    ///
    /// The draws depend on the live rows and the seed, and not on where the rows are.
    ///
    /// # Errors
    /// [`Error::Config`] if the buffer is empty or closed or the request is out of range.
    pub fn sample(&self, request: Request) -> Result<Drawn> {
        self.open()?;
        request.draw(&Uniform, &self.rows.rings, &self.state, |_, _, _| Ok(()))
    }

    /// Returns the row with an index.
    ///
    /// # Errors
    /// Same as [`Rings::find`](crate::buffer::Rings::find), and [`Error::Config`] after `close`.
    pub fn find(&self, index: u64) -> Result<RowRef> {
        self.open()?;
        self.rows.rings.find(index)
    }

    /// Copies rows into `out`, as n-step windows if `n_step` is set. Rows on disk are read and
    /// checked.
    ///
    /// # Errors
    /// - [`Error::Damaged`] if the bytes of a row are not those that were written.
    /// - [`Error::Storage`] if the disk fails.
    /// - [`Error::Config`] after `close`.
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

    /// Writes `values`, `[indices, ...]` bytes, into a column of rows that are not sealed yet.
    ///
    /// Skips rows that have left the buffer and returns their number.
    ///
    /// # Errors
    /// Nothing is written if there is an error.
    /// - [`Error::Config`] if a row is sealed. Segments never change, so its old value would come
    ///   back when the row leaves memory.
    /// - [`Error::StaleIndex`] if a row was never written.
    /// - [`Error::Shape`] if the number of values differs from the number of indices.
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
        // Only rows that are in no segment were changed, so every sealed row is still up to date.
        self.rows.memory.updates = 0;
        Ok(stale)
    }

    /// Reads and checks every sealed row.
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::gather`].
    pub fn verify(&self) -> Result<()> {
        self.open()?.check_present(&self.rows.disk.references())?;
        self.rows.disk.verify()
    }

    /// Ends the current episode of `env` after its newest row; see [`MemoryRows::cut_episode`].
    ///
    /// # Errors
    /// Same as [`MemoryRows::cut_episode`], and [`Error::Config`] after `close`.
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

    /// Returns an error if the buffer is closed or being closed.
    fn writable(&self) -> Result<()> {
        if self.closing || self.folder.is_none() { Err(closed()) } else { Ok(()) }
    }
}

fn closed() -> Error {
    Error::config("buffer", "closed", "an open one; make another to go on")
}

/// Returns the approximate size of a transition in bytes.
fn row_bytes(schema: &Schema) -> usize {
    let obs = schema.obs().iter().map(|c| c.field.row_bytes() / c.stack.map_or(1, |s| s.size));
    obs.chain(schema.columns().iter().map(crate::Field::row_bytes)).sum::<usize>().max(1)
}

/// Returns the number of rows of an environment that a reopened buffer can have.
///
/// The newest row is incomplete without its next observation, and rows that are pushed after the
/// buffer was reopened do not continue its episode.
pub(super) fn whole(ring: &EnvRing) -> u64 {
    ring.pushed - u64::from(ring.open)
}
