//! Typed columns: a name, an element type and the shape of one row.

use crate::dtype::Dtype;
use crate::error::{Error, Result};

/// Maximum size of one row of a column: 4 GiB.
const MAX_ROW_BYTES: usize = 1 << 32;

/// A typed column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Key of the column in a batch.
    pub name: String,
    /// Type of the elements.
    pub dtype: Dtype,
    /// Shape of one row; empty for a scalar.
    pub shape: Vec<usize>,
}

impl Field {
    /// Returns a column `name` whose rows have `shape`.
    pub fn new(name: impl Into<String>, dtype: Dtype, shape: impl Into<Vec<usize>>) -> Self {
        Self { name: name.into(), dtype, shape: shape.into() }
    }

    /// Returns the number of elements of one row.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns true for a row without elements. No schema accepts such a row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of one row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.len() * self.dtype.size()
    }

    /// Checks that a row has 1 byte to 4 GiB.
    pub(crate) fn check(&self) -> Result<()> {
        let bytes = self.shape.iter().try_fold(self.dtype.size(), |product, &dim| product.checked_mul(dim));
        if bytes.is_some_and(|bytes| (1..=MAX_ROW_BYTES).contains(&bytes)) {
            return Ok(());
        }
        let got = format!("{:?} of {}", self.shape, self.dtype.name());
        Err(Error::config("shape of a column", got, "positive dimensions and at most 4 GiB a row"))
    }
}
