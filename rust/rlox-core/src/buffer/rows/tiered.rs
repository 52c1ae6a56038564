//! Rows of which the newer are in memory and all others are on disk.

use std::collections::VecDeque;

use super::disk::DiskRows;
use super::layout::{TERMINATED, TRUNCATED, lower_half_at};
use super::memory::MemoryRows;
use super::rings::{EnvRing, Rings};
use super::{RowRef, Rows};
use crate::buffer::batch::Batch;
use crate::buffer::schema::{Schema, StackAxis};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::row_copy::RowCopy;

/// Rows in memory, and sealed rows on disk.
#[derive(Debug)]
pub(in crate::buffer) struct TieredRows {
    pub memory: MemoryRows,
    pub disk: DiskRows,
    /// The rings of all rows. Their `episode_starts` are only the cuts: the starts after a row that
    /// has no flag of an episode end.
    pub rings: Rings,
    /// Position of the oldest row that each environment ever had, `[envs]`.
    first_positions: Vec<u64>,
    /// Number of sources of one environment.
    n_sources: usize,
    /// Index of the source of each observation column's items among an environment's sources.
    item_sources: Vec<usize>,
}

/// Reusable memory for reads.
#[derive(Debug, Default)]
struct Scratch {
    record: Vec<u8>,
    lower_halves: Vec<u8>,
    frame: Vec<u8>,
}

impl TieredRows {
    /// Makes rows of which each environment has at most `capacity`.
    pub(in crate::buffer) fn new(memory: MemoryRows, disk: DiskRows, capacity: usize) -> Self {
        let mut n_sources = 1;
        let items = memory.obs.iter().map(|envs| {
            let first_source = n_sources;
            n_sources += envs.first().map_or(1, |observations| observations.queues().count());
            first_source
        });
        let items = items.collect();
        let rings = Rings::new(memory.rings.n_envs(), capacity);
        let first_positions = vec![0; memory.rings.n_envs()];
        Self { memory, disk, rings, first_positions, n_sources, item_sources: items }
    }

    /// Makes empty rows of the same columns, environments and sizes.
    ///
    /// # Errors
    /// Same as [`MemoryRows::new`].
    pub(in crate::buffer) fn empty_copy(&self) -> Result<Self> {
        let disk = DiskRows::new(self.disk.folder(), Vec::new());
        Ok(Self::new(self.memory.empty_copy()?, disk, self.rings.capacity))
    }

    /// Starts with rows on disk whose state is `rings`, and no rows in memory.
    pub(in crate::buffer) fn start_from_disk(&mut self, rings: &[EnvRing]) {
        self.first_positions = rings.iter().map(|ring| ring.start).collect();
        self.rings.by_env = rings.iter().map(|ring| EnvRing { head: 0, ..ring.clone() }).collect();
        for ring in &mut self.rings.by_env {
            if ring.begins_episode && ring.n_pushed > ring.start {
                ring.episode_starts.push_back(ring.n_pushed);
            }
        }
        self.sync_with_memory();
    }

    /// Removes every row and closes the segments.
    pub(in crate::buffer) fn close(&mut self) {
        self.memory.clear();
        self.disk.retain(|_| false);
        self.rings.by_env.iter_mut().for_each(|ring| ring.evict_before(ring.n_pushed));
    }

    /// Returns the position of an environment's oldest row at the time when `pushed` rows were
    /// pushed.
    pub(in crate::buffer) fn start_of(&self, env: usize, pushed: u64) -> u64 {
        let first_position = self.first_positions.get(env).copied().unwrap_or(0);
        first_position.max(pushed.saturating_sub(self.rings.capacity as u64))
    }

    /// Returns where episodes of an environment begin without a flag, from `start` on, before
    /// `end`.
    pub(in crate::buffer) fn cuts(&self, env: usize, start: u64, end: u64) -> VecDeque<u64> {
        let ring = self.rings.by_env.get(env).into_iter();
        let cuts = ring.flat_map(|ring| ring.episode_starts.iter().copied());
        cuts.filter(|cut| (start..end).contains(cut)).collect()
    }

    /// Appends a copy of an environment's newest observation, if its row still needs a next
    /// observation and is only on disk.
    pub(in crate::buffer) fn repeat_newest(&mut self, env: usize) -> Result<()> {
        let ring = self.memory.rings.by_env.get(env);
        let Some(ring) = ring.filter(|ring| ring.awaits_next_obs && ring.len() == 0) else {
            return Ok(());
        };
        let newest = self.rings.row(env, ring.n_pushed.saturating_sub(1));
        let mut scratch = Scratch::default();
        let record = self.read_record(newest, &mut scratch.record)?.to_vec();
        let mut rows = Vec::with_capacity(self.memory.obs.len());
        for (column, &width) in self.memory.layout.obs_bytes.iter().enumerate() {
            let mut row = vec![0; width];
            let lower = lower_half_at(&record, 4 * column);
            self.read_obs(
                (env, column, lower, 0),
                &mut row,
                (&mut scratch.lower_halves, &mut scratch.frame),
            )?;
            rows.push(row);
        }
        for (envs, row) in self.memory.obs.iter_mut().zip(rows) {
            if let Some(observations) = envs.get_mut(env) {
                observations.push_next(&row);
            }
        }
        if let Some(ring) = self.memory.rings.by_env.get_mut(env) {
            ring.awaits_next_obs = false;
        }
        Ok(())
    }

    /// Counts the rows that were pushed to memory since the last call.
    pub(in crate::buffer) fn sync_with_memory(&mut self) {
        for (tiered_ring, ring) in self.rings.by_env.iter_mut().zip(&self.memory.rings.by_env) {
            tiered_ring.n_pushed = ring.n_pushed;
            tiered_ring.awaits_next_obs = ring.awaits_next_obs;
            tiered_ring.evict_before(ring.n_pushed.saturating_sub(self.rings.capacity as u64));
        }
    }

    /// Returns the row in memory. None if it is only on disk.
    fn find_in_memory(&self, row: RowRef) -> Option<RowRef> {
        let ring = self.memory.rings.by_env.get(row.env as usize)?;
        let is_in_memory = (ring.start..ring.n_pushed).contains(&row.position);
        is_in_memory.then(|| self.memory.rings.row(row.env as usize, row.position))
    }

    /// Returns the record of a row. A record on disk is read into `scratch`.
    fn read_record<'s>(&'s self, row: RowRef, scratch: &'s mut Vec<u8>) -> Result<&'s [u8]> {
        if let Some(row) = self.find_in_memory(row) {
            return Ok(self.memory.record(row));
        }
        scratch.resize(self.memory.layout.stride, 0);
        let source = row.env as usize * self.n_sources;
        self.disk.read(source, row.position..row.position + 1, scratch)?;
        Ok(scratch)
    }

    /// Reads the observation `offset` numbers after the one whose number has the lower half `lower`.
    fn read_obs(
        &self,
        (env, column, lower, offset): (usize, usize, u32, u64),
        out: &mut [u8],
        (lower_halves, frame): (&mut Vec<u8>, &mut Vec<u8>),
    ) -> Result<()> {
        let observations = self.memory.obs.get(column).and_then(|envs| envs.get(env));
        let observations = observations.ok_or_else(|| Error::internal("no such column"))?;
        let items = observations.items();
        // The newest row may not have its next observation yet. Its own observation replaces it.
        let number = (items.full_number(lower) + offset).min(items.end().wrapping_sub(1));
        if number >= items.start() {
            observations.copy(number, out, RowCopy::Cached);
            return Ok(());
        }
        let source = env * self.n_sources + self.item_sources.get(column).copied().unwrap_or_default();
        let Some(stacks) = observations.stacks() else {
            return self.disk.read(source, number..number + 1, out);
        };
        lower_halves.resize(items.width(), 0);
        self.disk.read(source, number..number + 1, lower_halves)?;
        let places = lower_halves.as_chunks::<4>().0.len().max(1);
        for (place, &id) in lower_halves.as_chunks().0.iter().enumerate() {
            let number = stacks.frame_number(u32::from_ne_bytes(id));
            if let Some(frame) = stacks.frames().get(number) {
                stacks.write_frame(frame, place, out, RowCopy::Cached);
            } else if stacks.axis() == StackAxis::First {
                let bytes = out.len() / places;
                let slot = out.get_mut(place * bytes..(place + 1) * bytes).unwrap_or_default();
                self.disk.read(source + 1, number..number + 1, slot)?;
            } else {
                frame.resize(stacks.frames().width(), 0);
                self.disk.read(source + 1, number..number + 1, frame)?;
                stacks.write_frame(frame, place, out, RowCopy::Cached);
            }
        }
        Ok(())
    }

    /// Copies one row of a batch.
    fn gather_row(
        &self,
        index: usize,
        (row, end): (RowRef, RowRef),
        out: &mut Batch<'_, '_>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let Scratch { record, lower_halves, frame } = scratch;
        let n = out.n;
        let (layout, env) = (&self.memory.layout, row.env as usize);
        let bytes = self.read_record(row, record)?;
        let lower: Vec<u32> = (0..out.obs.len()).map(|c| lower_half_at(bytes, 4 * c)).collect();
        for (&(offset, width), out) in layout.columns.iter().zip(out.columns.iter_mut()) {
            let column = bytes.get(offset..offset + width).unwrap_or_default();
            batch_row(out, index, n).copy_from_slice(column);
        }
        batch_row(out.indices, index, n).copy_from_slice(&self.rings.index(row).to_ne_bytes());
        for ((column, out), &lower) in out.obs.iter_mut().enumerate().zip(&lower) {
            self.read_obs((env, column, lower, 0), batch_row(out, index, n), (lower_halves, frame))?;
        }
        let bytes = self.read_record(end, record)?;
        let flags = layout.flags(bytes);
        let lower: Vec<u32> = (0..out.obs.len()).map(|c| lower_half_at(bytes, 4 * c)).collect();
        batch_row(out.terminated, index, n).fill(u8::from(flags & TERMINATED != 0));
        batch_row(out.truncated, index, n).fill(u8::from(flags & TRUNCATED != 0));
        for ((column, out), lower) in out.next_obs.iter_mut().enumerate().zip(lower) {
            self.read_obs((env, column, lower, 1), batch_row(out, index, n), (lower_halves, frame))?;
        }
        Ok(())
    }

    /// Returns the number of the oldest row needed of each source, if `starts` are the positions of
    /// the environments' oldest rows.
    pub(in crate::buffer) fn oldest_needed(&self, starts: &[u64]) -> Result<Vec<u64>> {
        let mut needed = Vec::new();
        let (mut record, mut lower_halves) = (Vec::new(), Vec::new());
        for (env, (&start, ring)) in starts.iter().zip(&self.memory.rings.by_env).enumerate() {
            let row = RowRef { position: start, slot: 0, env: u32::try_from(env).unwrap_or(u32::MAX) };
            needed.push(start);
            let record = (start < ring.start).then(|| self.read_record(row, &mut record)).transpose()?;
            for (column, envs) in self.memory.obs.iter().enumerate() {
                let Some(observations) = envs.get(env) else { continue };
                let Some(record) = record else {
                    needed.extend(observations.queues().map(super::ChunkQueue::start));
                    continue;
                };
                let number = observations.items().full_number(lower_half_at(record, 4 * column));
                needed.push(number);
                if let Some(stacks) = observations.stacks() {
                    let source =
                        env * self.n_sources + self.item_sources.get(column).copied().unwrap_or_default();
                    lower_halves.resize(stacks.items().width(), 0);
                    self.disk.read(source, number..number + 1, &mut lower_halves)?;
                    let frames = lower_halves.as_chunks().0.iter();
                    let frames = frames.map(|&id| stacks.frame_number(u32::from_ne_bytes(id)));
                    needed.push(frames.min().unwrap_or(0));
                }
            }
        }
        Ok(needed)
    }
}

impl Rows for TieredRows {
    fn schema(&self) -> &Schema {
        self.memory.schema()
    }

    fn rings(&self) -> &Rings {
        &self.rings
    }

    fn gather(&self, rows: &[RowRef], ends: &[RowRef], out: &mut Batch<'_, '_>) -> Result<()> {
        let mut scratch = Scratch::default();
        for (index, (&row, &end)) in rows.iter().zip(ends).enumerate() {
            interrupt::check()?;
            self.gather_row(index, (row, end), out, &mut scratch)?;
        }
        Ok(())
    }

    fn visit_rewards(
        &self,
        first: RowRef,
        end: u64,
        visit: &mut dyn FnMut(RowRef, f64, u8) -> bool,
    ) -> Result<()> {
        let mut scratch = Vec::new();
        for position in first.position..end {
            let row = RowRef { position, ..first };
            let record = self.read_record(row, &mut scratch)?;
            let (reward, flags) = self.memory.layout.reward_and_flags(record);
            if !visit(row, reward, flags) {
                break;
            }
        }
        Ok(())
    }
}

/// Returns one row of `[n, ...]` bytes.
fn batch_row(out: &mut [u8], index: usize, n: usize) -> &mut [u8] {
    let width = out.len().checked_div(n).unwrap_or(0);
    out.get_mut(index * width..(index + 1) * width).unwrap_or_default()
}
