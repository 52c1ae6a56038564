//! Replay buffers in memory: rows and a sampler that draws them.

use super::batch::Batch;
use super::persist::{Archive, Columns, InMemory, Saveable};
use super::rows::{EnvIndex, MemoryRows, NStep, RowRef, Rows, Transitions};
use super::sampling::{
    Drawn, Hindsight, Prioritized, Request, Sampler, SamplerState, Sequences, check_priorities,
};
use super::schema::Schema;
use crate::error::{Result, check_len};
use crate::interrupt;

/// A ring of transitions with the sampler `S`. New rows overwrite the oldest.
#[derive(Debug)]
pub struct Buffer<S: ?Sized> {
    held: Saveable,
    sampler: Box<S>,
    /// Rows of the current push, for samplers that track rows.
    pushed: Vec<(usize, RowRef)>,
}

/// A buffer whose sampler has no settings; see [`named`](super::named).
pub type ReplayBuffer = Buffer<dyn Sampler>;

/// A buffer that draws rows in proportion to priority^alpha.
pub type PrioritizedReplayBuffer = Buffer<Prioritized>;

/// A buffer that draws windows of consecutive rows.
pub type SequenceReplayBuffer = Buffer<Sequences>;

impl<S: Sampler + ?Sized> Buffer<S> {
    /// Makes an empty buffer; see [`MemoryRows::new`].
    ///
    /// # Errors
    /// Same as [`MemoryRows::new`].
    pub fn new(
        schema: Schema,
        capacity: usize,
        n_envs: usize,
        seed: u64,
        sampler: impl Into<Box<S>>,
    ) -> Result<Self> {
        let rows = MemoryRows::new(schema, capacity, n_envs)?;
        let held = Saveable { rows, state: SamplerState::new(seed), archive: Archive::default() };
        Ok(Self { held, sampler: sampler.into(), pushed: Vec::new() })
    }

    /// Returns the sampler.
    #[must_use]
    pub const fn sampler(&self) -> &S {
        &self.sampler
    }

    /// Stores rows with their priorities, `[n]`.
    ///
    /// Without priorities, each row gets the largest one set so far. Samplers without priorities
    /// ignore them.
    ///
    /// # Errors
    /// Same as [`MemoryRows::push`], and nothing is stored then. Also the errors of
    /// [`Sampler::pushed`].
    pub fn push(
        &mut self,
        to: EnvIndex<'_>,
        rows: Transitions<'_>,
        priorities: Option<&[f64]>,
    ) -> Result<()> {
        if !self.sampler.follows() {
            return self.held.rows.push(to, rows, |_, _| {});
        }
        if let Some(priorities) = priorities {
            check_len("priorities", priorities.len(), rows.n, "one per row")?;
            check_priorities(priorities)?;
        }
        let Self { held: Saveable { rows: held, .. }, sampler, pushed } = self;
        held.check(to, &rows)?;
        pushed.clear();
        let long = held.is_long(to, rows.n);
        held.all_or_nothing(long, |held| {
            held.push_checked(to, &rows, &mut |at, row| pushed.push((at, row)))?;
            let mut told = || sampler.pushed(held.rings(), pushed, priorities);
            if long { told() } else { interrupt::uninterrupted(told) }
        })
    }

    /// Draws the batches of `request`.
    ///
    /// # Errors
    /// The errors of [`Request::rows`] and of the sampler, and
    /// [`Error::Config`](crate::Error::Config) if the buffer is empty.
    pub fn sample(&self, request: Request) -> Result<Drawn> {
        request.draw(&*self.sampler, self.rows().rings(), &self.held.state, |_, _, _| Ok(()))
    }

    /// Same as [`Buffer::sample`], and also draws which rows are relabelled.
    ///
    /// # Errors
    /// Same as [`Buffer::sample`].
    pub fn sample_hindsight(&self, request: Request, hindsight: Hindsight) -> Result<Drawn> {
        let rings = self.rows().rings();
        request.draw(&*self.sampler, rings, &self.held.state, |rng, place, drawn| {
            hindsight.relabel(rings, rng, place, drawn)
        })
    }

    /// Copies rows into `out`, as they are or as n-step windows.
    ///
    /// # Errors
    /// Same as [`Rows::gather`].
    pub fn gather(
        &self,
        rows: &[RowRef],
        n_step: Option<NStep>,
        out: &mut Batch<'_, '_>,
    ) -> Result<()> {
        match n_step {
            Some(n_step) => n_step.gather(self.rows(), rows, out),
            None => Rows::gather(self.rows(), rows, rows, out),
        }
    }

    /// Sets new priorities of rows by index. Skips rows that have left the buffer and returns their
    /// number.
    ///
    /// # Errors
    /// Same as [`Sampler::updated`]. Nothing is changed then.
    pub fn update_priorities(&mut self, indices: &[u64], priorities: &[f64]) -> Result<usize> {
        self.sampler.updated(self.held.rows.rings(), indices, priorities)
    }

    /// Writes values into a column; see [`MemoryRows::update`].
    ///
    /// # Errors
    /// Same as [`MemoryRows::update`].
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        self.held.rows.update(column, indices, values)
    }

    /// Ends the current episode of an environment; see [`MemoryRows::cut_episode`].
    ///
    /// # Errors
    /// Same as [`MemoryRows::cut_episode`].
    pub fn cut_episode(&mut self, env: usize) -> Result<()> {
        self.held.rows.cut_episode(env)
    }

    /// Removes every row. The count of indices continues.
    pub fn clear(&mut self) {
        self.held.rows.clear();
        self.sampler.cleared();
    }
}

impl PrioritizedReplayBuffer {
    /// Sets beta.
    ///
    /// # Errors
    /// Same as [`Priorities::set_beta`](super::Priorities::set_beta).
    pub fn set_beta(&mut self, beta: f64) -> Result<()> {
        self.sampler.priorities.set_beta(beta)
    }
}

impl<S: Sampler + ?Sized> InMemory for Buffer<S> {
    fn held(&self) -> &Saveable {
        &self.held
    }

    fn held_mut(&mut self) -> &mut Saveable {
        &mut self.held
    }

    fn own_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)> {
        self.sampler.saved()
    }

    fn adopt(&mut self, held: Saveable, columns: &Columns<'_>) -> Result<()> {
        self.sampler.restore(held.rows.rings(), columns)?;
        self.held = held;
        Ok(())
    }
}
