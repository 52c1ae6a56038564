//! Rows in memory: a ring of records per environment, and observations stored once.

use std::collections::BTreeMap;

use super::chunks::ChunkQueue;
use super::layout::Layout;
use super::obs::Observations;
use super::rings::{EnvRing, Rings, no_such_env};
use crate::buffer::schema::Schema;
use crate::error::{Error, Result, check_len};
use crate::interrupt::Pace;

/// The largest number of transitions of one buffer: four times as many are numbers of 32 bits.
pub const MAX_CAPACITY: usize = (1 << 30) - 1;
/// The largest number of environments of one buffer.
pub const MAX_ENVS: usize = 1 << 20;

/// Records that share a copy.
const BLOCK_BYTES: usize = 1 << 16;

/// Blocks of records as they were before they were first written to.
pub(super) type Blocks = BTreeMap<usize, Vec<u8>>;

/// Typed rows of several environments, the oldest overwritten first.
#[derive(Debug, Clone)]
pub struct MemoryRows {
    pub(super) schema: Schema,
    pub(in crate::buffer) layout: Layout,
    pub(in crate::buffer) rings: Rings,
    /// `[envs, capacity, stride]` bytes.
    pub(in crate::buffer) records: Vec<u8>,
    /// `[obs columns][envs]`.
    pub(in crate::buffer) obs: Vec<Vec<Observations>>,
    /// Calls that wrote to rows after they were pushed: older copies on disk differ from them.
    pub(in crate::buffer) updates: u64,
    /// While a save copies rows: blocks of records as they were when it began, made before they are
    /// first written to.
    pub(super) held: Option<Blocks>,
    /// The same while a change is made that may be taken back.
    pub(super) undo: Option<Blocks>,
}

impl MemoryRows {
    /// No rows yet, `capacity` of them over all of `n_envs` at most, `capacity / n_envs` each.
    ///
    /// Memory is taken from the system as it is first written.
    ///
    /// # Errors
    /// [`Error::Config`] for a size out of range, or if the records cannot be allocated.
    pub fn new(schema: Schema, capacity: usize, n_envs: usize) -> Result<Self> {
        if !(1..=MAX_ENVS).contains(&n_envs) {
            return Err(Error::config("n_envs", n_envs, format!("1 to {MAX_ENVS}")));
        }
        if !(n_envs..=MAX_CAPACITY).contains(&capacity) {
            let expected = format!("at least n_envs ({n_envs}) and at most {MAX_CAPACITY}");
            return Err(Error::config("capacity", capacity, expected));
        }
        let (layout, each) = (Layout::new(&schema), capacity / n_envs);
        check_frames("capacity", &schema, capacity, each)?;
        let bytes = (each * n_envs).checked_mul(layout.stride);
        let records = bytes.and_then(zeroed).ok_or_else(|| {
            let expected = format!("records of {} bytes that fit into memory", layout.stride);
            Error::config("capacity", capacity, expected)
        })?;
        let column = |field| (0..n_envs).map(|_| Observations::new(field, each)).collect();
        Ok(Self {
            obs: schema.obs().iter().map(column).collect(),
            schema,
            layout,
            rings: Rings::new(n_envs, each),
            records,
            updates: 0,
            held: None,
            undo: None,
        })
    }

    /// Empty rows of the same columns and size.
    ///
    /// # Errors
    /// As [`MemoryRows::new`].
    pub fn empty_copy(&self) -> Result<Self> {
        Self::new(self.schema.clone(), self.rings.capacity(), self.rings.n_envs())
    }

    /// The columns.
    #[must_use]
    pub const fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Where the rows of each environment stand.
    #[must_use]
    pub const fn rings(&self) -> &Rings {
        &self.rings
    }

    /// Bytes of memory held, records not yet written included.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.records.len() + self.obs.iter().flatten().map(Observations::nbytes).sum::<usize>()
    }

    /// Forgets every row. Indices go on counting, so that old ones stay recognisable.
    pub fn clear(&mut self) {
        for ring in &mut self.rings.rings {
            *ring = EnvRing::empty_at(ring.pushed);
        }
        for observations in self.obs.iter_mut().flatten() {
            observations.release_before(u64::MAX);
        }
    }

    /// Ends the running episode of `env` after its newest row, though no flag says so: the rows
    /// that follow are not its continuation (an environment that died and was replaced).
    ///
    /// # Errors
    /// [`Error::Config`] if there is no such environment.
    pub fn cut_episode(&mut self, env: usize) -> Result<()> {
        let n = self.rings.n_envs();
        let ring = self.rings.rings.get_mut(env).ok_or_else(|| no_such_env(env, n))?;
        ring.begins = true;
        if std::mem::take(&mut ring.open) {
            for observations in &mut self.obs {
                if let Some(observations) = observations.get_mut(env) {
                    observations.repeat_newest();
                }
            }
        }
        Ok(())
    }

    /// Writes `values`, `[indices, ...]` bytes, into a column; returns how many of `indices` are
    /// no longer held or padding and were passed over.
    ///
    /// # Errors
    /// [`Error::StaleIndex`] for a row that was never written, [`Error::Shape`] if there is not one value per index, [`Error::Interrupted`]. Nothing is
    /// written then.
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        let Some(&(offset, width)) = self.layout.columns.get(column) else {
            let expected = format!("less than {}", self.layout.columns.len());
            return Err(Error::config("column", column, expected));
        };
        let expected = indices.len() * width;
        check_len("values", values.len(), expected, "bytes, one row per index")?;
        let (mut slots, mut pace) = (Vec::with_capacity(indices.len()), Pace::default());
        for &index in indices {
            pace.spend(1)?;
            slots.push(self.rings.to_change(index)?.map(|row| row.slot as usize));
        }
        let mut stale = 0;
        for (slot, value) in slots.into_iter().zip(values.chunks_exact(width)) {
            let Some(slot) = slot else {
                stale += 1;
                continue;
            };
            self.keep(slot, 1);
            let at = slot * self.layout.stride + offset;
            self.records.get_mut(at..at + width).unwrap_or_default().copy_from_slice(value);
        }
        self.updates += 1;
        Ok(stale)
    }

    /// Until [`MemoryRows::let_go`], what is held now stays readable as it is by
    /// [`MemoryRows::held_records`] and the queues' parts, whatever is pushed or updated meanwhile.
    pub(in crate::buffer) fn hold(&mut self) {
        self.held = Some(Blocks::new());
        let observations = self.obs.iter_mut().flatten();
        observations.flat_map(Observations::queues_mut).for_each(ChunkQueue::hold);
    }

    /// Ends [`MemoryRows::hold`].
    pub(in crate::buffer) fn let_go(&mut self) {
        self.held = None;
        let observations = self.obs.iter_mut().flatten();
        observations.flat_map(Observations::queues_mut).for_each(ChunkQueue::let_go);
    }

    /// Records from `slot` on, at most `count`, as they were when the hold began: at least one.
    pub(in crate::buffer) fn held_records(&self, slot: usize, count: usize) -> &[u8] {
        let (stride, each) = (self.layout.stride, block_rows(self.layout.stride));
        let (block, first) = (slot / each, slot % each);
        let count = count.min(each - first);
        let copy = self.held.as_ref().and_then(|held| held.get(&block));
        let part =
            |bytes: &'_ [u8], at: usize| at * stride..((at + count) * stride).min(bytes.len());
        match copy {
            Some(copy) => copy.get(part(copy, first)),
            None => self.records.get(part(&self.records, slot)),
        }
        .unwrap_or_default()
    }
}

/// Rows of a block of records that is copied at once.
pub(super) fn block_rows(stride: usize) -> usize {
    (BLOCK_BYTES / stride.max(1)).max(1)
}

/// Refuses so many rows that the numbers of frames would no longer be unique.
pub(in crate::buffer) fn check_frames(
    name: &'static str,
    schema: &Schema,
    capacity: usize,
    each: usize,
) -> Result<()> {
    let frames = schema.obs().iter().filter_map(|column| column.stack).map(|s| s.size).max();
    if each.saturating_mul(2 * frames.unwrap_or(1) + 2) > u32::MAX as usize {
        return Err(Error::config(name, capacity, "fewer than 2**32 frames per env"));
    }
    Ok(())
}

/// Zeroed bytes that the system provides when they are first written; None if it cannot.
fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    // Asked first because an allocation that fails aborts the process.
    Vec::<u8>::new().try_reserve_exact(bytes).ok()?;
    Some(vec![0; bytes])
}
