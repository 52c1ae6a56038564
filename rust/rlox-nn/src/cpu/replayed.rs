//! Batches of replayed transitions, which an engine learns from one after the other.

use rlox_core::error::{Error, Result, check_len};
use rlox_core::interrupt;

/// The columns of k batches of `rows` transitions each.
#[derive(Debug, Clone, Copy)]
pub struct Batches<'a, F, A> {
    /// The rows of a batch.
    pub rows: usize,
    /// o, `[k, rows, obs_dim]`.
    pub obs: &'a [F],
    /// a: choices `[k, rows]`, or vectors `[k, rows, action_dim]`.
    pub actions: &'a [A],
    /// The discounted sum of the rewards of an n-step window, `[k, rows]`.
    pub rewards: &'a [F],
    /// The observation after the window, `[k, rows, obs_dim]`.
    pub next_obs: &'a [F],
    /// gamma^m for a window of m steps, 0 if it ended in termination, `[k, rows]`.
    pub discounts: &'a [F],
    /// The weight of each row, `[k, rows]`; None: all are 1.
    pub weights: Option<&'a [F]>,
}

impl<F: Copy, A> Batches<'_, F, A> {
    /// Checks the columns' lengths and returns the number of batches. `errors` is the length of the
    /// errors' column.
    pub(super) fn check(&self, action_dim: usize, errors: usize) -> Result<usize> {
        let n = self.rewards.len();
        if n == 0 || self.rows == 0 {
            return Err(Error::config("rows of a batch", 0, "at least 1"));
        }
        let width = self.obs.len() / n;
        for (name, len, expected) in [
            ("rewards", n, n / self.rows * self.rows),
            ("obs", self.obs.len(), n * width),
            ("next_obs", self.next_obs.len(), n * width),
            ("actions", self.actions.len(), n * action_dim),
            ("discounts", self.discounts.len(), n),
            ("weights", self.weights.map_or(n, <[F]>::len), n),
            ("errors", errors, n),
        ] {
            check_len(name, len, expected, "one row for each of the rewards, in whole batches")?;
        }
        Ok(n / self.rows)
    }

    /// Returns batch i of `count`.
    pub(super) fn batch(&self, i: usize, count: usize) -> Self {
        Self {
            rows: self.rows,
            obs: part(self.obs, i, count),
            actions: part(self.actions, i, count),
            rewards: part(self.rewards, i, count),
            next_obs: part(self.next_obs, i, count),
            discounts: part(self.discounts, i, count),
            weights: self.weights.map(|weights| part(weights, i, count)),
        }
    }
}

/// Returns part i of `count` equal parts.
pub(super) fn part<T>(column: &[T], i: usize, count: usize) -> &[T] {
    let width = column.len() / count.max(1);
    column.get(i * width..(i + 1) * width).unwrap_or_default()
}

/// Takes `step` for each of `count` batches. `step` gets the number of a batch and returns its results.
/// Returns their means over the batches.
///
/// # Errors
/// [`Error::Interrupted`] and those of `step`. Earlier steps keep their effect.
pub(super) fn learn_batches<const N: usize>(
    count: usize,
    mut step: impl FnMut(usize) -> Result<[f64; N]>,
) -> Result<[f64; N]> {
    let mut sums = [0.0; N];
    for i in 0..count {
        interrupt::check()?;
        for (sum, number) in sums.iter_mut().zip(step(i)?) {
            *sum += number;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "batches of a training")]
    let n = count.max(1) as f64;
    Ok(sums.map(|sum| sum / n))
}
