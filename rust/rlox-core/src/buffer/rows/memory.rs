//! Rows in memory: a ring of records per environment, and observations that are stored once.

use std::collections::BTreeMap;

use super::chunks::ChunkQueue;
use super::layout::Layout;
use super::obs::Observations;
use super::rings::{EnvRing, Rings, no_such_env};
use crate::buffer::schema::Schema;
use crate::error::{Error, Result, check_len};
use crate::interrupt::CheckPace;

/// The largest number of transitions of one buffer. Four times this number fits into 32 bits.
pub const MAX_CAPACITY: usize = (1 << 30) - 1;
/// The largest number of environments of one buffer.
pub const MAX_ENVS: usize = 1 << 20;

/// Size in bytes of the blocks of records that are copied on write.
const BLOCK_BYTES: usize = 1 << 16;

/// Copies of blocks of records from before the first write to them, by block number.
pub(super) type BlockCopies = BTreeMap<usize, Vec<u8>>;

/// Typed rows of several environments. New rows overwrite the oldest.
#[derive(Debug, Clone)]
pub struct MemoryRows {
    pub(super) schema: Schema,
    pub(in crate::buffer) layout: Layout,
    pub(in crate::buffer) rings: Rings,
    /// `[envs, capacity, stride]` bytes.
    pub(in crate::buffer) records: Vec<u8>,
    /// `[obs columns][envs]`.
    pub(in crate::buffer) obs: Vec<Vec<Observations>>,
    /// Number of calls that changed rows after they were pushed. Copies on disk from before such a
    /// call are outdated.
    pub(in crate::buffer) updates: u64,
    /// While a save copies rows: copies of the blocks that were written to since it began.
    pub(super) snapshot: Option<BlockCopies>,
    /// While a long push runs that may be rolled back: copies of the blocks that it wrote to.
    pub(super) undo: Option<BlockCopies>,
}

impl MemoryRows {
    /// Makes empty rows of `n_envs` environments. Each has room for `capacity / n_envs` rows.
    ///
    /// The system provides memory when it is first written to.
    ///
    /// # Errors
    /// [`Error::Config`] if a size is out of range or the records cannot be allocated.
    pub fn new(schema: Schema, capacity: usize, n_envs: usize) -> Result<Self> {
        if !(1..=MAX_ENVS).contains(&n_envs) {
            return Err(Error::config("n_envs", n_envs, format!("1 to {MAX_ENVS}")));
        }
        if !(n_envs..=MAX_CAPACITY).contains(&capacity) {
            let expected = format!("at least n_envs ({n_envs}) and at most {MAX_CAPACITY}");
            return Err(Error::config("capacity", capacity, expected));
        }
        let (layout, env_capacity) = (Layout::new(&schema), capacity / n_envs);
        check_frame_numbers("capacity", &schema, capacity, env_capacity)?;
        let bytes = (env_capacity * n_envs).checked_mul(layout.stride);
        let records = bytes.and_then(zeroed).ok_or_else(|| {
            let expected = format!("records of {} bytes that fit into memory", layout.stride);
            Error::config("capacity", capacity, expected)
        })?;
        let column = |field| (0..n_envs).map(|_| Observations::new(field, env_capacity)).collect();
        Ok(Self {
            obs: schema.obs().iter().map(column).collect(),
            schema,
            layout,
            rings: Rings::new(n_envs, env_capacity),
            records,
            updates: 0,
            snapshot: None,
            undo: None,
        })
    }

    /// Makes empty rows of the same columns and size.
    ///
    /// # Errors
    /// Same as [`MemoryRows::new`].
    pub fn empty_copy(&self) -> Result<Self> {
        Self::new(self.schema.clone(), self.rings.capacity(), self.rings.n_envs())
    }

    /// Returns the columns.
    #[must_use]
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the rings of the environments.
    #[must_use]
    pub const fn rings(&self) -> &Rings {
        &self.rings
    }

    /// Returns the memory in bytes, including records that were never written to.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.records.len() + self.obs.iter().flatten().map(Observations::nbytes).sum::<usize>()
    }

    /// Removes every row. The indices of new rows continue from the old ones, so that old indices are
    /// still recognised.
    pub fn clear(&mut self) {
        for ring in &mut self.rings.by_env {
            *ring = EnvRing::empty_at(ring.n_pushed);
        }
        for observations in self.obs.iter_mut().flatten() {
            observations.release_before(u64::MAX);
        }
    }

    /// Ends the current episode of `env` after its newest row, without a flag.
    ///
    /// The rows that follow do not continue it, for example because the environment failed and was
    /// replaced.
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such environment.
    pub fn cut_episode(&mut self, env: usize) -> Result<()> {
        let n = self.rings.n_envs();
        let ring = self.rings.by_env.get_mut(env).ok_or_else(|| no_such_env(env, n))?;
        ring.begins_episode = true;
        if std::mem::take(&mut ring.awaits_next_obs) {
            for observations in &mut self.obs {
                if let Some(observations) = observations.get_mut(env) {
                    observations.repeat_newest();
                }
            }
        }
        Ok(())
    }

    /// Writes `values`, `[indices, ...]` bytes, into a column.
    ///
    /// Skips indices that are padding or whose rows have left the buffer, and returns their number.
    ///
    /// # Errors
    /// Nothing is written if there is an error.
    /// - [`Error::Config`] if there is no such column.
    /// - [`Error::StaleIndex`] if a row was never written.
    /// - [`Error::Shape`] if the number of values differs from the number of indices.
    /// - [`Error::Interrupted`].
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        let Some(&(offset, width)) = self.layout.columns.get(column) else {
            let expected = format!("less than {}", self.layout.columns.len());
            return Err(Error::config("column", column, expected));
        };
        let expected = indices.len() * width;
        check_len("values", values.len(), expected, "bytes, one row per index")?;
        let (mut slots, mut pace) = (Vec::with_capacity(indices.len()), CheckPace::default());
        for &index in indices {
            pace.spend(1)?;
            slots.push(self.rings.find_for_update(index)?.map(|row| row.slot as usize));
        }
        let mut n_stale = 0;
        for (slot, value) in slots.into_iter().zip(values.chunks_exact(width)) {
            let Some(slot) = slot else {
                n_stale += 1;
                continue;
            };
            self.copy_on_write(slot, 1);
            let start = slot * self.layout.stride + offset;
            self.records.get_mut(start..start + width).unwrap_or_default().copy_from_slice(value);
        }
        self.updates += 1;
        Ok(n_stale)
    }

    /// Begins a snapshot of the present rows. Until [`MemoryRows::end_snapshot`],
    /// [`MemoryRows::snapshot_records`] and [`ChunkQueue::contiguous_rows`] read these rows, even if
    /// they were updated or overwritten in the meantime.
    pub(in crate::buffer) fn begin_snapshot(&mut self) {
        self.snapshot = Some(BlockCopies::new());
        let observations = self.obs.iter_mut().flatten();
        observations.flat_map(Observations::queues_mut).for_each(ChunkQueue::begin_snapshot);
    }

    /// Ends the snapshot that [`MemoryRows::begin_snapshot`] began.
    pub(in crate::buffer) fn end_snapshot(&mut self) {
        self.snapshot = None;
        let observations = self.obs.iter_mut().flatten();
        observations.flat_map(Observations::queues_mut).for_each(ChunkQueue::end_snapshot);
    }

    /// Returns records from `slot` on, as they were at the start of the snapshot: at least one and at
    /// most `count`.
    pub(in crate::buffer) fn snapshot_records(&self, slot: usize, count: usize) -> &[u8] {
        let (stride, rows_per_block) = (self.layout.stride, block_rows(self.layout.stride));
        let (block, first) = (slot / rows_per_block, slot % rows_per_block);
        let count = count.min(rows_per_block - first);
        let copy = self.snapshot.as_ref().and_then(|held| held.get(&block));
        let part = |bytes: &'_ [u8], at: usize| at * stride..((at + count) * stride).min(bytes.len());
        match copy {
            Some(copy) => copy.get(part(copy, first)),
            None => self.records.get(part(&self.records, slot)),
        }
        .unwrap_or_default()
    }
}

/// Returns the number of records in a block that is copied at once.
pub(super) fn block_rows(stride: usize) -> usize {
    (BLOCK_BYTES / stride.max(1)).max(1)
}

/// Refuses a capacity with which the numbers of frames would not be unique.
pub(in crate::buffer) fn check_frame_numbers(
    name: &'static str,
    schema: &Schema,
    capacity: usize,
    env_capacity: usize,
) -> Result<()> {
    let frames = schema.obs().iter().filter_map(|column| column.stack).map(|s| s.size).max();
    if env_capacity.saturating_mul(2 * frames.unwrap_or(1) + 2) > u32::MAX as usize {
        return Err(Error::config(name, capacity, "fewer than 2**32 frames per env"));
    }
    Ok(())
}

/// Returns zeroed bytes, which the system provides at the first write. None if it cannot.
fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    // Asked first, because a failed allocation aborts the process.
    Vec::<u8>::new().try_reserve_exact(bytes).ok()?;
    Some(vec![0; bytes])
}
