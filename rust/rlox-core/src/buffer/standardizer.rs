//! Standardises observations by the moments of a dataset.

use crate::dtype::Dtype;
use crate::error::{Error, Result};
use crate::interrupt;

/// An element whose standard deviation is below this counts as constant and is only centred.
const MIN_STD: f64 = 1e-6;

/// Bytes that are processed between two checks for interruption.
const PIECE: usize = 1 << 20;

/// Mean and population standard deviation of each element of an observation, `[elements]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Standardizer {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl Standardizer {
    /// Computes the moments of rows of `width` floats in two passes. None if the type is not float.
    ///
    /// # Errors
    /// [`Error::NonFinite`] if a sum of squares overflows float64, and [`Error::Interrupted`].
    pub(super) fn fit(dtype: Dtype, bytes: &[u8], width: usize) -> Result<Option<Self>> {
        if !dtype.is_float() {
            return Ok(None);
        }
        let row_bytes = width * dtype.size();
        #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
        let n = (bytes.len() / row_bytes.max(1)).max(1) as f64;
        let accumulate = |sums: &mut [f64], term: &dyn Fn(usize, f64) -> f64| -> Result<()> {
            for part in bytes.chunks((PIECE / row_bytes.max(1)).max(1) * row_bytes) {
                interrupt::check()?;
                let columns = (0..width).cycle();
                for (x, at) in floats(dtype, part).zip(columns) {
                    if let Some(sum) = sums.get_mut(at) {
                        *sum += term(at, x);
                    }
                }
            }
            Ok(())
        };
        let (mut mean, mut std) = (vec![0.0; width], vec![0.0; width]);
        accumulate(&mut mean, &|_, x| x)?;
        for sum in &mut mean {
            *sum /= n;
        }
        let off = |at: usize, x: f64| x - mean.get(at).copied().unwrap_or_default();
        accumulate(&mut std, &|at, x| off(at, x) * off(at, x))?;
        for sum in &mut std {
            *sum = (*sum / n).sqrt();
        }
        if let Some((index, &value)) = std.iter().enumerate().find(|(_, std)| !std.is_finite()) {
            return Err(Error::NonFinite { name: "standard deviation of obs".into(), index, value });
        }
        Ok(Some(Self { mean, std }))
    }

    /// Returns the moments as one row, means first.
    pub(super) fn to_row(&self) -> Vec<f64> {
        [self.mean.as_slice(), &self.std].concat()
    }

    /// Parses a row of [`Standardizer::to_row`] for an observation of `width` elements. None if the
    /// row is invalid.
    pub(super) fn from_row(row: &[f64], width: usize) -> Option<Self> {
        let (mean, std) = row.split_at_checked(width)?;
        let is_valid = std.len() == width && row.iter().all(|x| x.is_finite());
        is_valid.then(|| Self { mean: mean.to_vec(), std: std.to_vec() })
    }

    /// Returns the mean of each element.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Returns the population standard deviation of each element.
    #[must_use]
    pub fn std(&self) -> &[f64] {
        &self.std
    }

    /// Returns the divisor of each element: its deviation, or 1 if that is below 1e-6.
    #[must_use]
    pub fn scale(&self) -> Vec<f64> {
        self.std.iter().map(|&std| if std < MIN_STD { 1.0 } else { std }).collect()
    }

    /// Replaces each element of rows of floats by (x - mean) / scale.
    pub(super) fn apply(&self, dtype: Dtype, rows: &mut [u8]) {
        let scale = self.scale();
        let elements = self.mean.iter().zip(&scale).cycle();
        #[expect(clippy::cast_possible_truncation, reason = "the result has the input's precision")]
        match dtype {
            Dtype::F32 => {
                for (bytes, (mean, scale)) in rows.as_chunks_mut().0.iter_mut().zip(elements) {
                    let x = f64::from(f32::from_ne_bytes(*bytes));
                    *bytes = (((x - mean) / scale) as f32).to_ne_bytes();
                }
            }
            Dtype::F64 => {
                for (bytes, (mean, scale)) in rows.as_chunks_mut().0.iter_mut().zip(elements) {
                    *bytes = ((f64::from_ne_bytes(*bytes) - mean) / scale).to_ne_bytes();
                }
            }
            _ => {}
        }
    }
}

/// Returns the numbers of a float column; no numbers for another type.
pub(super) fn floats(dtype: Dtype, bytes: &[u8]) -> impl Iterator<Item = f64> {
    let (single, double) = match dtype {
        Dtype::F32 => (bytes, &[][..]),
        Dtype::F64 => (&[][..], bytes),
        _ => (&[][..], &[][..]),
    };
    let single = single.as_chunks().0.iter().map(|bytes| f64::from(f32::from_ne_bytes(*bytes)));
    single.chain(double.as_chunks().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)))
}
