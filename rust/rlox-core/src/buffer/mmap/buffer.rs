//! A replay buffer larger than memory: recent rows are in memory, older rows are on disk.

use std::path::Path;
use std::sync::Arc;

use super::reopen::{ReopenedRows, reopen};
use crate::buffer::batch::Batch;
use crate::buffer::persist::{Archive, NEWEST, archive_entries};
use crate::buffer::rows::{
    DiskRows, EnvIndex, EnvRing, MAX_CAPACITY, MemoryRows, NStep, RowRef, Rows, TieredRows, Transitions,
    check_frame_numbers,
};
use crate::buffer::sampling::{Draws, SampleRequest, SamplerState, Uniform};
use crate::buffer::schema::Schema;
use crate::error::{Error, Result};
use crate::interrupt::CheckPace;
use crate::store::{Folder, Fs, Manifest, RealFs};

/// The rows of an environment are sealed in about this many segments.
const SEGMENTS_PER_ENV: usize = 256;

/// Minimum size of a segment: a smaller one is not worth a write.
const MIN_SEGMENT_BYTES: usize = 1 << 20;

/// Capacities and folder of an [`MmapReplayBuffer`].
#[derive(Debug, Clone)]
pub struct MmapConfig<'a> {
    /// Minimum capacity of memory, in rows.
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
/// A segment has 1/256 of the total capacity. If that is less than 1 MiB, it has 1 MiB of rows, but
/// at most a third of `hot_capacity`. If the process dies, rows that are not sealed yet are lost;
/// `flush` seals them. The oldest segment is removed when all its rows have left the ring. Every
/// read from disk is checked.
#[derive(Debug)]
pub struct MmapReplayBuffer {
    pub(super) rows: TieredRows,
    pub(super) sampler_state: SamplerState,
    pub(super) archive: Archive,
    /// None after `close`.
    pub(super) folder: Option<Arc<Folder>>,
    /// Rows per environment that are sealed at a time.
    pub(super) segment_rows: u64,
    /// For each environment, the position below which all rows are durable, so that a reopened
    /// buffer finds them, `[envs]`.
    pub(super) durable_ends: Vec<u64>,
    /// For each environment, the position below which rows are being sealed. None if no seal runs.
    pub(super) sealing_ends: Option<Vec<u64>>,
    /// Whether the buffer is being closed. No row can be stored then.
    pub(super) is_closing: bool,
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
    pub fn new(schema: Schema, tier_config: &MmapConfig<'_>, n_envs: usize, seed: u64) -> Result<Self> {
        Self::with_fs(Arc::new(RealFs), schema, tier_config, n_envs, seed)
    }

    /// Same as [`MmapReplayBuffer::new`], on another file system.
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::new`].
    pub fn with_fs(
        fs: Arc<dyn Fs>,
        schema: Schema,
        tier_config: &MmapConfig<'_>,
        n_envs: usize,
        seed: u64,
    ) -> Result<Self> {
        let MmapConfig { hot_capacity: hot, total_capacity: total, path, reopen: may_reopen } = *tier_config;
        if !(n_envs..=MAX_CAPACITY).contains(&total) {
            let expected = format!("at least n_envs ({n_envs}) and at most {MAX_CAPACITY}");
            return Err(Error::config("total_capacity", total, expected));
        }
        if hot == 0 || hot > total {
            let expected = format!("1 to total_capacity ({total})");
            return Err(Error::config("hot_capacity", hot, expected));
        }
        let env_capacity = total / n_envs.max(1);
        // Segments of at least 1 MiB save disk operations. The limit is a third of the hot rows, which
        // are in memory anyway.
        let min_rows = (MIN_SEGMENT_BYTES / row_bytes(&schema)).min(hot / n_envs.max(1) / 3);
        let segment_rows = env_capacity.div_ceil(SEGMENTS_PER_ENV).max(min_rows).max(1);
        // Memory has room for two blocks that wait for a slow disk. The ring has one more row because the
        // newest row is not durable until its next observation is known.
        let memory_capacity = (hot / n_envs.max(1)).max(2 * segment_rows + 2).saturating_mul(n_envs.max(1));
        check_frame_numbers("total_capacity", &schema, total, env_capacity)?;
        let memory = MemoryRows::new(schema, memory_capacity, n_envs)?;
        let folder = Arc::new(Folder::open(path, Arc::clone(&fs))?);
        let mut buffer = Self {
            rows: TieredRows::new(memory, DiskRows::new(path, Vec::new()), env_capacity),
            sampler_state: SamplerState::new(seed),
            archive: Archive::with_fs(fs),
            folder: Some(Arc::clone(&folder)),
            segment_rows: segment_rows as u64,
            durable_ends: vec![0; n_envs],
            sealing_ends: None,
            is_closing: false,
        };
        folder.check_required_manifest()?;
        if folder.has_manifest(NEWEST)? && !folder.manifest(NEWEST)?.segments.is_empty() {
            if !may_reopen {
                let cause = "an earlier buffer left rows there; pass reopen=True to go on with them";
                return Err(Error::storage("start anew in", path, cause));
            }
            let reopened = reopen(buffer.rows.empty_copy()?, &folder, &*buffer.archive.fs, NEWEST)?;
            buffer.adopt(reopened);
            buffer.durable_ends = buffer.rows.memory.rings().by_env.iter().map(complete_end).collect();
        } else {
            folder.publish(NEWEST, &Manifest::default())?;
        }
        folder.set_required_manifest(NEWEST)?;
        Ok(buffer)
    }

    /// Replaces the rows by the reopened ones and returns the saved sampler state.
    pub(super) fn adopt(&mut self, reopened: ReopenedRows) -> SamplerState {
        let ReopenedRows { rows, header } = reopened;
        let ends = crate::buffer::rows::sources(&rows.memory).iter().map(|source| source.end).collect();
        self.archive.continue_from(archive_entries(rows.disk.segments()), ends);
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
        &self.sampler_state
    }

    /// Returns the number of rows that are lost if the process dies now.
    #[must_use]
    pub fn n_unsealed(&self) -> u64 {
        if self.folder.is_none() {
            return 0;
        }
        let rings = self.rows.memory.rings().by_env.iter().zip(&self.durable_ends);
        rings.map(|(ring, &durable_end)| ring.n_pushed.saturating_sub(durable_end)).sum()
    }

    /// Returns the size of the sealed segments in bytes.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.rows.disk.bytes()
    }

    /// Returns the position below which the rows of an environment are sealed or being sealed.
    fn sealed_end(&self, env: usize) -> u64 {
        let sealing_end = self.sealing_ends.as_ref().and_then(|ends| ends.get(env));
        sealing_end.copied().unwrap_or_else(|| self.archive.sealed_rows(self.durable_ends.len(), env))
    }

    /// Returns whether memory has room for one more block beside all rows that are not durable yet.
    pub(super) fn has_room(&self) -> bool {
        let rings = self.rows.memory.rings();
        let waiting_rows = rings.by_env.iter().zip(&self.durable_ends);
        let max_waiting =
            waiting_rows.map(|(ring, &durable_end)| ring.n_pushed.saturating_sub(durable_end)).max();
        max_waiting.unwrap_or(0) + self.segment_rows < rings.capacity as u64
    }

    /// Returns the largest number of rows of an environment that are in no segment yet.
    pub(super) fn max_unsealed_rows(&self) -> u64 {
        let n = self.durable_ends.len();
        let rings = self.rows.memory.rings().by_env.iter().enumerate();
        let unsealed_rows = rings.map(|(env, ring)| {
            ring.n_pushed.saturating_sub(self.archive.sealed_rows(n, env).min(ring.n_pushed))
        });
        unsealed_rows.max().unwrap_or(0)
    }

    /// Stores one range of rows and returns true. If rows have to be sealed first, stores nothing and
    /// returns false.
    ///
    /// With `without_seal`, rows have to be sealed first only if memory has no room. Without it, they
    /// also have to be sealed first if a segment is due and no seal is running.
    pub(super) fn try_push(
        &mut self,
        env_index: EnvIndex<'_>,
        rows: &Transitions<'_>,
        part: std::ops::Range<usize>,
        without_seal: bool,
    ) -> Result<bool> {
        self.check_writable()?;
        let should_seal =
            !without_seal && self.sealing_ends.is_none() && self.max_unsealed_rows() >= self.segment_rows;
        if should_seal || !self.has_room() {
            return Ok(false);
        }
        self.rows.memory.push_part(env_index, rows, part, &mut |_, _| {});
        self.rows.sync_with_memory();
        Ok(true)
    }

    /// Draws batches of rows, uniformly and with replacement.
    ///
    /// The draws depend on the live rows and the seed, and not on where the rows are.
    ///
    /// # Errors
    /// [`Error::Config`] if the buffer is empty or closed or the request is out of range.
    pub fn sample(&self, request: SampleRequest) -> Result<Draws> {
        self.open_folder()?;
        request.draw(&Uniform, &self.rows.rings, &self.sampler_state, |_, _, _| Ok(()))
    }

    /// Returns the row with an index.
    ///
    /// # Errors
    /// Same as [`Rings::find`](crate::buffer::Rings::find), and [`Error::Config`] after `close`.
    pub fn find(&self, index: u64) -> Result<RowRef> {
        self.open_folder()?;
        self.rows.rings.find(index)
    }

    /// Copies rows into `out`, as n-step windows if `n_step` is set. Rows on disk are read and
    /// checked.
    ///
    /// # Errors
    /// - [`Error::Damaged`] if the bytes of a row are not those that were written.
    /// - [`Error::Storage`] if the disk fails.
    /// - [`Error::Config`] after `close`.
    pub fn gather(&self, rows: &[RowRef], n_step: Option<NStep>, out: &mut Batch<'_, '_>) -> Result<()> {
        self.open_folder()?;
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
        self.check_writable()?;
        let mut pace = CheckPace::default();
        for &index in indices {
            pace.spend(1)?;
            let row = self.rows.rings.find_for_update(index)?;
            if row.is_some_and(|row| row.position < self.sealed_end(row.env as usize)) {
                let expected = "indices of rows that are not sealed on disk yet: segments never \
                                change, so that what is written there stays (ReplayBuffer holds \
                                rows that can be updated at any time)";
                return Err(Error::config("indices", index, expected));
            }
        }
        let n_stale = self.rows.memory.update(column, indices, values)?;
        // Only rows that are in no segment were changed, so every sealed row is still up to date.
        self.rows.memory.updates = 0;
        Ok(n_stale)
    }

    /// Reads and checks every sealed row.
    ///
    /// # Errors
    /// Same as [`MmapReplayBuffer::gather`].
    pub fn verify(&self) -> Result<()> {
        self.open_folder()?.check_present(&self.rows.disk.references())?;
        self.rows.disk.verify()
    }

    /// Ends the current episode of `env` after its newest row; see [`MemoryRows::cut_episode`].
    ///
    /// # Errors
    /// Same as [`MemoryRows::cut_episode`], and [`Error::Config`] after `close`.
    pub fn cut_episode(&mut self, env: usize) -> Result<()> {
        self.check_writable()?;
        self.rows.repeat_newest(env)?;
        self.rows.memory.cut_episode(env)?;
        self.rows.sync_with_memory();
        let ring = self.rows.rings.by_env.get_mut(env);
        if let Some(ring) = ring.filter(|r| r.episode_starts.back().is_none_or(|&cut| cut < r.n_pushed)) {
            ring.episode_starts.push_back(ring.n_pushed);
        }
        Ok(())
    }

    pub(super) fn open_folder(&self) -> Result<&Arc<Folder>> {
        self.folder.as_ref().ok_or_else(closed_error)
    }

    /// Returns an error if the buffer is closed or being closed.
    fn check_writable(&self) -> Result<()> {
        if self.is_closing || self.folder.is_none() { Err(closed_error()) } else { Ok(()) }
    }
}

fn closed_error() -> Error {
    Error::config("buffer", "closed", "an open one; make another to go on")
}

/// Returns the approximate size of a transition in bytes.
fn row_bytes(schema: &Schema) -> usize {
    let obs = schema.obs().iter().map(|c| c.field.row_bytes() / c.stack.map_or(1, |s| s.size));
    obs.chain(schema.columns().iter().map(crate::Field::row_bytes)).sum::<usize>().max(1)
}

/// Returns the position below which a reopened buffer can have the rows of `ring`.
///
/// This excludes a newest row without a next observation. It would stay incomplete, because rows that
/// are pushed after the buffer was reopened do not continue its episode.
pub(super) fn complete_end(ring: &EnvRing) -> u64 {
    ring.n_pushed - u64::from(ring.awaits_next_obs)
}
