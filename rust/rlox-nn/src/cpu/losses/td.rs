//! Losses of TD errors.

use rlox_core::error::{Error, Result, check_len};

use crate::cpu::gemm::Number;

/// The loss of an error e = q - target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TdLoss {
    /// e^2 / 2 up to |e| = 1, |e| - 1/2 beyond (Mnih et al. 2015).
    Huber,
    /// e^2.
    Squared,
}

/// The targets of Q-values, and the rows' weights.
#[derive(Debug, Clone, Copy)]
pub struct TdTargets<'a, F> {
    /// `[n]`.
    pub values: &'a [F],
    /// The weight of each row, `[n]`; None: all are 1.
    pub weights: Option<&'a [F]>,
}

impl TdLoss {
    /// Returns the loss `huber` or `mse`.
    ///
    /// # Errors
    /// [`Error::Config`] for another name.
    pub fn from_name(name: &str) -> Result<Self> {
        match name {
            "huber" => Ok(Self::Huber),
            "mse" => Ok(Self::Squared),
            _ => Err(Error::config("loss", format!("{name:?}"), "huber or mse")),
        }
    }

    /// Computes E\[w loss(q - target)\], the errors and the gradient with respect to q, `[n]` each.
    /// Returns the loss.
    ///
    /// # Errors
    /// [`Error::Shape`] for slices of different lengths.
    pub fn gradient<F: Number>(
        self,
        q: &[F],
        targets: TdTargets<'_, F>,
        (errors, slopes): (&mut [F], &mut [F]),
    ) -> Result<f64> {
        let n = q.len();
        let weights = targets.weights.map_or(n, <[F]>::len);
        for (name, len) in [
            ("targets", targets.values.len()),
            ("weights", weights),
            ("errors", errors.len()),
            ("gradient of values", slopes.len()),
        ] {
            check_len(name, len, n, "as the values")?;
        }
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch")]
        let share = F::from_f64(1.0 / n as f64);
        let mut total = 0.0;
        let rows = q.iter().zip(targets.values).zip(errors.iter_mut().zip(slopes)).enumerate();
        for (row, ((&q, &target), (error, slope))) in rows {
            *error = q - target;
            let weight = targets.weights.and_then(|all| all.get(row)).copied().unwrap_or(F::ONE);
            let (cost, derivative) = self.loss_and_derivative(*error);
            total += (weight * cost).to_f64();
            *slope = weight * derivative * share;
        }
        Ok(total * share.to_f64())
    }

    /// Returns the loss of an error and its derivative.
    fn loss_and_derivative<F: Number>(self, error: F) -> (F, F) {
        let half = F::from_f64(0.5);
        let (one, size) = (F::ONE, if error < F::ZERO { F::ZERO - error } else { error });
        match self {
            Self::Squared => (error * error, error + error),
            // NaN fails the comparison and takes the next branch, which keeps it NaN.
            Self::Huber if size > one => (size - half, if error > F::ZERO { one } else { -one }),
            Self::Huber => (half * error * error, error),
        }
    }
}
