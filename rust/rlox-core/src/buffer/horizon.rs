//! n-step returns over stored rows.

use super::rows::Moment;
use super::schema::Schema;
use super::storage::{Row, Storage, TERMINATED};
use crate::Dtype;
use crate::error::{Error, Result};

/// How far returns look ahead.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Horizon {
    pub(super) n: usize,
    pub(super) gamma: f64,
}

impl Horizon {
    /// `n` steps discounted by `gamma` each.
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
}

impl Storage {
    /// The n-step view of `rows`: writes R = sum_{k<m} gamma^k r_{t+k} into `rewards` (bytes of the
    /// reward's type, summed in f64), gamma^m (1 - terminated) into `discounts` (f32), and puts the last
    /// row of each window, t+m-1, into `last`, whose `next_obs` and flags go with them.
    ///
    /// m is n, or less where the episode ends or the newest row is reached first, so that
    /// R + discount V(next_obs) is always a valid target.
    pub fn look_ahead(
        &self,
        horizon: Horizon,
        rows: &[Row],
        rewards: &mut [u8],
        discounts: &mut [u8],
        last: &mut Vec<Row>,
    ) {
        let single =
            self.schema.columns().get(Schema::REWARDS).map(|c| c.dtype) == Some(Dtype::F32);
        let width = if single { 4 } else { 8 };
        let rewards = rewards.chunks_exact_mut(width);
        for ((&row, reward), discount) in rows.iter().zip(rewards).zip(discounts.as_chunks_mut().0)
        {
            let (end, total, factor) = self.window(horizon, row);
            let terminal = self.flags(end) & TERMINATED != 0;
            #[expect(clippy::cast_possible_truncation, reason = "rounding to the column's type")]
            {
                *discount = (if terminal { 0.0 } else { factor as f32 }).to_ne_bytes();
                if single {
                    reward.copy_from_slice(&(total as f32).to_ne_bytes());
                } else {
                    reward.copy_from_slice(&total.to_ne_bytes());
                }
            }
            last.push(end);
        }
    }

    /// Last row, discounted reward sum and gamma^m of the window that starts at `row`.
    fn window(&self, horizon: Horizon, row: Row) -> (Row, f64, f64) {
        let stream = row.stream as usize;
        let end = self.streams.get(stream).map_or(row.position, |s| s.episode(row.position).1);
        let end = end.min(row.position + horizon.n as u64);
        let (mut last, mut total, mut factor) = (row, 0.0, 1.0);
        for position in row.position..end {
            last = self.row(stream, position);
            total += factor * self.reward(last);
            factor *= horizon.gamma;
        }
        (last, total, factor)
    }

    /// The reward of a row.
    fn reward(&self, row: Row) -> f64 {
        let Some(&(offset, width)) = self.layout.columns.get(Schema::REWARDS) else { return 0.0 };
        real(self.records.get(row.record + offset..row.record + offset + width).unwrap_or_default())
    }
}

/// The float32 or float64 with these bytes.
pub(super) fn real(bytes: &[u8]) -> f64 {
    match bytes {
        &[a, b, c, d] => f64::from(f32::from_ne_bytes([a, b, c, d])),
        bytes => bytes.first_chunk().map_or(0.0, |bytes| f64::from_ne_bytes(*bytes)),
    }
}

impl Storage {
    /// Copies `rows` out: as they are, or as n-step windows if `horizon` is given.
    ///
    /// `out` are the arrays of a batch as bytes, each `[rows, ...]` row-major, in this order: the
    /// observation columns, the same for `next_obs`, the other columns, `terminated`, `truncated`
    /// (u8), `indices` (u64) and, with a horizon, `discounts` (f32). Of a window come the first
    /// row's columns and index, the sum of rewards, and the last row's `next_obs` and flags.
    pub fn fill(&self, rows: &[Row], horizon: Option<Horizon>, out: &mut [&mut [u8]]) {
        let (n_obs, n_columns) = (self.obs.len(), self.layout.columns.len());
        let (obs, out) = out.split_at_mut(n_obs.min(out.len()));
        let (next_obs, out) = out.split_at_mut(n_obs.min(out.len()));
        let (columns, out) = out.split_at_mut(n_columns.min(out.len()));
        let [terminated, truncated, indices, out @ ..] = out else { return };
        // What follows finds the records in the cache.
        self.gather_heads(rows, terminated, truncated, indices.as_chunks_mut().0);
        for (column, (now, next)) in obs.iter_mut().zip(next_obs.iter_mut()).enumerate() {
            match horizon {
                None => self.gather_both(column, rows, now, next),
                Some(_) => self.gather_obs(column, Moment::Now, rows, now),
            }
        }
        for (column, out) in columns.iter_mut().enumerate() {
            if horizon.is_none() || column != Schema::REWARDS {
                self.gather_column(column, rows, out);
            }
        }
        if let (Some(horizon), Some(rewards), Some(discounts)) =
            (horizon, columns.get_mut(Schema::REWARDS), out.first_mut())
        {
            let mut windows = Vec::with_capacity(rows.len());
            self.look_ahead(horizon, rows, rewards, discounts, &mut windows);
            for (column, out) in next_obs.iter_mut().enumerate() {
                self.gather_obs(column, Moment::Next, &windows, out);
            }
            self.gather_flags(&windows, terminated, truncated);
        }
    }
}
