//! The uniform replay buffer.

use std::sync::atomic::{AtomicU64, Ordering};

use super::draw::Draws;
use super::ring::{Ring, RingBuffer};
use super::schema::Schema;
use super::storage::{Row, Storage};
use crate::error::{Error, Result};

/// The largest number of rows of one sampling call.
pub const MAX_BATCH: usize = 1 << 28;

/// Where the random numbers of a buffer come from.
#[derive(Debug)]
pub struct DrawState {
    seed: u64,
    drawn: AtomicU64,
}

impl DrawState {
    /// Draw 0 of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self::at(seed, 0)
    }

    /// The next draw is number `drawn`.
    #[must_use]
    pub const fn at(seed: u64, drawn: u64) -> Self {
        Self { seed, drawn: AtomicU64::new(drawn) }
    }

    /// The buffer's seed.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Batches drawn so far without a seed of their own.
    #[must_use]
    pub fn drawn(&self) -> u64 {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Seed and number of the first of `batches` batches: of `seed` if given, else the buffer's
    /// next ones, which are used up.
    pub(super) fn take(&self, seed: Option<u64>, batches: usize) -> (u64, u64) {
        match seed {
            Some(seed) => (seed, 0),
            None => (self.seed, self.drawn.fetch_add(batches as u64, Ordering::Relaxed)),
        }
    }
}

/// How many rows a call draws, and from which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Rows per batch.
    pub batch_size: usize,
    /// Batches; they equal as many single calls.
    pub n_batches: usize,
    /// Batch i draws from `Stream(seed, "replay", i)`; None takes the buffer's own next batches.
    pub seed: Option<u64>,
}

impl Request {
    /// Rows of all batches.
    ///
    /// # Errors
    /// [`Error::Config`] for no or too many rows.
    pub fn rows(self) -> Result<usize> {
        let rows = self.batch_size.checked_mul(self.n_batches);
        match rows.filter(|rows| (1..=MAX_BATCH).contains(rows)) {
            Some(rows) => Ok(rows),
            None if self.n_batches == 0 => Err(Error::config("n_batches", 0, "at least 1")),
            None => Err(Error::config("batch_size", self.batch_size, "1 to 2**28 rows a call")),
        }
    }
}

/// A ring of transitions sampled uniformly with replacement.
#[derive(Debug)]
pub struct ReplayBuffer {
    ring: Ring,
}

impl ReplayBuffer {
    /// An empty buffer; see [`Storage::new`].
    ///
    /// # Errors
    /// As [`Storage::new`].
    pub fn new(schema: Schema, capacity: usize, n_envs: usize, seed: u64) -> Result<Self> {
        Ok(Self { ring: Ring::new(schema, capacity, n_envs, seed)? })
    }

    /// Draws rows, uniformly and with replacement, batch after batch.
    ///
    /// # Errors
    /// [`Error::Config`] for an empty buffer or a request out of range.
    pub fn sample(&self, request: Request) -> Result<Vec<Row>> {
        self.sample_each(request, |_, _, _| {})
    }

    /// [`ReplayBuffer::sample`]; `more` may go on drawing from each batch's stream, and is told
    /// the batch's place among all rows and its rows.
    pub(super) fn sample_each(
        &self,
        request: Request,
        mut more: impl FnMut(&mut Draws, usize, &[Row]),
    ) -> Result<Vec<Row>> {
        let mut rows = Vec::with_capacity(request.rows()?);
        check_filled(&self.ring.storage)?;
        let (seed, first) = self.ring.draws.take(request.seed, request.n_batches);
        for batch in 0..request.n_batches as u64 {
            let mut draws = Draws::new(seed, first.wrapping_add(batch));
            let place = rows.len();
            self.ring.storage.draw(&mut draws, request.batch_size, &mut rows);
            more(&mut draws, place, rows.get(place..).unwrap_or_default());
        }
        Ok(rows)
    }
}

impl RingBuffer for ReplayBuffer {
    fn ring(&self) -> &Ring {
        &self.ring
    }

    fn ring_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }
}

/// Checks that there is a row to sample.
pub(super) fn check_filled(storage: &Storage) -> Result<()> {
    if storage.is_empty() {
        return Err(Error::config("buffer", "empty", "at least one row; push before sampling"));
    }
    Ok(())
}
