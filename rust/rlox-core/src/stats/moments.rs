//! Running count, mean and variance, merged from parts.

use crate::error::{Error, Result, check_finite, check_len};
use crate::interrupt::{self, CheckPace, SHARED_PIECE};
use crate::threads;

/// Number of rows whose moments are computed together. It is fixed, so that no result depends on the
/// number of threads.
const BLOCK_ROWS: usize = 256;

/// Number of blocks of rows that a thread takes at once.
const BLOCKS_PER_TASK: usize = 16;

/// Number of elements from which several threads share the blocks of rows.
const PARALLEL_FROM: usize = 1 << 17;

/// Maximum number of rows: counts up to here are exact in float64.
const MAX_ROWS: u64 = 1 << 53;

/// Count, mean and sum of squared deviations per dimension, in float64.
///
/// Parts are merged as in Chan, Golub and LeVeque 1983, eq. 2.1. The formula has no difference of
/// large sums, so a mean far from 0 costs no precision. A method that fails leaves the object
/// unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    count: u64,
    mean: Vec<f64>,
    m2: Vec<f64>,
}

impl Moments {
    /// Returns the moments of no rows, in `dim` dimensions.
    #[must_use]
    pub fn new(dim: usize) -> Self {
        Self { count: 0, mean: vec![0.0; dim], m2: vec![0.0; dim] }
    }

    /// Returns moments from saved parts.
    ///
    /// # Errors
    /// [`Error::Snapshot`] if sizes differ, a number is not finite, a sum of squares is negative,
    /// the count is 0 and a number is not 0, or the count exceeds 2^53.
    pub fn from_parts(count: u64, mean: Vec<f64>, m2: Vec<f64>) -> Result<Self> {
        if count > MAX_ROWS {
            return Err(Error::snapshot("count", count, "at most 2^53"));
        }
        if mean.len() != m2.len() {
            return Err(Error::snapshot("m2", format!("{} numbers", m2.len()), mean.len()));
        }
        for (field, values, minimum) in [("mean", &mean, f64::MIN), ("m2", &m2, 0.0)] {
            for value in values {
                if !value.is_finite() || *value < minimum {
                    return Err(Error::snapshot(field, value, format!("a number from {minimum} on")));
                }
                if count == 0 && *value != 0.0 {
                    return Err(Error::snapshot(field, value, "0, since count is 0"));
                }
            }
        }
        Ok(Self { count, mean, m2 })
    }

    /// Returns the number of rows so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean of each dimension; 0 before the first row.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Returns the sum of squared deviations from the mean of each dimension.
    #[must_use]
    pub fn m2(&self) -> &[f64] {
        &self.m2
    }

    /// Returns the population variance of each dimension (divisor count). It is 1 before the first
    /// row, so that normalising changes nothing then.
    pub fn var(&self) -> impl Iterator<Item = f64> + '_ {
        #[expect(clippy::cast_precision_loss, reason = "at most MAX_ROWS")]
        let count = self.count as f64;
        self.m2.iter().map(move |m2| if count > 0.0 { m2 / count } else { 1.0 })
    }

    /// Adds `rows`, `[n, dim]` in row-major order.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last row is incomplete; [`Error::NonFinite`] for NaN and infinity,
    /// and if a sum of squares exceeds float64; [`Error::Config`] beyond 2^53 rows;
    /// [`Error::Interrupted`].
    pub fn update(&mut self, rows: &[f64]) -> Result<()> {
        let dim = self.mean.len().max(1);
        check_len("rows", rows.len(), rows.len() / dim * dim, "a multiple of dim")?;
        check_finite("rows", rows)?;
        let blocks = rows.chunks(BLOCK_ROWS * dim);
        let mut total = self.clone();
        if rows.len() >= PARALLEL_FROM {
            let mut parts: Vec<_> = blocks.map(|block| (block, Self::new(0))).collect();
            for parts in parts.chunks_mut((SHARED_PIECE / (BLOCK_ROWS * dim)).max(1)) {
                interrupt::check()?;
                threads::for_each_chunk(parts, BLOCKS_PER_TASK, |_, parts| {
                    for (block, part) in parts {
                        *part = self.block_moments(block);
                    }
                });
            }
            for (_, part) in &parts {
                total.add(part);
            }
        } else {
            for block in blocks {
                total.add(&self.block_moments(block));
            }
        }
        self.accept(total)
    }

    /// Adds all rows of `other`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the dimensions differ; [`Error::Config`] beyond 2^53 rows;
    /// [`Error::NonFinite`] if a sum of squares exceeds float64.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        check_len("other", other.mean.len(), self.mean.len(), "the same dimension")?;
        let mut total = self.clone();
        total.add(other);
        self.accept(total)
    }

    /// Writes (x - mean) / sqrt(var + eps) of `rows`, `[n, dim]`, clipped to [-clip, clip], to
    /// `out`.
    ///
    /// # Errors
    /// [`Error::Shape`] if the last row is incomplete or `out` has another size;
    /// [`Error::NonFinite`] for NaN and infinity; [`Error::Config`] unless eps is positive and
    /// clip, if present, is at least 0; [`Error::Interrupted`].
    pub fn normalize(&self, rows: &[f64], clip: Option<f64>, eps: f64, out: &mut [f64]) -> Result<()> {
        let dim = self.mean.len().max(1);
        check_len("rows", rows.len(), rows.len() / dim * dim, "a multiple of dim")?;
        check_len("out", out.len(), rows.len(), "as many as rows")?;
        check_finite("rows", rows)?;
        if !(eps > 0.0 && eps.is_finite()) {
            return Err(Error::config("eps", eps, "a positive number"));
        }
        let limit = clip.unwrap_or(f64::INFINITY);
        if limit.is_nan() || limit < 0.0 {
            return Err(Error::config("clip", limit, "a number of at least 0, or none"));
        }
        let scales: Vec<f64> = self.var().map(|var| (var + eps).sqrt()).collect();
        let mut pace = CheckPace::default();
        for (row, out) in rows.chunks_exact(dim).zip(out.chunks_exact_mut(dim)) {
            pace.spend(dim)?;
            for ((x, out), (mean, scale)) in row.iter().zip(out).zip(self.mean.iter().zip(&scales)) {
                *out = ((x - mean) / scale).clamp(-limit, limit);
            }
        }
        Ok(())
    }

    /// Returns the moments of a few rows alone, by two passes.
    fn block_moments(&self, rows: &[f64]) -> Self {
        let dim = self.mean.len();
        let mut part = Self::new(dim);
        if dim == 0 {
            return part;
        }
        for row in rows.chunks_exact(dim) {
            part.count += 1;
            #[expect(clippy::cast_precision_loss, reason = "at most BLOCK_ROWS")]
            let weight = 1.0 / part.count as f64;
            for (x, mean) in row.iter().zip(&mut part.mean) {
                *mean += (x - *mean) * weight;
            }
        }
        for row in rows.chunks_exact(dim) {
            for ((x, mean), m2) in row.iter().zip(&part.mean).zip(&mut part.m2) {
                *m2 += (x - mean) * (x - mean);
            }
        }
        part
    }

    /// Adds the rows of `other` by Chan's formula.
    #[expect(clippy::cast_precision_loss, reason = "at most MAX_ROWS")]
    fn add(&mut self, other: &Self) {
        let count = self.count.saturating_add(other.count);
        if count == 0 {
            return;
        }
        let weight = other.count as f64 / count as f64;
        let previous_count = self.count as f64;
        let moments = self.mean.iter_mut().zip(&mut self.m2);
        for ((mean, m2), (other_mean, other_m2)) in moments.zip(other.mean.iter().zip(&other.m2)) {
            let delta = other_mean - *mean;
            *mean += delta * weight;
            // With this grouping a first number whose square overflows adds 0, not infinity times
            // 0.
            *m2 += other_m2 + (delta * previous_count) * (delta * weight);
        }
        self.count = count;
    }

    /// Replaces the moments by `total` if it is finite and its count is at most 2^53.
    fn accept(&mut self, total: Self) -> Result<()> {
        if total.count > MAX_ROWS {
            return Err(Error::config("count", total.count, "at most 2^53 rows in all"));
        }
        check_finite("mean", &total.mean)?;
        check_finite("sum of squares", &total.m2)?;
        *self = total;
        Ok(())
    }
}
