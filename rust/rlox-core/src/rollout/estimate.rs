//! Checks filled columns of a rollout and computes their advantages.

use super::columns::Columns;
use crate::advantage::{Discount, Ends, gae};
use crate::error::{Error, Result};

impl Columns<'_> {
    /// Checks that all numbers are finite.
    ///
    /// # Errors
    /// [`Error::NonFinite`] with the column and the index of its first number that is not finite.
    pub fn check_finite(&self) -> Result<()> {
        for (name, column) in [
            ("obs", &*self.obs),
            ("rewards", &*self.rewards),
            ("log_probs", &*self.log_probs),
            ("values", &*self.values),
            ("next_values", &*self.next_values),
        ] {
            if column.iter().fold(true, |all, value| all & value.is_finite()) {
                continue;
            }
            let first_invalid = column.iter().enumerate().find(|(_, value)| !value.is_finite());
            if let Some((index, &value)) = first_invalid {
                return Err(Error::NonFinite { name: name.into(), index, value: value.into() });
            }
        }
        Ok(())
    }

    /// Computes advantages and returns `[T, N]` of N environments (generalised advantage
    /// estimation).
    ///
    /// # Errors
    /// [`Error::Shape`] if a column does not fit; [`Error::Interrupted`].
    pub fn estimate(&self, n_envs: usize, discount: Discount, out: gae::Out<'_, f32>) -> Result<()> {
        let input = gae::TimeMajor {
            rewards: &*self.rewards,
            values: self.values.get(..self.rewards.len()).unwrap_or_default(),
            next: gae::NextValueSource::Values(&*self.next_values),
            ends: Ends { terminated: &*self.terminated, truncated: &*self.truncated },
            n_envs,
        };
        gae::time_major(input, discount, out)
    }
}
