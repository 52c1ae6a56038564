//! Draws rows in proportion to their priority; see [`Priorities`].

use super::priorities::Priorities;
use super::rng::SampleRng;
use super::rule::{BatchShape, Draws, Sampler};
use crate::buffer::rows::{Rings, RowRef};
use crate::error::{Error, Result};

/// Draws in proportion to priority^alpha, with importance weights.
#[derive(Debug, Clone)]
pub struct Prioritized {
    pub(in crate::buffer) priorities: Priorities,
    stratified: bool,
}

impl Prioritized {
    /// Makes a sampler for `capacity` rows; see [`Priorities::new`].
    ///
    /// With `stratified`, a batch of B rows is drawn as one point in each of B equal parts of the sum
    /// of priorities (Schaul et al. 2016, appendix B.2.1). Each row has the same expected count as with
    /// independent draws, with less variance.
    ///
    /// # Errors
    /// Same as [`Priorities::new`].
    pub fn new(capacity: usize, alpha: f64, beta: f64, stratified: bool) -> Result<Self> {
        Ok(Self { priorities: Priorities::new(capacity, alpha, beta)?, stratified })
    }

    /// Returns the priorities.
    #[must_use]
    pub const fn priorities(&self) -> &Priorities {
        &self.priorities
    }
}

impl Sampler for Prioritized {
    fn draw(&self, rings: &Rings, shape: BatchShape, rng: &mut SampleRng, draws: &mut Draws) -> Result<()> {
        let first = draws.weights.len();
        draws.weights.resize(first + shape.size, 0.0);
        let weights = draws.weights.get_mut(first..).unwrap_or_default();
        for leaf in self.priorities.sample(self.stratified, rng, weights)? {
            let missing = || Error::internal(format!("priority {leaf} has no row"));
            draws.rows.push(row_of(rings, leaf).ok_or_else(missing)?);
        }
        Ok(())
    }

    fn tracks_rows(&self) -> bool {
        true
    }

    fn on_push(&mut self, rings: &Rings, rows: &[(usize, RowRef)], priorities: Option<&[f64]>) -> Result<()> {
        self.priorities.insert(rows.iter().map(|&(index, row)| (index, leaf_of(rings, row))), priorities)
    }

    fn update_priorities(&mut self, rings: &Rings, indices: &[u64], priorities: &[f64]) -> Result<usize> {
        let slot_of = |index| Ok(rings.find_for_update(index)?.map(|row| leaf_of(rings, row)));
        self.priorities.update(indices, priorities, slot_of)
    }

    fn on_clear(&mut self) {
        self.priorities.clear();
    }

    fn saved_columns(&self) -> Vec<(&'static str, usize, Vec<u8>)> {
        let (tree, max_priority) = self.priorities.state();
        let exponents = [self.priorities.alpha(), self.priorities.beta(), max_priority];
        let bytes = |values: &[f64]| values.iter().flat_map(|x| x.to_le_bytes()).collect();
        vec![("tree", 8, bytes(&tree)), ("exponents", 8, bytes(&exponents))]
    }

    /// Restores the priorities and beta.
    ///
    /// Returns [`Error::Snapshot`] if alpha differs, or if a priority belongs to a row that is not
    /// there.
    fn restore(&mut self, rings: &Rings, column: &dyn Fn(&'static str) -> Result<Vec<u8>>) -> Result<()> {
        let floats = |name| -> Result<Vec<f64>> {
            let bytes = column(name)?;
            Ok(bytes.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect())
        };
        let [alpha, beta, max_priority] = floats("exponents")?
            .try_into()
            .map_err(|all: Vec<f64>| Error::snapshot("exponents", format!("{} numbers", all.len()), "3"))?;
        if alpha.to_bits() != self.priorities.alpha().to_bits() {
            return Err(Error::snapshot("alpha", alpha, self.priorities.alpha()));
        }
        let tree = floats("tree")?;
        let mut priorities = Priorities::new(rings.capacity(), alpha, beta)?;
        priorities.restore(&tree, max_priority)?;
        let is_stray = |&(leaf, &weight): &(usize, &f64)| weight > 0.0 && row_of(rings, leaf).is_none();
        if let Some((leaf, _)) = tree.iter().enumerate().find(is_stray) {
            return Err(Error::snapshot("tree", format!("place {leaf} without a row"), "a row"));
        }
        self.priorities = priorities;
        Ok(())
    }
}

/// Returns the leaf of a row in the tree of priorities. It depends only on the row's index, so that
/// a restored buffer draws the same rows.
#[expect(clippy::cast_possible_truncation, reason = "less than the capacity")]
fn leaf_of(rings: &Rings, row: RowRef) -> usize {
    let offset = row.position.checked_rem(rings.capacity as u64).unwrap_or(0);
    row.env as usize * rings.capacity + offset as usize
}

/// Returns the row of a leaf. None if the leaf is empty.
fn row_of(rings: &Rings, leaf: usize) -> Option<RowRef> {
    let capacity = rings.capacity;
    // Divisions are a large part of a draw's cost and rarely needed.
    let (env, offset) =
        if leaf < capacity { (0, leaf) } else { (leaf.checked_div(capacity)?, leaf % capacity) };
    let ring = rings.by_env.get(env)?;
    let first = ring.start - ring.start.checked_rem(capacity as u64)? + offset as u64;
    let position = if first < ring.start { first + capacity as u64 } else { first };
    (position < ring.n_pushed).then(|| rings.row(env, position))
}
