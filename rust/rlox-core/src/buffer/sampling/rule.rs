//! What a rule is: it draws rows, told of what comes and goes.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

use super::rng::SampleRng;
use crate::buffer::rows::{Rings, RowRef};
use crate::error::{Error, Result};
use crate::interrupt;

/// The largest number of rows of one sampling call.
pub const MAX_BATCH: usize = 1 << 28;

/// A rule by which rows are drawn.
///
/// A draw depends on the rows held, what the rule was told of them, and `rng`, and on nothing else.
pub trait Sampler: Debug + Send + Sync {
    /// Draws one batch and appends it to `drawn`; `rings` hold at least one row.
    ///
    /// # Errors
    /// [`Error::Config`] if the rule finds no row, [`Error::Interrupted`].
    fn draw(&self, rings: &Rings, want: Want, rng: &mut SampleRng, drawn: &mut Drawn)
    -> Result<()>;

    /// Whether [`Sampler::pushed`] has to be told of rows.
    fn follows(&self) -> bool {
        false
    }

    /// Told of the rows that a call stored, in order: the number of each in the call, by which its
    /// priority is found, and where it is. Rows that others of the call overwrite may be left out.
    ///
    /// # Errors
    /// [`Error::Interrupted`] in a long push, which is taken back then; nothing is changed. Any other
    /// leaves rows that the rule does not know.
    fn pushed(
        &mut self,
        _rings: &Rings,
        _rows: &[(usize, RowRef)],
        _priorities: Option<&[f64]>,
    ) -> Result<()> {
        Ok(())
    }

    /// Told of the new priorities of rows by index; returns how many are no longer held.
    ///
    /// # Errors
    /// [`Error::Config`] if the rule knows no priorities, [`Error::StaleIndex`] for a row that was never
    /// written, [`Error::Interrupted`]. Nothing is changed then.
    fn updated(&mut self, _rings: &Rings, _indices: &[u64], _priorities: &[f64]) -> Result<usize> {
        Err(Error::config("sampler", "without priorities", "a PrioritizedReplayBuffer"))
    }

    /// Told that every row has left.
    fn cleared(&mut self) {}

    /// What the rule has to save: name, bytes of an element, bytes.
    fn saved(&self) -> Vec<(&'static str, usize, Vec<u8>)> {
        Vec::new()
    }

    /// Continues from what [`Sampler::saved`] gave, of which `column` finds the bytes by name, with the
    /// rows of `rings`.
    ///
    /// # Errors
    /// [`Error::Snapshot`] for what does not fit. Nothing is changed then.
    fn restore(
        &mut self,
        _rings: &Rings,
        _column: &dyn Fn(&'static str) -> Result<Vec<u8>>,
    ) -> Result<()> {
        Ok(())
    }
}

/// What one batch is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// Rows, or windows.
    pub size: usize,
    /// Rows of a window; 1 where there are none.
    pub len: usize,
}

/// What was drawn, batch after batch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drawn {
    /// The rows; padded places of a window repeat its last row.
    pub rows: Vec<RowRef>,
    /// Importance weight of each row, for rules that have them.
    pub weights: Vec<f64>,
    /// Rows of each window that are no padding, for rules that draw windows.
    pub filled: Vec<usize>,
    /// Rows whose goal is to be replaced.
    pub relabels: Vec<Relabel>,
}

/// A row of a batch and the row whose `next_obs` says which goal replaces its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relabel {
    /// Place in the batch.
    pub place: usize,
    /// The row that achieved the new goal.
    pub goal: RowRef,
}

/// How much a call draws, and from which random stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Rows per batch, or windows.
    pub batch_size: usize,
    /// Batches; they equal as many single calls.
    pub n_batches: usize,
    /// Rows of a window; 1 where there are none.
    pub len: usize,
    /// Batch i draws from `Stream(seed, "replay", i)`; None takes the buffer's own next batches.
    pub seed: Option<u64>,
}

impl Request {
    /// Rows of all batches, padding included.
    ///
    /// # Errors
    /// [`Error::Config`] for no or too many rows.
    pub fn rows(self) -> Result<usize> {
        if self.len == 0 {
            return Err(Error::config("seq_len", 0, "at least 1"));
        }
        let rows = self.batch_size.checked_mul(self.n_batches);
        match rows.and_then(|rows| rows.checked_mul(self.len)) {
            Some(rows) if (1..=MAX_BATCH).contains(&rows) => Ok(rows),
            _ if self.n_batches == 0 => Err(Error::config("n_batches", 0, "at least 1")),
            _ if self.n_batches > 1 && Self { n_batches: 1, ..self }.rows().is_ok() => {
                let expected =
                    "at most 2**28 rows a call: batch_size times windows' length times it";
                Err(Error::config("n_batches", self.n_batches, expected))
            }
            _ => {
                let expected = "1 to 2**28 rows a call, windows times their length";
                Err(Error::config("batch_size", self.batch_size, expected))
            }
        }
    }

    /// Draws every batch of the request by `rule`, and lets `more` go on drawing from the random
    /// numbers of each; it is told the place of the batch's first row.
    ///
    /// # Errors
    /// Those of [`Request::rows`], of the rule and of `more`; [`Error::Config`] without rows.
    pub(in crate::buffer) fn draw(
        self,
        rule: &(impl Sampler + ?Sized),
        rings: &Rings,
        state: &SamplerState,
        mut more: impl FnMut(&mut SampleRng, usize, &mut Drawn) -> Result<()>,
    ) -> Result<Drawn> {
        let mut drawn = Drawn { rows: Vec::with_capacity(self.rows()?), ..Drawn::default() };
        rings.check_filled()?;
        let (seed, first) = state.take(self.seed, self.n_batches);
        let want = Want { size: self.batch_size, len: self.len };
        for batch in 0..self.n_batches as u64 {
            interrupt::check()?;
            let mut rng = SampleRng::new(seed, first.wrapping_add(batch));
            let place = drawn.rows.len();
            rule.draw(rings, want, &mut rng, &mut drawn)?;
            more(&mut rng, place, &mut drawn)?;
        }
        Ok(drawn)
    }
}

/// Where the random numbers of a buffer stand.
#[derive(Debug)]
pub struct SamplerState {
    seed: u64,
    drawn: AtomicU64,
}

impl SamplerState {
    /// Batch 0 of `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self::at(seed, 0)
    }

    /// The next batch is number `drawn`.
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
    fn take(&self, seed: Option<u64>, batches: usize) -> (u64, u64) {
        match seed {
            Some(seed) => (seed, 0),
            None => (self.seed, self.drawn.fetch_add(batches as u64, Ordering::Relaxed)),
        }
    }
}
