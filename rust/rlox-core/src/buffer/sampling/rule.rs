//! The interface of samplers, and the requests and results of sampling calls.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rng::SampleRng;
use crate::buffer::rows::{Rings, RowRef};
use crate::error::{Error, Result};
use crate::interrupt;

/// The largest number of rows of one sampling call.
pub const MAX_BATCH: usize = 1 << 28;

/// Draws rows.
///
/// A draw depends only on the live rows, on the earlier calls that changed the sampler, and on
/// `rng`.
pub trait Sampler: Debug + Send + Sync {
    /// Draws one batch and appends it to `draws`. The rings have at least one row.
    ///
    /// # Errors
    /// [`Error::Config`] if the sampler finds no row, and [`Error::Interrupted`].
    fn draw(&self, rings: &Rings, shape: BatchShape, rng: &mut SampleRng, draws: &mut Draws) -> Result<()>;

    /// Returns whether the buffer has to call [`Sampler::on_push`].
    fn tracks_rows(&self) -> bool {
        false
    }

    /// Called with the rows that a push stored, in order: the index of each row in the call, and
    /// its reference.
    ///
    /// The priority of a row is the one at its index. Rows that later rows of the same call overwrite
    /// may be left out.
    ///
    /// # Errors
    /// [`Error::Interrupted`] in a long push. The push is rolled back then, and nothing is changed.
    /// After any other error, the buffer has rows that the sampler does not know.
    fn on_push(
        &mut self,
        _rings: &Rings,
        _rows: &[(usize, RowRef)],
        _priorities: Option<&[f64]>,
    ) -> Result<()> {
        Ok(())
    }

    /// Sets the priorities of rows by index. Returns the number of rows that have left the buffer.
    ///
    /// # Errors
    /// Nothing is changed if there is an error.
    /// - [`Error::Config`] if the sampler has no priorities.
    /// - [`Error::StaleIndex`] if a row was never written.
    /// - [`Error::Interrupted`].
    fn update_priorities(&mut self, _rings: &Rings, _indices: &[u64], _priorities: &[f64]) -> Result<usize> {
        Err(Error::config("sampler", "without priorities", "a PrioritizedReplayBuffer"))
    }

    /// Called after every row was removed.
    fn on_clear(&mut self) {}

    /// Returns the columns to save: name, size of an element in bytes, content.
    fn saved_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)> {
        Vec::new()
    }

    /// Restores the columns that [`Sampler::saved_columns`] returned, for the rows of
    /// the rings. `_column` returns the bytes of a column by its name.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if they do not fit. Nothing is changed then.
    fn restore(&mut self, _rings: &Rings, _column: &dyn Fn(&'static str) -> Result<Vec<u8>>) -> Result<()> {
        Ok(())
    }
}

/// The size of one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchShape {
    /// Number of rows or windows.
    pub size: usize,
    /// Rows per window; 1 if there are no windows.
    pub len: usize,
}

/// The rows that were drawn, one batch after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Draws {
    /// The rows. A padding row of a window repeats its last row.
    pub rows: Vec<RowRef>,
    /// Importance weight of each row, for samplers that have weights.
    pub weights: Vec<f64>,
    /// Number of rows of each window that are not padding, for samplers that draw windows.
    pub window_lens: Vec<usize>,
    /// Rows whose goals are to be replaced.
    pub relabels: Vec<Relabel>,
}

/// A row of a batch and the row whose `next_obs` has the new goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relabel {
    /// Index of the row in the batch.
    pub index: usize,
    /// The row that achieved the new goal.
    pub goal: RowRef,
}

/// The size of a sampling call and its random stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRequest {
    /// Rows or windows per batch.
    pub batch_size: usize,
    /// Number of batches. That many calls for one batch each would draw the same batches.
    pub n_batches: usize,
    /// Rows per window; 1 if there are no windows.
    pub len: usize,
    /// Batch i draws from `Stream(seed, "replay", i)`. None takes the next batches of the buffer's
    /// own stream.
    pub seed: Option<u64>,
}

impl SampleRequest {
    /// Returns the number of rows of all batches, including padding.
    ///
    /// # Errors
    /// [`Error::Config`] if there are no rows or too many.
    pub fn rows(self) -> Result<usize> {
        if self.len == 0 {
            return Err(Error::config("seq_len", 0, "at least 1"));
        }
        let rows = self.batch_size.checked_mul(self.n_batches);
        match rows.and_then(|rows| rows.checked_mul(self.len)) {
            Some(rows) if (1..=MAX_BATCH).contains(&rows) => Ok(rows),
            _ if self.n_batches == 0 => Err(Error::config("n_batches", 0, "at least 1")),
            _ if self.n_batches > 1 && Self { n_batches: 1, ..self }.rows().is_ok() => {
                let expected = "at most 2**28 rows a call: batch_size times windows' length times n_batches";
                Err(Error::config("n_batches", self.n_batches, expected))
            }
            _ => {
                let expected = "1 to 2**28 rows a call, windows times their length";
                Err(Error::config("batch_size", self.batch_size, expected))
            }
        }
    }

    /// Draws every batch of the request.
    ///
    /// After each batch, `after_batch` may draw more from the same random numbers. It gets the random
    /// numbers, the index of the batch's first row, and all rows drawn so far.
    ///
    /// # Errors
    /// - The errors of [`SampleRequest::rows`], of the sampler and of `after_batch`.
    /// - [`Error::Config`] if the buffer is empty.
    pub(in crate::buffer) fn draw(
        self,
        sampler: &(impl Sampler + ?Sized),
        rings: &Rings,
        state: &SamplerState,
        mut after_batch: impl FnMut(&mut SampleRng, usize, &mut Draws) -> Result<()>,
    ) -> Result<Draws> {
        let mut draws = Draws { rows: Vec::with_capacity(self.rows()?), ..Draws::default() };
        rings.check_not_empty()?;
        let (seed, first) = state.take_batches(self.seed, self.n_batches);
        let shape = BatchShape { size: self.batch_size, len: self.len };
        for batch in 0..self.n_batches as u64 {
            interrupt::check()?;
            let mut rng = SampleRng::new(seed, first.wrapping_add(batch));
            let batch_start = draws.rows.len();
            sampler.draw(rings, shape, &mut rng, &mut draws)?;
            after_batch(&mut rng, batch_start, &mut draws)?;
        }
        Ok(draws)
    }
}

/// The seed of a buffer and the number of its next batch.
#[derive(Debug)]
pub struct SamplerState {
    seed: u64,
    batches_drawn: AtomicU64,
}

impl SamplerState {
    /// Starts at batch 0 of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self::at_batch(seed, 0)
    }

    /// Starts at batch `batches_drawn` of `seed`.
    #[must_use]
    pub const fn at_batch(seed: u64, batches_drawn: u64) -> Self {
        Self { seed, batches_drawn: AtomicU64::new(batches_drawn) }
    }

    /// Returns the buffer's seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the number of batches drawn so far without a seed in the request.
    #[must_use]
    pub fn batches_drawn(&self) -> u64 {
        self.batches_drawn.load(Ordering::Relaxed)
    }

    /// Returns the seed and the number of the first of `batches` batches. Without a `seed`, these
    /// are the buffer's next batches, and they are counted as drawn.
    fn take_batches(&self, seed: Option<u64>, batches: usize) -> (u64, u64) {
        match seed {
            Some(seed) => (seed, 0),
            None => (self.seed, self.batches_drawn.fetch_add(batches as u64, Ordering::Relaxed)),
        }
    }
}
