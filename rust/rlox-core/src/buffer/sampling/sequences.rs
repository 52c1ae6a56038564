//! Draws windows of consecutive rows, for recurrent and model-based learners.

use super::rng::SampleRng;
use super::rule::{BatchShape, Draws, Sampler};
use super::uniform;
use crate::buffer::batch::Batch;
use crate::buffer::rows::{MemoryRows, Rings, RowRef, Rows};
use crate::error::{Error, Result};
use crate::interrupt;

/// Windows that are processed between two checks for interruption.
const PIECE: usize = 1 << 12;

/// Draws windows of consecutive rows of one environment.
///
/// Draws are uniform over all rows from which a whole window fits into the episode. An episode that
/// has not ended ends at the newest row; a partly overwritten one begins at the oldest row. If an
/// episode is shorter than a window, the window begins at its first row and is padded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sequences {
    /// Whether all rows of an environment count as one episode.
    pub cross_episodes: bool,
}

impl Sequences {
    /// The largest length of a window.
    pub const MAX_LEN: usize = 1 << 16;

    /// Checks the length of windows.
    ///
    /// # Errors
    /// [`Error::Config`] unless it is in 1 to [`Sequences::MAX_LEN`].
    pub fn check(len: usize) -> Result<()> {
        if (1..=Self::MAX_LEN).contains(&len) {
            return Ok(());
        }
        Err(Error::config("seq_len", len, format!("1 to {}", Self::MAX_LEN)))
    }
}

impl Sampler for Sequences {
    fn draw(&self, rings: &Rings, shape: BatchShape, rng: &mut SampleRng, draws: &mut Draws) -> Result<()> {
        Self::check(shape.len)?;
        let mut row = Vec::with_capacity(1);
        for _ in 0..shape.size {
            // Repeats until a window can begin at the drawn row. Few rows may allow that.
            loop {
                interrupt::check()?;
                row.clear();
                uniform::draw_rows(rings, rng, 1, &mut row);
                let Some(&first) = row.first() else { break };
                let env_ring = rings.ring(first)?;
                let (start, end) = if self.cross_episodes {
                    (env_ring.start, env_ring.n_pushed)
                } else {
                    env_ring.episode(first.position)
                };
                if first.position + shape.len as u64 <= end || first.position == start {
                    push_window(rings, first, end, shape.len, draws);
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Appends the rows from `first` on, before position `end`, as a window of `len` rows.
pub(super) fn push_window(rings: &Rings, first: RowRef, end: u64, len: usize, draws: &mut Draws) {
    let last = end.min(first.position + len as u64) - 1;
    let places = (0..len as u64).map(|k| last.min(first.position + k));
    draws.rows.extend(places.map(|position| rings.row(first.env as usize, position)));
    #[expect(clippy::cast_possible_truncation, reason = "at most `len`")]
    draws.window_lens.push((last + 1 - first.position) as usize);
}

impl MemoryRows {
    /// Copies windows of `len` rows into `out`.
    ///
    /// `is_first` is 1 where an episode begins. `mask` is 1 for rows and 0 for padding. All other
    /// arrays are 0 for padding, except the index, which is [`PADDING`](crate::buffer::PADDING).
    ///
    /// # Errors
    /// Same as [`Rows::gather`].
    pub fn gather_windows(&self, draws: &Draws, len: usize, out: &mut Batch<'_, '_>) -> Result<()> {
        self.gather(&draws.rows, &draws.rows, out)?;
        for (row, flag) in draws.rows.iter().zip(out.is_first.iter_mut()) {
            *flag = u8::from(self.rings().ring(*row)?.is_first(row.position));
        }
        out.mask.fill(1);
        let indices = out.indices.as_ptr();
        for array in out.arrays() {
            let padding = if array.as_ptr() == indices { u8::MAX } else { 0 };
            let width = array.len().checked_div(draws.rows.len()).unwrap_or(0);
            let windows = array.chunks_exact_mut((width * len).max(1));
            for (index, (window, &window_len)) in windows.zip(&draws.window_lens).enumerate() {
                if index % PIECE == 0 {
                    interrupt::check()?;
                }
                window.iter_mut().skip(window_len * width).for_each(|byte| *byte = padding);
            }
        }
        Ok(())
    }
}
