//! Stores rows in memory.

use std::ops::Range;

use super::layout::{TERMINATED, TRUNCATED, lower_half_at, write_flags, write_lower_half};
use super::memory::MemoryRows;
use super::obs::ObsBlock;
use super::rings::no_such_env;
use super::{RowRef, width};
use crate::error::{Result, check_len};
use crate::interrupt;

/// Number of rows that are stored at a time.
const BLOCK: usize = 1_024;

/// A push of at least this many rows or bytes takes about 100 ms or more and can be interrupted.
const LONG_ROWS: usize = 1 << 18;
const LONG_BYTES: usize = 256 << 20;

/// Rows to store, each column row-major with `n` rows, as bytes in native order.
#[derive(Debug, Clone, Copy)]
pub struct Transitions<'a> {
    /// Number of rows.
    pub n: usize,
    /// The observation columns, in the schema's order.
    pub obs: &'a [&'a [u8]],
    /// Observations after each step, in the same order. Without them, the next observation of the
    /// same environment is used. For a row that ends an episode, its own observation is used.
    pub next_obs: Option<&'a [&'a [u8]]>,
    /// Actions, rewards and extras, in the schema's order.
    pub columns: &'a [&'a [u8]],
    /// Whether the step reached a terminal state, `[n]`; 0 is false.
    pub terminated: &'a [u8],
    /// Whether the episode was truncated, `[n]`; 0 is false.
    pub truncated: &'a [u8],
}

/// The environment of each of some rows.
#[derive(Debug, Clone, Copy)]
pub enum EnvIndex<'a> {
    /// All rows come from this environment, consecutive in time.
    One(usize),
    /// Row i comes from environment i.
    Each,
    /// Row i comes from environment `ids[i]`. Rows of one environment are in time order.
    Ids(&'a [usize]),
}

impl MemoryRows {
    /// Stores rows.
    ///
    /// `on_stored` is called with the index of each row in `rows` and its reference. It may not be
    /// called for rows that later rows of the same call overwrite.
    ///
    /// # Errors
    /// Nothing is stored if there is an error.
    /// - [`Error::Shape`](crate::Error::Shape) if a column has another size.
    /// - [`Error::Config`](crate::Error::Config) if an environment does not exist.
    /// - [`Error::Interrupted`](crate::Error::Interrupted).
    pub fn push(
        &mut self,
        env_index: EnvIndex<'_>,
        rows: Transitions<'_>,
        mut on_stored: impl FnMut(usize, RowRef),
    ) -> Result<()> {
        self.check(env_index, &rows)?;
        if let (EnvIndex::One(env), 1) = (env_index, rows.n) {
            self.push_row(env, &rows, 0, &mut on_stored);
            return Ok(());
        }
        let is_long = self.is_long(env_index, rows.n);
        self.all_or_nothing(is_long, |memory| memory.push_checked(env_index, &rows, &mut on_stored))
    }

    /// Returns whether a push of `n` rows takes so long that it has to be interruptible.
    pub(in crate::buffer) fn is_long(&self, env_index: EnvIndex<'_>, n: usize) -> bool {
        let row_bytes = self.layout.stride + self.layout.obs_bytes.iter().sum::<usize>();
        // With one row for each of many environments, the push is short, but a copy of all rings is
        // not.
        let has_many_rows = n >= LONG_ROWS && !matches!(env_index, EnvIndex::Each);
        has_many_rows || n.saturating_mul(row_bytes) >= LONG_BYTES
    }

    /// Same as [`MemoryRows::push`], for rows that were checked. If it is interrupted, some rows
    /// are stored.
    pub(in crate::buffer) fn push_checked(
        &mut self,
        env_index: EnvIndex<'_>,
        rows: &Transitions<'_>,
        on_stored: &mut impl FnMut(usize, RowRef),
    ) -> Result<()> {
        let (capacity, is_long) = (self.rings.capacity, self.undo.is_some());
        if let (EnvIndex::Ids(ids), true) = (env_index, is_long) {
            return self.push_newest(ids, rows, on_stored);
        }
        let mut start = 0;
        if let EnvIndex::One(env) = env_index {
            start = rows.n.saturating_sub(capacity);
            if start > 0 {
                self.skip(env, rows, 0..start);
            }
        }
        while start < rows.n {
            if is_long {
                interrupt::check()?;
            }
            let end = rows.n.min(start + capacity.min(BLOCK));
            self.push_part(env_index, rows, start..end, on_stored);
            start = end;
        }
        Ok(())
    }

    /// Stores the rows of each environment that later rows of the same call do not overwrite.
    fn push_newest(
        &mut self,
        ids: &[usize],
        rows: &Transitions<'_>,
        on_stored: &mut impl FnMut(usize, RowRef),
    ) -> Result<()> {
        // Number of rows of each environment that are not stored yet.
        let mut remaining = vec![0; self.rings.n_envs()];
        for &env in ids {
            if let Some(count) = remaining.get_mut(env) {
                *count += 1;
            }
        }
        for (index, &env) in ids.iter().enumerate() {
            if index % BLOCK == 0 {
                interrupt::check()?;
            }
            if let Some(count) = remaining.get_mut(env).filter(|count| **count > self.rings.capacity) {
                *count -= 1;
                self.skip(env, rows, index..index + 1);
            } else {
                self.push_row(env, rows, index, on_stored);
            }
        }
        Ok(())
    }

    /// Counts one range of rows as pushed, without storing them: later rows would overwrite them.
    fn skip(&mut self, env: usize, rows: &Transitions<'_>, part: Range<usize>) {
        if let Some(ring) = self.rings.by_env.get_mut(env) {
            let flags = |flags| subslice(flags, part.start, part.len());
            ring.skip(flags(rows.terminated), flags(rows.truncated));
        }
        if self.undo.is_none() {
            self.release(env);
        }
    }

    /// Checks that rows fit the schema and the environments.
    pub(in crate::buffer) fn check(&self, env_index: EnvIndex<'_>, rows: &Transitions<'_>) -> Result<()> {
        let n = self.rings.n_envs();
        let unknown_env = match env_index {
            EnvIndex::One(env) => Some(env).filter(|&env| env >= n),
            EnvIndex::Each => {
                check_len("rows", rows.n, n, "one per environment")?;
                None
            }
            EnvIndex::Ids(ids) => {
                check_len("env_ids", ids.len(), rows.n, "one per row")?;
                ids.iter().copied().find(|&id| id >= n)
            }
        };
        if let Some(env) = unknown_env {
            return Err(no_such_env(env, n));
        }
        for obs_columns in std::iter::once(rows.obs).chain(rows.next_obs) {
            check_len("observation columns", obs_columns.len(), self.obs.len(), "the schema's")?;
            for (bytes, width) in obs_columns.iter().zip(&self.layout.obs_bytes) {
                check_len("obs", bytes.len(), rows.n * width, "bytes")?;
            }
        }
        check_len("columns", rows.columns.len(), self.layout.columns.len(), "the schema's")?;
        for (bytes, &(_, width)) in rows.columns.iter().zip(&self.layout.columns) {
            check_len("column", bytes.len(), rows.n * width, "bytes")?;
        }
        check_len("terminated", rows.terminated.len(), rows.n, "one per row")?;
        check_len("truncated", rows.truncated.len(), rows.n, "one per row")
    }

    /// Stores one range of rows, which were checked. If all are from one environment, there are at
    /// most as many as its capacity.
    pub(in crate::buffer) fn push_part(
        &mut self,
        env_index: EnvIndex<'_>,
        rows: &Transitions<'_>,
        part: Range<usize>,
        on_stored: &mut impl FnMut(usize, RowRef),
    ) {
        match env_index {
            EnvIndex::One(env) => self.push_block(env, rows, part, on_stored),
            EnvIndex::Each => part.for_each(|i| self.push_row(i, rows, i, on_stored)),
            EnvIndex::Ids(ids) => {
                let ids = ids.iter().enumerate().skip(part.start).take(part.len());
                ids.for_each(|(index, &env)| self.push_row(env, rows, index, on_stored));
            }
        }
    }

    /// Counts `count` rows of an environment as stored.
    fn advance(&mut self, env: usize, count: usize, awaits_next_obs: bool) {
        let capacity = self.rings.capacity;
        if let Some(ring) = self.rings.by_env.get_mut(env) {
            ring.awaits_next_obs = awaits_next_obs;
            ring.advance(count, capacity);
        }
    }

    /// Writes flags and columns of one range of rows. Room for them was made before, and there are
    /// at most as many as the capacity.
    fn push_records(
        &mut self,
        env: usize,
        rows: &Transitions<'_>,
        part: Range<usize>,
        on_stored: &mut impl FnMut(usize, RowRef),
    ) {
        let Some(ring) = self.rings.by_env.get(env) else { return };
        let (capacity, head, pushed) = (self.rings.capacity, ring.head, ring.n_pushed);
        let (count, first) = (part.len(), env * capacity);
        let n_wrapped = (head + count).saturating_sub(capacity);
        self.copy_on_write(first + head, count - n_wrapped);
        self.copy_on_write(first, n_wrapped);
        let stride = self.layout.stride;
        let slot = |row: usize| slot(env, capacity, head + row);
        for (bytes, &(offset, width)) in rows.columns.iter().zip(&self.layout.columns) {
            let places = (0..count).map(|row| slot(row) * stride);
            let bytes = subslice(bytes, part.start * width, count * width);
            width::scatter(&mut self.records, places, offset, width, bytes);
        }
        let flags_offset = self.layout.flags_offset;
        let Some(ring) = self.rings.by_env.get_mut(env) else { return };
        let (terminated, truncated) =
            (subslice(rows.terminated, part.start, count), subslice(rows.truncated, part.start, count));
        for (row, (&terminated_flag, &truncated_flag)) in terminated.iter().zip(truncated).enumerate() {
            let (flags, slot, position) =
                (flags(terminated_flag, truncated_flag), slot(row), pushed + row as u64);
            write_flags(&mut self.records, slot * stride + flags_offset, flags);
            ring.mark_episode(position, flags != 0);
            #[expect(clippy::cast_possible_truncation, reason = "capacities stay below 2^31")]
            on_stored(part.start + row, RowRef { position, slot: slot as u32, env: env as u32 });
        }
    }

    /// Stores one range of rows in one environment, at most as many as its capacity.
    fn push_block(
        &mut self,
        env: usize,
        rows: &Transitions<'_>,
        part: Range<usize>,
        on_stored: &mut impl FnMut(usize, RowRef),
    ) {
        if part.len() == 1 {
            return self.push_row(env, rows, part.start, on_stored);
        }
        self.make_room(env, part.len());
        self.push_records(env, rows, part.clone(), on_stored);
        let Some(ring) = self.rings.by_env.get(env) else { return };
        let (capacity, head, stride) = (self.rings.capacity, ring.head, self.layout.stride);
        let place = |row: usize| slot(env, capacity, head + row) * stride;
        let (records, awaited_next_obs, mut awaits_next_obs) =
            (&mut self.records, ring.awaits_next_obs, false);
        for (column, (&width, envs)) in self.layout.obs_bytes.iter().zip(&mut self.obs).enumerate() {
            let Some(observations) = envs.get_mut(env) else { continue };
            let ends_episode = |row: usize| rows.ends_episode(part.start + row);
            awaits_next_obs = observations.push(
                rows.obs_block(column, &part, width, awaited_next_obs),
                ends_episode,
                |row, lower| {
                    write_lower_half(records, place(row) + 4 * column, lower);
                },
            );
        }
        self.advance(env, part.len(), awaits_next_obs);
    }

    /// Same as [`MemoryRows::push_block`], for a single row.
    fn push_row(
        &mut self,
        env: usize,
        rows: &Transitions<'_>,
        index: usize,
        on_stored: &mut impl FnMut(usize, RowRef),
    ) {
        self.make_room(env, 1);
        let Some(ring) = self.rings.by_env.get(env) else { return };
        let (slot, capacity) = (env * self.rings.capacity + ring.head, self.rings.capacity);
        self.copy_on_write(slot, 1);
        let stride = self.layout.stride;
        let record = self.records.get_mut(slot * stride..(slot + 1) * stride).unwrap_or_default();
        for (bytes, &(offset, width)) in rows.columns.iter().zip(&self.layout.columns) {
            width::copy(subslice(bytes, index * width, width), record, offset);
        }
        let flags = rows.flags(index);
        write_flags(record, self.layout.flags_offset, flags);
        let Some(ring) = self.rings.by_env.get_mut(env) else { return };
        ring.mark_episode(ring.n_pushed, flags != 0);
        #[expect(clippy::cast_possible_truncation, reason = "capacities stay below 2^31")]
        on_stored(index, RowRef { position: ring.n_pushed, slot: slot as u32, env: env as u32 });
        let (awaited_next_obs, part) = (ring.awaits_next_obs, index..index + 1);
        for (column, (&width, envs)) in self.layout.obs_bytes.iter().zip(&mut self.obs).enumerate() {
            let Some(observations) = envs.get_mut(env) else { break };
            let pushed = rows.obs_block(column, &part, width, awaited_next_obs);
            let number = |_, lower| write_lower_half(record, 4 * column, lower);
            ring.awaits_next_obs = observations.push(pushed, |_| flags != 0, number);
        }
        ring.advance(1, capacity);
    }

    /// Removes the oldest rows of an environment so that `count` more fit.
    fn make_room(&mut self, env: usize, count: usize) {
        let capacity = self.rings.capacity;
        let Some(ring) = self.rings.by_env.get_mut(env) else { return };
        let excess = (ring.len() + count).saturating_sub(capacity);
        if excess > 0 {
            ring.evict_before(ring.start + excess as u64);
            if self.undo.is_none() {
                self.release(env);
            }
        }
    }

    /// Releases the observations of an environment that no row refers to.
    pub(super) fn release(&mut self, env: usize) {
        let capacity = self.rings.capacity;
        let Some(ring) = self.rings.by_env.get(env) else { return };
        let record = (env * capacity + ring.slot(ring.start, capacity)) * self.layout.stride;
        for (column, envs) in self.obs.iter_mut().enumerate() {
            let Some(observations) = envs.get_mut(env) else { continue };
            let items = observations.items();
            // The newest observation stays, because the next push is compared with it.
            let oldest = if ring.len() == 0 {
                items.end().saturating_sub(1)
            } else {
                items.full_number(lower_half_at(&self.records, record + 4 * column))
            };
            observations.release_before(oldest);
        }
    }
}

impl<'a> Transitions<'a> {
    /// Returns the flags of a row.
    #[inline]
    fn flags(&self, index: usize) -> u8 {
        let flag = |flags: &[u8]| flags.get(index).copied().unwrap_or(1);
        flags(flag(self.terminated), flag(self.truncated))
    }

    #[inline]
    fn ends_episode(&self, index: usize) -> bool {
        self.flags(index) != 0
    }

    /// Returns the observations of one range of rows, for a column of `width` bytes.
    #[inline]
    fn obs_block(
        &self,
        column: usize,
        part: &Range<usize>,
        width: usize,
        awaits_next_obs: bool,
    ) -> ObsBlock<'a> {
        let rows = |columns: &[&'a [u8]]| {
            let bytes = columns.get(column).copied().unwrap_or_default();
            subslice(bytes, part.start * width, part.len() * width)
        };
        ObsBlock { obs: rows(self.obs), next_obs: self.next_obs.map(rows), width, awaits_next_obs }
    }
}

/// Returns the slot of place `index` in an environment's ring. `index` is below twice the
/// capacity and wraps around.
#[inline]
const fn slot(env: usize, capacity: usize, index: usize) -> usize {
    env * capacity + if index < capacity { index } else { index - capacity }
}

/// Returns the flags of a record.
#[inline]
fn flags(terminated: u8, truncated: u8) -> u8 {
    (u8::from(terminated != 0) * TERMINATED) | (u8::from(truncated != 0) * TRUNCATED)
}

/// Returns `len` values from an index on, of a slice whose length was checked.
#[inline]
fn subslice<T>(values: &[T], start: usize, len: usize) -> &[T] {
    values.get(start..start + len).unwrap_or_default()
}
