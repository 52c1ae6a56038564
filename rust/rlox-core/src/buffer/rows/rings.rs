//! The rings of the environments, which are enough to find and draw rows.

use std::collections::VecDeque;

use super::RowRef;
use crate::error::{Error, Result};

/// The index of a padding row of a window. No row has it.
pub const PADDING: u64 = u64::MAX;

/// The ring of one environment. Positions count its pushes and never repeat; slots are reused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::buffer) struct EnvRing {
    /// Position of the oldest row.
    pub start: u64,
    /// Position of the next row, which is the number of rows pushed so far.
    pub n_pushed: u64,
    /// Slot of the next row.
    pub head: usize,
    /// True if the newest row still needs the next `obs` as its `next_obs`.
    pub awaits_next_obs: bool,
    /// Positions at which the episodes of the ring's rows begin, oldest first. The first may be
    /// before `start`.
    pub episode_starts: VecDeque<u64>,
    /// True if the next row begins an episode.
    pub begins_episode: bool,
}

impl EnvRing {
    /// Makes a ring without rows, whose first row gets position `position`.
    pub(in crate::buffer) fn empty_at(position: u64) -> Self {
        Self { start: position, n_pushed: position, begins_episode: true, ..Self::default() }
    }

    /// Returns the number of rows.
    #[expect(clippy::cast_possible_truncation, reason = "rows held are in memory")]
    #[inline]
    pub(in crate::buffer) const fn len(&self) -> usize {
        (self.n_pushed - self.start) as usize
    }

    /// Returns the slot of a live row in a ring of `capacity` rows.
    #[expect(clippy::cast_possible_truncation, reason = "rows held are in memory")]
    #[inline]
    pub(in crate::buffer) const fn slot(&self, position: u64, capacity: usize) -> usize {
        let back = (self.n_pushed - position) as usize;
        if back <= self.head { self.head - back } else { self.head + capacity - back }
    }

    /// Updates the episode starts for the next row, which is at `position`.
    #[inline]
    pub(in crate::buffer) fn mark_episode(&mut self, position: u64, ends_episode: bool) {
        if self.begins_episode {
            self.episode_starts.push_back(position);
        }
        self.begins_episode = ends_episode;
    }

    /// Counts `count` rows, at most `capacity`, as pushed.
    #[inline]
    pub(in crate::buffer) const fn advance(&mut self, count: usize, capacity: usize) {
        self.n_pushed += count as u64;
        let head = self.head + count;
        self.head = if head < capacity { head } else { head - capacity };
    }

    /// Counts rows with these flags as pushed. Later rows of the same push overwrite them.
    pub(in crate::buffer) fn skip(&mut self, terminated: &[u8], truncated: &[u8]) {
        if terminated.is_empty() {
            return;
        }
        for (&terminated_flag, &truncated_flag) in terminated.iter().zip(truncated) {
            self.mark_episode(self.n_pushed, (terminated_flag | truncated_flag) != 0);
            self.n_pushed += 1;
        }
        self.awaits_next_obs = false;
        self.evict_before(self.n_pushed);
    }

    /// Drops the rows before `start` and the episodes that have no other rows.
    pub(in crate::buffer) fn evict_before(&mut self, start: u64) {
        self.start = self.start.max(start);
        while self.episode_starts.get(1).is_some_and(|&second| second <= self.start) {
            self.episode_starts.pop_front();
        }
    }

    /// Returns the live rows of the episode of `position`: the first and the one after the last.
    pub(in crate::buffer) fn episode(&self, position: u64) -> (u64, u64) {
        let next_index = self.episode_starts.partition_point(|&start| start <= position);
        let first = next_index.checked_sub(1).and_then(|at| self.episode_starts.get(at));
        let start = first.copied().unwrap_or(self.start).max(self.start);
        (start, self.episode_starts.get(next_index).copied().unwrap_or(self.n_pushed))
    }

    /// Returns whether an episode begins at `position`.
    pub(in crate::buffer) fn is_first(&self, position: u64) -> bool {
        self.episode_starts.binary_search(&position).is_ok()
    }
}

/// The rings of all environments, each of `capacity` rows.
#[derive(Debug, Clone)]
pub struct Rings {
    pub(in crate::buffer) by_env: Vec<EnvRing>,
    pub(in crate::buffer) capacity: usize,
}

impl Rings {
    /// Makes empty rings.
    pub(in crate::buffer) fn new(n_envs: usize, capacity: usize) -> Self {
        Self { by_env: vec![EnvRing::empty_at(0); n_envs], capacity }
    }

    /// Returns the number of environments.
    #[must_use]
    pub const fn n_envs(&self) -> usize {
        self.by_env.len()
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_env.iter().map(EnvRing::len).sum()
    }

    /// Returns whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_env.iter().all(|ring| ring.len() == 0)
    }

    /// Returns the largest possible number of rows.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity * self.by_env.len()
    }

    /// Returns the number of rows pushed so far, including overwritten ones.
    #[must_use]
    pub fn n_pushed(&self) -> u64 {
        self.by_env.iter().map(|ring| ring.n_pushed).sum()
    }

    /// Returns the index of a row: its position times the number of environments plus its
    /// environment.
    ///
    /// Rows that are pushed for every environment at once get consecutive indices. An index is
    /// never used again.
    #[must_use]
    #[inline]
    pub const fn index(&self, row: RowRef) -> u64 {
        row.position * self.by_env.len() as u64 + row.env as u64
    }

    /// Returns the row with an index.
    ///
    /// # Errors
    /// [`Error::StaleIndex`] if it was overwritten or never written.
    pub fn find(&self, index: u64) -> Result<RowRef> {
        self.find_for_update(index)?.ok_or_else(|| self.stale_error(index))
    }

    /// Returns the row with an index, for a write. None if the row was overwritten or is the
    /// [`PADDING`] of a batch.
    ///
    /// # Errors
    /// [`Error::StaleIndex`] if it was never written.
    #[expect(clippy::cast_possible_truncation, reason = "at most MAX_ENVS")]
    pub fn find_for_update(&self, index: u64) -> Result<Option<RowRef>> {
        let n = self.by_env.len().max(1) as u64;
        let (position, env) = (index / n, (index % n) as usize);
        match self.by_env.get(env) {
            Some(ring) if position < ring.n_pushed => {
                Ok((position >= ring.start).then(|| self.row(env, position)))
            }
            _ if index == PADDING => Ok(None),
            _ => Err(self.stale_error(index)),
        }
    }

    #[cold]
    fn stale_error(&self, index: u64) -> Error {
        Error::StaleIndex { index, held: self.index_range() }
    }

    /// Returns the lowest and the highest index as text.
    fn index_range(&self) -> String {
        let n = self.by_env.len() as u64;
        let nonempty_rings = self.by_env.iter().zip(0..).filter(|(ring, _)| ring.len() > 0);
        let ends = nonempty_rings.map(|(ring, env)| (ring.start * n + env, (ring.n_pushed - 1) * n + env));
        ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
            .map_or("no rows".to_owned(), |(low, high)| format!("rows {low} to {high}"))
    }

    /// Returns the rows of one environment after the other, oldest first.
    pub fn rows(&self) -> impl Iterator<Item = RowRef> + '_ {
        let rings = self.by_env.iter().enumerate();
        rings.flat_map(move |(env, ring)| {
            (ring.start..ring.n_pushed).map(move |position| self.row(env, position))
        })
    }

    /// Returns the live row of an environment at a position.
    #[expect(clippy::cast_possible_truncation, reason = "capacities stay below 2^31")]
    #[inline]
    pub(in crate::buffer) fn row(&self, env: usize, position: u64) -> RowRef {
        let slot = self.by_env.get(env).map_or(0, |ring| ring.slot(position, self.capacity));
        RowRef { position, slot: (env * self.capacity + slot) as u32, env: env as u32 }
    }

    /// Returns the ring of a row.
    #[inline]
    pub(in crate::buffer) fn ring(&self, row: RowRef) -> Result<&EnvRing> {
        self.by_env.get(row.env as usize).ok_or_else(|| no_such_env(row.env as usize, self.n_envs()))
    }

    /// Checks that there is a row to sample.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none.
    pub fn check_not_empty(&self) -> Result<()> {
        if self.is_empty() {
            return Err(Error::config("buffer", "empty", "at least one row; push before sampling"));
        }
        Ok(())
    }
}

pub(super) fn no_such_env(env: usize, n: usize) -> Error {
    Error::config("env", env, format!("an environment in 0..{n}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_in_the_slot_of_its_position_at_every_head() {
        for capacity in 1..6_usize {
            for pushed in 0..20_u64 {
                let start = pushed - pushed.min(capacity as u64);
                let head = usize::try_from(pushed).unwrap() % capacity;
                let ring = EnvRing { start, n_pushed: pushed, head, ..EnvRing::default() };
                for position in ring.start..pushed {
                    let slot = ring.slot(position, capacity);
                    assert_eq!(slot, usize::try_from(position).unwrap() % capacity);
                }
            }
        }
    }

    #[test]
    fn an_episode_is_cut_at_the_oldest_row_and_at_the_head() {
        let mut ring = EnvRing { n_pushed: 9, episode_starts: [0, 4, 7].into(), ..EnvRing::default() };
        ring.evict_before(2);
        assert_eq!([2, 3].map(|p| ring.episode(p)), [(2, 4); 2]);
        assert_eq!([4, 6, 7, 8].map(|p| ring.episode(p)), [(4, 7), (4, 7), (7, 9), (7, 9)]);
        ring.evict_before(4);
        assert_eq!(ring.episode_starts, [4, 7]);
        assert!(ring.is_first(4) && !ring.is_first(5));
    }
}
