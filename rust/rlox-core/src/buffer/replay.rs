//! Replay buffers in memory: rows and a sampler that draws them.

use super::batch::Batch;
use super::persist::{Archive, BufferStorage, ColumnReader, InMemoryBuffer};
use super::rows::{EnvIndex, MemoryRows, NStep, RowRef, Rows, Transitions};
use super::sampling::{
    Draws, Hindsight, Prioritized, SampleRequest, Sampler, SamplerState, Sequences, check_priorities,
};
use super::schema::Schema;
use crate::error::{Result, check_len};
use crate::interrupt;

/// A ring of transitions with the sampler `S`. New rows overwrite the oldest.
#[derive(Debug)]
pub struct Buffer<S: ?Sized> {
    storage: BufferStorage,
    sampler: Box<S>,
    /// Rows of the current push, for samplers that track rows.
    pushed_rows: Vec<(usize, RowRef)>,
}

/// A buffer whose sampler has no settings; see [`sampler_by_name`](super::sampler_by_name).
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
        let storage =
            BufferStorage { rows, sampler_state: SamplerState::new(seed), archive: Archive::default() };
        Ok(Self { storage, sampler: sampler.into(), pushed_rows: Vec::new() })
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
    /// [`Sampler::on_push`].
    pub fn push(
        &mut self,
        env_index: EnvIndex<'_>,
        rows: Transitions<'_>,
        priorities: Option<&[f64]>,
    ) -> Result<()> {
        if !self.sampler.tracks_rows() {
            return self.storage.rows.push(env_index, rows, |_, _| {});
        }
        if let Some(priorities) = priorities {
            check_len("priorities", priorities.len(), rows.n, "one per row")?;
            check_priorities(priorities)?;
        }
        let Self { storage: BufferStorage { rows: held, .. }, sampler, pushed_rows: pushed } = self;
        held.check(env_index, &rows)?;
        pushed.clear();
        let is_long = held.is_long(env_index, rows.n);
        held.all_or_nothing(is_long, |held| {
            held.push_checked(env_index, &rows, &mut |index, row| pushed.push((index, row)))?;
            let mut notify = || sampler.on_push(held.rings(), pushed, priorities);
            if is_long { notify() } else { interrupt::uninterruptible(notify) }
        })
    }

    /// Draws the batches of `request`.
    ///
    /// # Errors
    /// The errors of [`SampleRequest::rows`] and of the sampler, and
    /// [`Error::Config`](crate::Error::Config) if the buffer is empty.
    pub fn sample(&self, request: SampleRequest) -> Result<Draws> {
        request.draw(&*self.sampler, self.rows().rings(), &self.storage.sampler_state, |_, _, _| Ok(()))
    }

    /// Same as [`Buffer::sample`], and also draws which rows are relabelled.
    ///
    /// # Errors
    /// Same as [`Buffer::sample`].
    pub fn sample_hindsight(&self, request: SampleRequest, hindsight: Hindsight) -> Result<Draws> {
        let rings = self.rows().rings();
        request.draw(&*self.sampler, rings, &self.storage.sampler_state, |rng, batch_start, draws| {
            hindsight.relabel(rings, rng, batch_start, draws)
        })
    }

    /// Copies rows into `out`, as they are or as n-step windows.
    ///
    /// # Errors
    /// Same as [`Rows::gather`].
    pub fn gather(&self, rows: &[RowRef], n_step: Option<NStep>, out: &mut Batch<'_, '_>) -> Result<()> {
        match n_step {
            Some(n_step) => n_step.gather(self.rows(), rows, out),
            None => Rows::gather(self.rows(), rows, rows, out),
        }
    }

    /// Sets new priorities of rows by index. Skips rows that have left the buffer and returns their
    /// number.
    ///
    /// # Errors
    /// Same as [`Sampler::update_priorities`]. Nothing is changed then.
    pub fn update_priorities(&mut self, indices: &[u64], priorities: &[f64]) -> Result<usize> {
        self.sampler.update_priorities(self.storage.rows.rings(), indices, priorities)
    }

    /// Writes values into a column; see [`MemoryRows::update`].
    ///
    /// # Errors
    /// Same as [`MemoryRows::update`].
    pub fn update(&mut self, column: usize, indices: &[u64], values: &[u8]) -> Result<u64> {
        self.storage.rows.update(column, indices, values)
    }

    /// Ends the current episode of an environment; see [`MemoryRows::cut_episode`].
    ///
    /// # Errors
    /// Same as [`MemoryRows::cut_episode`].
    pub fn cut_episode(&mut self, env: usize) -> Result<()> {
        self.storage.rows.cut_episode(env)
    }

    /// Removes every row. The indices of new rows continue from the old ones.
    pub fn clear(&mut self) {
        self.storage.rows.clear();
        self.sampler.on_clear();
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

impl<S: Sampler + ?Sized> InMemoryBuffer for Buffer<S> {
    fn storage(&self) -> &BufferStorage {
        &self.storage
    }

    fn storage_mut(&mut self) -> &mut BufferStorage {
        &mut self.storage
    }

    fn saved_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)> {
        self.sampler.saved_columns()
    }

    fn adopt(&mut self, storage: BufferStorage, columns: &ColumnReader<'_>) -> Result<()> {
        self.sampler.restore(storage.rows.rings(), columns)?;
        self.storage = storage;
        Ok(())
    }
}
