//! Windows of consecutive rows, for recurrent and model-based learners.

use super::draw::Draws;
use super::replay::{Request, check_filled};
use super::ring::{Ring, RingBuffer};
use super::schema::Schema;
use super::storage::{Row, Storage};
use crate::error::{Error, Result};

/// The index of a padded place of a window; no row has it.
pub const PADDING: u64 = u64::MAX;

/// The largest length of a window.
pub const MAX_WINDOW: usize = 1 << 16;

/// Windows drawn from a buffer, each `len` places of which the first `filled` are rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Windows {
    /// Places per window.
    pub len: usize,
    /// Rows of all windows, `[windows, len]`; padded places repeat the window's last row.
    pub rows: Vec<Row>,
    /// Rows of each window that are no padding, `[windows]`.
    pub filled: Vec<usize>,
}

/// A ring of transitions sampled as windows of consecutive rows.
#[derive(Debug)]
pub struct SequenceReplayBuffer {
    ring: Ring,
    cross_episodes: bool,
}

impl SequenceReplayBuffer {
    /// An empty buffer; windows stay within an episode unless `cross_episodes`.
    ///
    /// # Errors
    /// As [`Storage::new`].
    pub fn new(
        schema: Schema,
        capacity: usize,
        n_envs: usize,
        seed: u64,
        cross_episodes: bool,
    ) -> Result<Self> {
        Ok(Self { ring: Ring::new(schema, capacity, n_envs, seed)?, cross_episodes })
    }

    /// Rows of all windows of a request, padding included.
    ///
    /// # Errors
    /// [`Error::Config`] for no or too many rows.
    pub fn check(request: Request, len: usize) -> Result<usize> {
        if !(1..=MAX_WINDOW).contains(&len) {
            return Err(Error::config("seq_len", len, format!("1 to {MAX_WINDOW}")));
        }
        let rows = request.rows()?.checked_mul(len).filter(|&rows| rows <= super::MAX_BATCH);
        rows.ok_or_else(|| {
            let expected = "batch_size x seq_len of at most 2**28 rows a call";
            Error::config("batch_size", request.batch_size, expected)
        })
    }

    /// Draws windows of `len` consecutive rows of one environment.
    ///
    /// Uniform over all places where a whole window fits into its episode (which ends at the
    /// newest row if it still runs, and begins at the oldest row held); an episode shorter than
    /// `len` has one place, its first row, and its window is padded. With `cross_episodes` all
    /// rows of an environment count as one episode.
    ///
    /// # Errors
    /// [`Error::Config`] for an empty buffer or a request out of range.
    pub fn sample(&self, request: Request, len: usize) -> Result<Windows> {
        let rows = Self::check(request, len)?;
        check_filled(&self.ring.storage)?;
        let count = rows / len;
        let mut windows =
            Windows { len, rows: Vec::with_capacity(rows), filled: Vec::with_capacity(count) };
        let (seed, first) = self.ring.draws.take(request.seed, request.n_batches);
        let mut row = Vec::with_capacity(1);
        for batch in 0..request.n_batches as u64 {
            let mut draws = Draws::new(seed, first.wrapping_add(batch));
            for _ in 0..request.batch_size {
                self.draw(&mut draws, &mut row, &mut windows);
            }
        }
        Ok(windows)
    }

    /// Draws one window: a row is drawn until one is a place to begin.
    fn draw(&self, draws: &mut Draws, row: &mut Vec<Row>, windows: &mut Windows) {
        loop {
            row.clear();
            self.ring.storage.draw(draws, 1, row);
            let Some(&first) = row.first() else { return };
            let Some(state) = self.ring.storage.streams.get(first.stream as usize) else { return };
            let (start, end) = if self.cross_episodes {
                (state.start, state.pushed)
            } else {
                state.episode(first.position)
            };
            let fits = first.position + windows.len as u64 <= end;
            if fits || first.position == start {
                let last = end.min(first.position + windows.len as u64) - 1;
                let places = (0..windows.len as u64).map(|k| last.min(first.position + k));
                let stream = first.stream as usize;
                windows.rows.extend(places.map(|position| self.ring.storage.row(stream, position)));
                #[expect(clippy::cast_possible_truncation, reason = "at most windows.len")]
                windows.filled.push((last + 1 - first.position) as usize);
                return;
            }
        }
    }
}

impl RingBuffer for SequenceReplayBuffer {
    fn ring(&self) -> &Ring {
        &self.ring
    }

    fn ring_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }
}

impl Storage {
    /// Copies windows out as [`Storage::fill`] does, then `is_first`, 1 where an episode begins,
    /// and `mask`, 0 at padded places, where all else is 0 but the index, [`PADDING`].
    pub fn fill_windows(&self, windows: &Windows, out: &mut [&mut [u8]]) {
        self.fill(&windows.rows, None, out);
        let indices = 2 * self.obs.len() + self.layout.columns.len() + 2;
        if let Some([_, is_first, mask, ..]) = out.get_mut(indices..) {
            for (row, first) in windows.rows.iter().zip(is_first.iter_mut()) {
                let state = self.streams.get(row.stream as usize);
                *first = u8::from(state.is_some_and(|state| state.is_first(row.position)));
            }
            mask.fill(1);
        }
        for (column, out) in out.iter_mut().enumerate() {
            let width = out.len() / windows.rows.len().max(1);
            let padding = if column == indices { u8::MAX } else { 0 };
            let each = out.chunks_exact_mut((width * windows.len).max(1));
            for (window, &filled) in each.zip(&windows.filled) {
                window.iter_mut().skip(filled * width).for_each(|byte| *byte = padding);
            }
        }
    }
}
