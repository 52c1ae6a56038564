//! Proportional prioritization of buffer slots: Schaul et al. 2016, "Prioritized Experience Replay".

use super::rng::SampleRng;
use super::sum_tree::SumTree;
use crate::error::{Error, Result};
use crate::interrupt::{self, Pace};

/// Rows drawn between two questions whether to stop.
const PIECE: usize = 1 << 14;

/// Largest priority accepted: sums of 10^9 of them stay finite.
const MAX_PRIORITY: f64 = 1e100;

/// Priorities of a buffer's slots.
///
/// Slot i is drawn with probability P(i) = `p_i` / sum of p, where `p_i` = priority^alpha (0^0 = 1); a
/// slot of priority 0 is not drawn if alpha > 0. Its weight is (N P(i))^-beta, divided by the largest
/// weight any drawable slot of the buffer has, which is (`p_min` / `p_i`)^beta (eq. 1 and section 3.4).
#[derive(Debug, Clone, PartialEq)]
pub struct Priorities {
    tree: SumTree,
    alpha: f64,
    beta: f64,
    /// Largest priority ever set, 1 at first: what a row gets that comes without one.
    max: f64,
}

impl Priorities {
    /// Priorities of `capacity` slots, all empty.
    ///
    /// # Errors
    /// [`Error::Config`] if `capacity` is 0 or too large, or `alpha` or `beta` not in [0, 1].
    pub fn new(capacity: usize, alpha: f64, beta: f64) -> Result<Self> {
        check_exponent("alpha", alpha)?;
        check_exponent("beta", beta)?;
        Ok(Self { tree: SumTree::new(capacity)?, alpha, beta, max: 1.0 })
    }

    /// The exponent of the priorities.
    #[must_use]
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// The exponent of the importance weights.
    #[must_use]
    pub fn beta(&self) -> f64 {
        self.beta
    }

    /// Replaces beta.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not in [0, 1].
    pub fn set_beta(&mut self, beta: f64) -> Result<()> {
        check_exponent("beta", beta)?;
        self.beta = beta;
        Ok(())
    }

    /// The priority that a row gets without one: the largest set so far, 1 at first.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The tree of p = priority^alpha.
    #[must_use]
    pub fn tree(&self) -> &SumTree {
        &self.tree
    }

    /// Sets the priorities of rows that came into slots, `rows` of number and slot, in their order: that
    /// of the number, or [`Priorities::max`] without `priorities`. Those of rows that came and left
    /// count for the largest.
    ///
    /// # Errors
    /// [`Error::Config`] for a priority not in [0, 1e100] or a slot that is not there,
    /// [`Error::Interrupted`]. Nothing is changed then.
    pub fn insert(
        &mut self,
        mut rows: impl ExactSizeIterator<Item = (usize, usize)>,
        priorities: Option<&[f64]>,
    ) -> Result<()> {
        let all = priorities.unwrap_or_default();
        check_all(all)?;
        let max = self.max;
        let priority = |at: usize| all.get(at).copied().unwrap_or(max);
        if rows.len() == 1 {
            let set = |(at, slot)| self.tree.set(slot, priority(at).powf(self.alpha));
            rows.next().map_or(Ok(()), set)?;
        } else {
            self.set_all(rows.map(|(at, slot)| (Ok(Some(slot)), priority(at))))?;
        }
        self.max = all.iter().copied().fold(max, f64::max);
        Ok(())
    }

    /// Takes every row out; the largest priority seen stays.
    pub fn clear(&mut self) {
        self.tree.clear();
    }

    /// Sets the priorities of rows. `slot_of` maps each index to its slot, or to `None` if the row is
    /// gone, which leaves it out. Returns how many were left out.
    ///
    /// # Errors
    /// [`Error::Shape`] if the lengths differ, [`Error::Config`] for a priority not in [0, 1e100],
    /// those of `slot_of`, [`Error::Interrupted`]. Nothing is changed then.
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

    /// Sets the priorities of slots; returns how many had none.
    fn set_all(
        &mut self,
        rows: impl Iterator<Item = (Result<Option<usize>>, f64)>,
    ) -> Result<usize> {
        let count = rows.size_hint().0;
        let (mut slots, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut most, mut gone, mut pace) = (self.max, 0, Pace::default());
        for (slot, priority) in rows {
            pace.spend(1)?;
            let Some(slot) = slot? else {
                gone += 1;
                continue;
            };
            slots.push(slot);
            weights.push(self.weight(priority));
            most = most.max(priority);
        }
        self.tree.set_many(&slots, &weights)?;
        self.max = most;
        Ok(gone)
    }

    /// Draws `weights.len()` slots with replacement and their importance weights: `stratified`, one
    /// point in each of as many equal parts of the sum.
    ///
    /// The draws depend on the priorities, the stream and the batch size only.
    ///
    /// # Errors
    /// [`Error::Config`] if no slot can be drawn, [`Error::Interrupted`].
    pub fn sample(
        &self,
        stratified: bool,
        rng: &mut SampleRng,
        weights: &mut [f64],
    ) -> Result<Vec<usize>> {
        let (total, least) = (self.tree.total(), self.tree.min());
        if total <= 0.0 {
            return Err(Error::config(
                "buffer",
                "without a row of positive priority",
                "at least one row to sample from; push first",
            ));
        }
        #[expect(clippy::cast_precision_loss, reason = "batches are far smaller than 2^53")]
        let size = weights.len() as f64;
        let (mut part, mut all) = (0.0, Vec::with_capacity(weights.len()));
        let (mut points, mut slots) = (Vec::new(), Vec::new());
        for weights in weights.chunks_mut(PIECE) {
            interrupt::check()?;
            points.clear();
            points.extend(weights.iter().map(|_| {
                let unit = rng.uniform();
                part += 1.0;
                if stratified { (part - 1.0 + unit) / size * total } else { unit * total }
            }));
            self.tree.find_many(&mut points, &mut slots);
            for (weight, &slot) in weights.iter_mut().zip(&slots) {
                *weight = importance(least, self.tree.get(slot), self.beta);
            }
            all.append(&mut slots);
        }
        Ok(all)
    }

    /// priority^alpha.
    fn weight(&self, priority: f64) -> f64 {
        priority.powf(self.alpha)
    }

    /// The p = priority^alpha of every slot and the largest priority, to be saved.
    #[must_use]
    pub fn state(&self) -> (Vec<f64>, f64) {
        ((0..self.tree.len()).map(|slot| self.tree.get(slot)).collect(), self.max)
    }

    /// Continues from a saved [`Priorities::state`].
    ///
    /// # Errors
    /// [`Error::Shape`] for another capacity, [`Error::Config`] for numbers that no state holds.
    /// Nothing is changed then.
    pub fn restore(&mut self, weights: &[f64], most: f64) -> Result<()> {
        crate::error::check_len("priorities", weights.len(), self.tree.len(), "the capacity")?;
        check_priority(0, most)?;
        let slots: Vec<usize> = (0..weights.len()).collect();
        self.tree.set_many(&slots, weights)?;
        self.max = most;
        Ok(())
    }
}

/// The importance weight of a slot: 1 for the least likely.
fn importance(least: f64, p: f64, beta: f64) -> f64 {
    if p > 0.0 { (least / p).powf(beta) } else { 0.0 }
}

fn check_exponent(name: &'static str, value: f64) -> Result<()> {
    if (0.0..=1.0).contains(&value) {
        return Ok(());
    }
    Err(Error::config(name, value, "a number in [0, 1]"))
}

/// Checks that each is a priority.
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
