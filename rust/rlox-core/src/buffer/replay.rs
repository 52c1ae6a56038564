//! The buffers in memory: rows, and a rule by which they are drawn.

use super::batch::Batch;
use super::persist::{Archive, Columns, InMemory, Saveable};
use super::rows::{EnvIndex, MemoryRows, NStep, RowRef, Rows, Transitions};
use super::sampling::{
    Drawn, Hindsight, Prioritized, Request, Sampler, SamplerState, Sequences, check_priorities,
};
use super::schema::Schema;
use crate::error::{Result, check_len};
use crate::interrupt;

/// A ring of transitions, the oldest overwritten first, drawn by the rule `S`.
#[derive(Debug)]
pub struct Buffer<S: ?Sized> {
    held: Saveable,
    sampler: Box<S>,
    /// Rows being pushed, for rules that follow them.
    pushed: Vec<(usize, RowRef)>,
}

/// Drawn by a rule that has no settings; see [`named`](super::named).
pub type ReplayBuffer = Buffer<dyn Sampler>;

/// Drawn in proportion to priority^alpha.
pub type PrioritizedReplayBuffer = Buffer<Prioritized>;

/// Drawn as windows of consecutive rows.
pub type SequenceReplayBuffer = Buffer<Sequences>;

impl<S: Sampler + ?Sized> Buffer<S> {
    /// An empty buffer; see [`MemoryRows::new`].
    ///
    /// # Errors
    /// As there.
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

    /// The rule.
    #[must_use]
    pub const fn sampler(&self) -> &S {
        &self.sampler
    }

    /// Stores rows with their priorities, `[n]`; without, each gets the largest seen so far. Rules
    /// without priorities take no notice of them.
    ///
    /// # Errors
    /// As [`MemoryRows::push`]; nothing is stored then. Those of [`Sampler::pushed`].
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

    /// Draws what `request` asks for.
    ///
    /// # Errors
    /// As [`Request::rows`] and the rule; [`Error::Config`](crate::Error::Config) for an empty buffer.
    pub fn sample(&self, request: Request) -> Result<Drawn> {
        request.draw(&*self.sampler, self.rows().rings(), &self.held.state, |_, _, _| Ok(()))
    }

    /// [`Buffer::sample`] with the rows that are to be relabelled.
    ///
    /// # Errors
    /// As there.
    pub fn sample_hindsight(&self, request: Request, hindsight: Hindsight) -> Result<Drawn> {
        let rings = self.rows().rings();
        request.draw(&*self.sampler, rings, &self.held.state, |rng, place, drawn| {
            hindsight.relabel(rings, rng, place, drawn)
        })
    }

    /// Copies rows out: as they are, or as n-step windows.
    ///
    /// # Errors
    /// As [`Rows::gather`].
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

    /// Tells the rule new priorities of rows by index; returns how many of them are no longer held and
    /// were left out.
    ///
    /// # Errors
    /// As [`Sampler::updated`]. Nothing is changed then.
    pub fn update_priorities(&mut self, indices: &[u64], priorities: &[f64]) -> Result<usize> {
        self.sampler.updated(self.held.rows.rings(), indices, priorities)
    }

    /// Writes values into a column; see [`MemoryRows::update`].
    ///
    /// # Errors
    /// As there.
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        self.held.rows.update(column, indices, values)
    }

    /// Ends the running episode of an environment; see [`MemoryRows::cut_episode`].
    ///
    /// # Errors
    /// As there.
    pub fn cut_episode(&mut self, env: usize) -> Result<()> {
        self.held.rows.cut_episode(env)
    }

    /// Forgets every row; indices go on counting.
    pub fn clear(&mut self) {
        self.held.rows.clear();
        self.sampler.cleared();
    }
}

impl PrioritizedReplayBuffer {
    /// Replaces beta.
    ///
    /// # Errors
    /// As [`Priorities::set_beta`](super::Priorities::set_beta).
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
