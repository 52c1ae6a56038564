//! The replay buffer with prioritized draws.

use std::path::Path;

use super::archive::{Archive, Saved};
use super::draw::STREAM;
use super::priorities::{Draw, Priorities};
use super::replay::{Request, check_filled};
use super::ring::{Ring, RingBuffer};
use super::schema::Schema;
use super::state::SavedStorage;
use super::storage::{Row, Rows, Storage, Target};
use crate::error::{Error, Result, check_len};
use crate::seed::Stream;

/// A ring of transitions sampled in proportion to priority^alpha; see [`Priorities`].
#[derive(Debug)]
pub struct PrioritizedReplayBuffer {
    ring: Ring,
    priorities: Priorities,
    draw: Draw,
    /// Slots of the rows being pushed.
    pushed: Vec<Row>,
}

impl PrioritizedReplayBuffer {
    /// An empty buffer; see [`Storage::new`] and [`Priorities::new`].
    ///
    /// # Errors
    /// As those.
    pub fn new(
        schema: Schema,
        capacity: usize,
        n_envs: usize,
        seed: u64,
        (alpha, beta): (f64, f64),
        draw: Draw,
    ) -> Result<Self> {
        let ring = Ring::new(schema, capacity, n_envs, seed)?;
        let priorities = Priorities::new(ring.storage.capacity(), alpha, beta)?;
        Ok(Self { ring, priorities, draw, pushed: Vec::new() })
    }

    /// The priorities.
    #[must_use]
    pub const fn priorities(&self) -> &Priorities {
        &self.priorities
    }

    /// Replaces beta.
    ///
    /// # Errors
    /// As [`Priorities::set_beta`].
    pub fn set_beta(&mut self, beta: f64) -> Result<()> {
        self.priorities.set_beta(beta)
    }

    /// Stores rows with their priorities, `[n]`; without, each gets the largest seen so far.
    ///
    /// # Errors
    /// As [`Storage::push`] and [`Priorities::insert`]. Nothing is stored then.
    pub fn push(
        &mut self,
        target: Target<'_>,
        rows: Rows<'_>,
        priorities: Option<&[f64]>,
    ) -> Result<()> {
        if let Some(priorities) = priorities {
            check_len("priorities", priorities.len(), rows.n, "one per row")?;
            super::priorities::check_all(priorities)?;
        }
        self.pushed.clear();
        let pushed = &mut self.pushed;
        self.ring.storage.push(target, rows, |row| pushed.push(row))?;
        for (at, &row) in self.pushed.iter().enumerate() {
            let own = priorities.and_then(|all| all.get(at)).copied();
            self.priorities.insert(leaf(&self.ring.storage, row), own)?;
        }
        Ok(())
    }

    /// Draws rows with replacement, batch after batch, and writes the weight of each.
    ///
    /// # Errors
    /// [`Error::Config`] for an empty buffer or a request out of range, [`Error::Shape`] unless
    /// there is one weight per row.
    pub fn sample(&self, request: Request, weights: &mut [f64]) -> Result<Vec<Row>> {
        let count = request.rows()?;
        check_len("weights", weights.len(), count, "one per row")?;
        check_filled(&self.ring.storage)?;
        let (seed, first) = self.ring.draws.take(request.seed, request.n_batches);
        let mut rows = Vec::with_capacity(count);
        let batches = weights.chunks_exact_mut(request.batch_size);
        for (batch, weights) in batches.enumerate() {
            let mut stream = Stream::new(seed, STREAM, first.wrapping_add(batch as u64));
            let slots = self.priorities.sample(self.draw, &mut stream, weights)?;
            rows.extend(slots.into_iter().filter_map(|leaf| row(&self.ring.storage, leaf)));
        }
        Ok(rows)
    }

    /// Sets the priorities of rows by index; returns how many of them are no longer held and were
    /// left out.
    ///
    /// # Errors
    /// As [`Priorities::update`]. Nothing is changed then.
    pub fn update_priorities(&mut self, indices: &[u64], priorities: &[f64]) -> Result<usize> {
        let storage = &self.ring.storage;
        let slot_of = |index| storage.held(index).map(|row| leaf(storage, row));
        self.priorities.update(indices, priorities, slot_of)
    }

    /// p = priority^alpha of each row, in the order of [`Storage::rows`].
    #[must_use]
    pub fn row_weights(&self) -> Vec<f64> {
        let place = |row| leaf(&self.ring.storage, row);
        self.ring.storage.rows().map(|row| self.priorities.tree().get(place(row))).collect()
    }

    /// Continues from a storage's state and p = priority^alpha of each of its rows, in the order of
    /// [`Storage::rows`].
    ///
    /// # Errors
    /// As [`Storage::restore`] and [`Priorities::restore`]; [`Error::Snapshot`] for another alpha.
    /// Nothing is changed then.
    pub fn restore(
        &mut self,
        saved: &SavedStorage,
        weights: &[f64],
        (alpha, beta): (f64, f64),
        most: f64,
    ) -> Result<()> {
        self.check_alpha(alpha)?;
        let mut storage = self.ring.storage.empty_copy()?;
        storage.restore(saved)?;
        check_len("priorities", weights.len(), storage.len(), "rows held")?;
        let mut tree = vec![0.0; self.priorities.tree().len()];
        for (row, &weight) in storage.rows().zip(weights) {
            if let Some(place) = tree.get_mut(leaf(&storage, row)) {
                *place = weight;
            }
        }
        self.priorities = restored_priorities(&storage, alpha, beta, most, &tree)?;
        (self.ring.storage, self.ring.archive) = (storage, Archive::default());
        Ok(())
    }

    fn check_alpha(&self, alpha: f64) -> Result<()> {
        let own = self.priorities.alpha();
        if alpha.to_bits() == own.to_bits() {
            return Ok(());
        }
        Err(Error::snapshot("alpha", alpha, own))
    }
}

impl RingBuffer for PrioritizedReplayBuffer {
    fn ring(&self) -> &Ring {
        &self.ring
    }

    fn ring_mut(&mut self) -> &mut Ring {
        &mut self.ring
    }

    /// Forgets every row and its priority; the largest priority seen stays.
    fn clear(&mut self) -> Result<()> {
        self.ring.storage.clear();
        let empty = vec![0.0; self.priorities.tree().len()];
        self.priorities.restore(&empty, self.priorities.most())
    }

    fn save(&mut self, folder: &Path, name: &str) -> Result<Saved> {
        let (tree, most) = self.priorities.state();
        let numbers = [self.priorities.alpha(), self.priorities.beta(), most];
        let bytes = |all: &[f64]| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let own = [("tree", 8, bytes(&tree)), ("exponents", 8, bytes(&numbers))];
        self.ring.save(folder, name, &own)
    }

    /// Beta becomes the saved one; [`Error::Snapshot`] for another alpha.
    fn load(&mut self, folder: &Path, name: &str) -> Result<()> {
        let restored = Archive::load(self.ring.storage.empty_copy()?, folder, name)?;
        let floats = |name| -> Result<Vec<f64>> {
            let bytes = restored.manifest.column(name)?;
            Ok(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
        };
        let [alpha, beta, most] = floats("exponents")?.try_into().map_err(|all: Vec<f64>| {
            Error::snapshot("exponents", format!("{} numbers", all.len()), "3")
        })?;
        self.check_alpha(alpha)?;
        self.priorities =
            restored_priorities(&restored.ring.storage, alpha, beta, most, &floats("tree")?)?;
        self.ring = restored.ring;
        Ok(())
    }
}

/// The place of a row among the priorities. It follows from the row's index alone, so that a
/// restored buffer draws the same rows.
#[expect(clippy::cast_possible_truncation, reason = "less than the capacity")]
fn leaf(storage: &Storage, row: Row) -> usize {
    let ahead = row.position.checked_rem(storage.capacity as u64).unwrap_or(0);
    row.stream as usize * storage.capacity + ahead as usize
}

/// The row in a place; None if it is empty.
fn row(storage: &Storage, leaf: usize) -> Option<Row> {
    let capacity = storage.capacity;
    // Divisions are a good part of a draw's cost, and mostly not needed.
    let (stream, ahead) =
        if leaf < capacity { (0, leaf) } else { (leaf.checked_div(capacity)?, leaf % capacity) };
    let state = storage.streams.get(stream)?;
    let first = state.start - state.start.checked_rem(capacity as u64)? + ahead as u64;
    let position = if first < state.start { first + capacity as u64 } else { first };
    (position < state.pushed).then(|| storage.row(stream, position))
}

/// Priorities of which none is of a row that is not there.
fn restored_priorities(
    storage: &Storage,
    alpha: f64,
    beta: f64,
    most: f64,
    tree: &[f64],
) -> Result<Priorities> {
    let mut priorities = Priorities::new(storage.capacity(), alpha, beta)?;
    priorities.restore(tree, most)?;
    let stray = |leaf: &usize| priorities.tree().get(*leaf) > 0.0 && row(storage, *leaf).is_none();
    match (0..tree.len()).find(stray) {
        Some(leaf) => Err(Error::snapshot("tree", format!("place {leaf} without a row"), "a row")),
        None => Ok(priorities),
    }
}
