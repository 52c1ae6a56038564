//! Time limits of many environments that step together.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

/// The steps taken in each running episode. The clock stores the time at which each episode began,
/// so that a step reads a block's rows only if one of them may have reached the limit.
#[derive(Clone)]
pub(super) struct EpisodeClock {
    /// Steps that the shard has taken. The count begins at the limit, so that `now - elapsed` is
    /// never negative.
    now: u64,
    limit: u64,
    /// Time at which each row's episode began, `[rows]`.
    start_times: Vec<u64>,
    /// Lower bound of `start_times` in each block, `[blocks]`.
    oldest_starts: Vec<u64>,
    /// Number of rows of a block.
    block_rows: usize,
}

impl EpisodeClock {
    /// Returns `rows` episodes at step 0 that are truncated at step `limit`.
    pub(super) fn new(rows: usize, limit: u32, block_rows: usize) -> Self {
        let limit = u64::from(limit);
        let blocks = rows.div_ceil(block_rows);
        Self {
            now: limit,
            limit,
            start_times: vec![limit; rows],
            oldest_starts: vec![limit; blocks],
            block_rows,
        }
    }

    /// Counts one more step of every row.
    pub(super) fn tick(&mut self) {
        self.now += 1;
    }

    /// Writes which episodes of block number `block` have reached the limit.
    #[inline(always)]
    pub(super) fn flag_truncated(&mut self, block: usize, truncated: &mut [bool]) {
        let now = self.now;
        let rows = block * self.block_rows;
        let Some(oldest) = self.oldest_starts.get_mut(block) else { return };
        if now - *oldest < self.limit {
            truncated.fill(false);
            return;
        }
        let starts = self.start_times.get(rows..rows + truncated.len()).unwrap_or_default();
        *oldest = now;
        for (truncated, &start) in truncated.iter_mut().zip(starts) {
            *truncated = now - start >= self.limit;
            *oldest = start.min(*oldest);
        }
    }

    /// Puts `row` at the start of an episode.
    pub(super) fn restart(&mut self, row: usize) {
        if let Some(start) = self.start_times.get_mut(row) {
            *start = self.now;
        }
    }

    /// Puts every row at the start of an episode.
    pub(super) fn restart_all(&mut self) {
        self.start_times.fill(self.now);
        self.oldest_starts.fill(self.now);
    }

    /// Returns the steps taken in each running episode, `[rows]`.
    pub(super) fn elapsed(&self) -> impl Iterator<Item = u32> {
        // The difference is below the limit, which is a u32.
        self.start_times.iter().map(|&start| u32::try_from(self.now - start).unwrap_or(u32::MAX))
    }

    /// Replaces the steps taken in each running episode, `[rows]`, each below the limit.
    pub(super) fn set_elapsed(&mut self, elapsed: &[u32]) {
        for (start, &elapsed) in self.start_times.iter_mut().zip(elapsed) {
            *start = self.now - u64::from(elapsed);
        }
        for (oldest, starts) in self.oldest_starts.iter_mut().zip(self.start_times.chunks(self.block_rows)) {
            *oldest = starts.iter().copied().min().unwrap_or(self.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_truncated_after_limit_steps_whenever_it_began() {
        let mut clock = EpisodeClock::new(5, 7, 2);
        clock.set_elapsed(&[0, 3, 6, 1, 0]);
        let mut elapsed = [0, 3, 6, 1, 0];
        for step in 0..40 {
            clock.tick();
            for (block, rows) in [0..2, 2..4, 4..5].into_iter().enumerate() {
                let mut flags = vec![true; rows.len()];
                clock.flag_truncated(block, &mut flags);
                for (row, flag) in rows.zip(flags) {
                    elapsed[row] += 1;
                    assert_eq!(flag, elapsed[row] == 7, "row {row} at step {step}");
                    // Row 3 also ends early now and then.
                    if flag || row == 3 && step % 4 == 0 {
                        clock.restart(row);
                        elapsed[row] = 0;
                    }
                }
            }
            assert_eq!(clock.elapsed().collect::<Vec<_>>(), elapsed);
        }
    }
}
