//! Standardising observations by the moments of a dataset.

use crate::Dtype;

/// A standard deviation below this is that of a constant; the element is then only centred.
const CONSTANT: f64 = 1e-6;

/// Mean and population standard deviation of each element of an observation, `[elements]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    mean: Vec<f64>,
    std: Vec<f64>,
}

impl Scaling {
    /// The moments of `values`, `[n, width]`, in two passes.
    pub(super) fn of(values: &[f64], width: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
        let n = (values.len() / width.max(1)).max(1) as f64;
        let mut mean = vec![0.0; width];
        for row in values.chunks_exact(width) {
            mean.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        for sum in &mut mean {
            *sum /= n;
        }
        let mut std = vec![0.0; width];
        for row in values.chunks_exact(width) {
            let each = std.iter_mut().zip(row).zip(&mean);
            each.for_each(|((sum, x), mean)| *sum += (x - mean) * (x - mean));
        }
        for sum in &mut std {
            *sum = (*sum / n).sqrt();
        }
        Self { mean, std }
    }

    /// The moments in one row, means first.
    pub(super) fn to_row(&self) -> Vec<f64> {
        [self.mean.as_slice(), &self.std].concat()
    }

    /// What [`Scaling::to_row`] gave for an observation of `width` elements; None for another row.
    pub(super) fn from_row(row: &[f64], width: usize) -> Option<Self> {
        let (mean, std) = row.split_at_checked(width)?;
        let sound = std.len() == width && row.iter().all(|x| x.is_finite());
        sound.then(|| Self { mean: mean.to_vec(), std: std.to_vec() })
    }

    /// Mean of each element.
    #[must_use]
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// Population standard deviation of each element.
    #[must_use]
    pub fn std(&self) -> &[f64] {
        &self.std
    }

    /// What each element is divided by: its deviation, or 1 where that is below 1e-6.
    #[must_use]
    pub fn scale(&self) -> Vec<f64> {
        self.std.iter().map(|&std| if std < CONSTANT { 1.0 } else { std }).collect()
    }

    /// (x - mean) / scale of rows of floats in place.
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
