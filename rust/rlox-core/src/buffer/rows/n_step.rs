//! n-step returns over stored rows.

use super::layout::TERMINATED;
use super::{RowRef, Rows};
use crate::buffer::batch::{Batch, write_floats};
use crate::buffer::schema::Schema;
use crate::error::{Error, Result};
use crate::interrupt::CheckPace;

/// Length and discount factor of n-step returns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NStep {
    n: usize,
    gamma: f64,
}

/// The n-step window of a row.
struct Window {
    last: RowRef,
    /// Discounted sum of the rewards.
    discounted_sum: f64,
    /// Discount of the value after the last row; 0 after a terminal state.
    discount: f64,
}

impl NStep {
    /// Makes an n-step return of `n` steps with discount factor `gamma`.
    ///
    /// # Errors
    /// [`Error::Config`] unless `n` is in 1 to 65,536 and `gamma` in [0, 1].
    pub fn new(n: usize, gamma: f64) -> Result<Self> {
        if !(1..=65_536).contains(&n) {
            return Err(Error::config("n_step", n, "1 to 65536"));
        }
        if !(0.0..=1.0).contains(&gamma) {
            return Err(Error::config("gamma", gamma, "a number in [0, 1]"));
        }
        Ok(Self { n, gamma })
    }

    /// Copies `rows` into `out` as n-step windows.
    ///
    /// The observation, the columns and the index are those of the first row. The next observation
    /// and the flags are those of the last row. Rewards are R = sum_{k<m} gamma^k r_{t+k}, summed
    /// in f64, and `discounts` are gamma^m (1 - terminated).
    ///
    /// m is n, or less if the episode ends or the newest row comes first. So
    /// R + discount V(next_obs) is always a valid target (Sutton & Barto 2018, equation 7.1).
    ///
    /// # Errors
    /// Same as [`Rows::gather`].
    pub fn gather(self, all_rows: &impl Rows, rows: &[RowRef], out: &mut Batch<'_, '_>) -> Result<()> {
        let (mut windows, mut pace) = (Vec::with_capacity(rows.len()), CheckPace::default());
        for &row in rows {
            pace.spend(self.n)?;
            windows.push(self.window(all_rows, row)?);
        }
        let last: Vec<RowRef> = windows.iter().map(|window| window.last).collect();
        all_rows.gather(rows, &last, out)?;
        if let Some(rewards) = out.columns.get_mut(Schema::REWARDS) {
            write_floats(rewards, windows.iter().map(|window| window.discounted_sum));
        }
        write_floats(out.discounts, windows.iter().map(|window| window.discount));
        Ok(())
    }

    fn window(self, all_rows: &impl Rows, row: RowRef) -> Result<Window> {
        let end = all_rows.rings().ring(row)?.episode(row.position).1;
        let mut window = Window { last: row, discounted_sum: 0.0, discount: 0.0 };
        let mut factor = 1.0;
        all_rows.visit_rewards(row, end.min(row.position + self.n as u64), &mut |row, reward, flags| {
            window.discounted_sum += factor * reward;
            factor *= self.gamma;
            window.last = row;
            window.discount = if flags & TERMINATED == 0 { factor } else { 0.0 };
            flags == 0
        })?;
        Ok(window)
    }
}
