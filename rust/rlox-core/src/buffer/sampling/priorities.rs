//! Proportional prioritization of buffer slots (Schaul et al. 2016, "Prioritized Experience
//! Replay").

use super::rng::SampleRng;
use super::sum_tree::SumTree;
use crate::error::{Error, Result};
use crate::interrupt::{self, CheckPace};

/// Number of slots that are drawn between two checks for interruption.
const PIECE: usize = 1 << 14;

/// The largest valid priority. A sum of 10^9 of them is finite.
const MAX_PRIORITY: f64 = 1e100;

/// Priorities of a buffer's slots.
///
/// Slot i is drawn with probability P(i) = `p_i` / sum of p, where `p_i` = priority^alpha
/// (0^0 = 1). A slot of priority 0 is not drawn if alpha > 0. The weight of a slot is (N
/// P(i))^-beta, divided by the largest weight of any slot that can be drawn. It equals (`p_min` /
/// `p_i`)^beta (equation 1 and section 3.4).
#[derive(Debug, Clone, PartialEq)]
pub struct Priorities {
    tree: SumTree,
    alpha: f64,
    beta: f64,
    /// The largest priority that was ever set, 1 at first. A row without a priority gets it.
    max: f64,
}

impl Priorities {
    /// Makes the priorities of `capacity` slots, which are all empty.
    ///
    /// # Errors
    /// [`Error::Config`] if `capacity` is 0 or too large, or if `alpha` or `beta` is not in [0, 1].
    pub fn new(capacity: usize, alpha: f64, beta: f64) -> Result<Self> {
        check_exponent("alpha", alpha)?;
        check_exponent("beta", beta)?;
        Ok(Self { tree: SumTree::new(capacity)?, alpha, beta, max: 1.0 })
    }

    /// Returns the exponent of the priorities.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Returns the exponent of the importance weights.
    #[must_use]
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// Sets beta.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not in [0, 1].
    pub fn set_beta(&mut self, beta: f64) -> Result<()> {
        check_exponent("beta", beta)?;
        self.beta = beta;
        Ok(())
    }

    /// Returns the priority of rows that are pushed without one: the largest one set so far, 1 at
    /// first.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Returns the tree of p = priority^alpha.
    #[must_use]
    pub fn tree(&self) -> &SumTree {
        &self.tree
    }

    /// Sets the priorities of new rows. Each item of `rows` is an index and a slot.
    ///
    /// The row gets the priority at that index, or [`Priorities::max`] if there are no
    /// `priorities`. Priorities of rows that were overwritten in the same push also count for the
    /// largest one.
    ///
    /// # Errors
    /// Nothing is changed if there is an error.
    /// - [`Error::Config`] if a priority is not in [0, 1e100] or a slot does not exist.
    /// - [`Error::NonFinite`] if a priority is not finite.
    /// - [`Error::Interrupted`].
    pub fn insert(
        &mut self,
        mut rows: impl ExactSizeIterator<Item = (usize, usize)>,
        priorities: Option<&[f64]>,
    ) -> Result<()> {
        let values = priorities.unwrap_or_default();
        check_all(values)?;
        let max = self.max;
        let priority = |at: usize| values.get(at).copied().unwrap_or(max);
        if rows.len() == 1 {
            let set = |(at, slot)| self.tree.set(slot, priority(at).powf(self.alpha));
            rows.next().map_or(Ok(()), set)?;
        } else {
            self.set_all(rows.map(|(at, slot)| (Ok(Some(slot)), priority(at))))?;
        }
        self.max = values.iter().copied().fold(max, f64::max);
        Ok(())
    }

    /// Empties every slot. The largest priority set so far stays.
    pub fn clear(&mut self) {
        self.tree.clear();
    }

    /// Sets the priorities of rows.
    ///
    /// `slot_of` maps each index to its slot, or to `None` if the row has left the buffer. Such
    /// rows are skipped. Returns their number.
    ///
    /// # Errors
    /// Nothing is changed if there is an error.
    /// - [`Error::Shape`] if the lengths differ.
    /// - [`Error::Config`] if a priority is not in [0, 1e100].
    /// - [`Error::NonFinite`] if a priority is not finite.
    /// - The errors of `slot_of`.
    /// - [`Error::Interrupted`].
    pub fn update(
        &mut self,
        indices: &[u64],
        priorities: &[f64],
        slot_of: impl Fn(u64) -> Result<Option<usize>>,
    ) -> Result<usize> {
        crate::error::check_len("priorities", priorities.len(), indices.len(), "one per index")?;
        check_all(priorities)?;
        let slots = indices.iter().map(|&index| slot_of(index));
        self.set_all(slots.zip(priorities.iter().copied()))
    }

    /// Sets the priorities of slots. Returns the number of rows without a slot.
    fn set_all(&mut self, rows: impl Iterator<Item = (Result<Option<usize>>, f64)>) -> Result<usize> {
        let count = rows.size_hint().0;
        let (mut slots, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut max_priority, mut n_skipped, mut pace) = (self.max, 0, CheckPace::default());
        for (slot, priority) in rows {
            pace.spend(1)?;
            let Some(slot) = slot? else {
                n_skipped += 1;
                continue;
            };
            slots.push(slot);
            weights.push(self.weight(priority));
            max_priority = max_priority.max(priority);
        }
        self.tree.set_many(&slots, &weights)?;
        self.max = max_priority;
        Ok(n_skipped)
    }

    /// Draws `weights.len()` slots with replacement and writes their importance weights.
    ///
    /// With `stratified`, the sum is divided into that many equal parts, and one point is drawn in
    /// each. The draws depend only on the priorities, the random stream and the batch size.
    ///
    /// # Errors
    /// [`Error::Config`] if no slot can be drawn, and [`Error::Interrupted`].
    pub fn sample(&self, stratified: bool, rng: &mut SampleRng, weights: &mut [f64]) -> Result<Vec<usize>> {
        let (total, min_weight) = (self.tree.total(), self.tree.min());
        if total <= 0.0 {
            return Err(Error::config(
                "buffer",
                "without a row of positive priority",
                "at least one row to sample from; push first",
            ));
        }
        #[expect(clippy::cast_precision_loss, reason = "batches are far smaller than 2^53")]
        let size = weights.len() as f64;
        let (mut n_drawn, mut all_slots) = (0.0, Vec::with_capacity(weights.len()));
        let (mut points, mut slots) = (Vec::new(), Vec::new());
        for weights in weights.chunks_mut(PIECE) {
            interrupt::check()?;
            points.clear();
            points.extend(weights.iter().map(|_| {
                let unit = rng.uniform();
                n_drawn += 1.0;
                if stratified { (n_drawn - 1.0 + unit) / size * total } else { unit * total }
            }));
            self.tree.find_many(&mut points, &mut slots);
            for (weight, &slot) in weights.iter_mut().zip(&slots) {
                *weight = importance(min_weight, self.tree.get(slot), self.beta);
            }
            all_slots.append(&mut slots);
        }
        Ok(all_slots)
    }

    /// Returns priority^alpha.
    fn weight(&self, priority: f64) -> f64 {
        priority.powf(self.alpha)
    }

    /// Returns the values to save: p = priority^alpha of every slot, and the largest priority.
    #[must_use]
    pub fn state(&self) -> (Vec<f64>, f64) {
        ((0..self.tree.len()).map(|slot| self.tree.get(slot)).collect(), self.max)
    }

    /// Restores values of [`Priorities::state`].
    ///
    /// # Errors
    /// Nothing is changed if there is an error.
    /// - [`Error::Shape`] if the capacity differs.
    /// - [`Error::Config`] or [`Error::NonFinite`] for numbers that no state can have.
    pub fn restore(&mut self, weights: &[f64], max_priority: f64) -> Result<()> {
        crate::error::check_len("priorities", weights.len(), self.tree.len(), "the capacity")?;
        check_priority(0, max_priority)?;
        let slots: Vec<usize> = (0..weights.len()).collect();
        self.tree.set_many(&slots, weights)?;
        self.max = max_priority;
        Ok(())
    }
}

/// Returns the importance weight of a slot, which is 1 for the least likely slot.
fn importance(min_weight: f64, p: f64, beta: f64) -> f64 {
    if p > 0.0 { (min_weight / p).powf(beta) } else { 0.0 }
}

fn check_exponent(name: &'static str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::config(name, value, "a number in [0, 1]"))
}

/// Checks that every number is a valid priority.
pub(in crate::buffer) fn check_all(priorities: &[f64]) -> Result<()> {
    priorities.iter().enumerate().try_for_each(|(at, &priority)| check_priority(at, priority))
}

fn check_priority(index: usize, priority: f64) -> Result<()> {
    if !priority.is_finite() {
        return Err(Error::NonFinite { name: "priorities".into(), index, value: priority });
    }
    if (0.0..=MAX_PRIORITY).contains(&priority) {
        return Ok(());
    }
    let expected = "a number in [0, 1e100]; pass magnitudes of errors, such as abs(td_error)";
    Err(Error::config("priority", priority, expected))
}
