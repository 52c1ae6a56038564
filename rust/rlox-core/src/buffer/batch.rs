//! A batch: named arrays into which rows are copied.

use super::schema::Schema;
use crate::dtype::Dtype;
use crate::error::{Result, check_len};

/// One array of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchPart {
    /// An observation column.
    Obs(usize),
    /// The same column of the observation after the step.
    NextObs(usize),
    /// `actions`, `rewards` or an extra column, by its position in [`Schema::columns`].
    Column(usize),
    /// Whether the step reached a terminal state, one byte each.
    Terminated,
    /// Whether the episode was truncated, one byte each.
    Truncated,
    /// Index of each row.
    Indices,
    /// Discount of the value after an n-step window.
    Discounts,
    /// Importance weight of each row.
    Weights,
    /// Whether an episode begins at a row, one byte each.
    IsFirst,
    /// Undiscounted sum of the rewards from a row to the end of its episode.
    ReturnsToGo,
    /// Number of steps of the episode before a row.
    Timesteps,
    /// 1 for a row, 0 for padding.
    Mask,
}

impl BatchPart {
    /// Returns the element type and the shape of one row.
    #[must_use]
    pub fn row_type(self, schema: &Schema) -> (Dtype, &[usize]) {
        let field = match self {
            Self::Obs(index) | Self::NextObs(index) => schema.obs().get(index).map(|column| &column.field),
            Self::Column(column_index) => schema.columns().get(column_index),
            Self::Terminated | Self::Truncated | Self::IsFirst | Self::Mask => {
                return (Dtype::Bool, &[]);
            }
            Self::Indices => return (Dtype::U64, &[]),
            Self::Discounts | Self::Weights => return (Dtype::F32, &[]),
            Self::Timesteps => return (Dtype::I64, &[]),
            Self::ReturnsToGo => schema.columns().get(Schema::REWARDS),
        };
        field.map_or((Dtype::Bool, &[]), |field| (field.dtype, &field.shape))
    }

    /// Returns the array's fixed key, or None for a column of the schema.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Obs(_) | Self::NextObs(_) | Self::Column(_) => None,
            Self::Terminated => Some("terminated"),
            Self::Truncated => Some("truncated"),
            Self::Indices => Some("indices"),
            Self::Discounts => Some("discounts"),
            Self::Weights => Some("weights"),
            Self::IsFirst => Some("is_first"),
            Self::ReturnsToGo => Some("returns_to_go"),
            Self::Timesteps => Some("timesteps"),
            Self::Mask => Some("mask"),
        }
    }
}

/// The kind of a batch, which determines its arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BatchKind {
    /// Observations, next observations, columns, flags and indices.
    Transitions,
    /// [`BatchKind::Transitions`] with discounts.
    NStep,
    /// [`BatchKind::Transitions`] with weights.
    Weighted,
    /// [`BatchKind::Transitions`] with discounts and weights.
    WeightedNStep,
    /// [`BatchKind::Transitions`] with `is_first` and `mask`.
    Sequences,
    /// Observations, columns, returns to go, timesteps and mask.
    Trajectories,
}

impl BatchKind {
    /// Returns the arrays in the schema's order. No other code defines this order.
    pub fn parts(self, schema: &Schema) -> impl Iterator<Item = BatchPart> + use<> {
        (0..schema.obs().len())
            .map(BatchPart::Obs)
            .chain((0..self.n_next_obs(schema)).map(BatchPart::NextObs))
            .chain((0..schema.columns().len()).map(BatchPart::Column))
            .chain(self.keyed_parts())
    }

    /// Returns the number of [`BatchPart::NextObs`] arrays.
    fn n_next_obs(self, schema: &Schema) -> usize {
        if matches!(self, Self::Trajectories) { 0 } else { schema.obs().len() }
    }

    /// Returns the arrays that are not columns of the schema.
    fn keyed_parts(self) -> impl Iterator<Item = BatchPart> {
        let shared_parts = [BatchPart::Terminated, BatchPart::Truncated, BatchPart::Indices];
        let own_parts: &[BatchPart] = match self {
            Self::Transitions => &[],
            Self::NStep => &[BatchPart::Discounts],
            Self::Weighted => &[BatchPart::Weights],
            Self::WeightedNStep => &[BatchPart::Discounts, BatchPart::Weights],
            Self::Sequences => &[BatchPart::IsFirst, BatchPart::Mask],
            Self::Trajectories => &[BatchPart::ReturnsToGo, BatchPart::Timesteps, BatchPart::Mask],
        };
        let n_shared = if self == Self::Trajectories { 0 } else { shared_parts.len() };
        shared_parts.into_iter().take(n_shared).chain(own_parts.iter().copied())
    }
}

/// The arrays of a batch as bytes, each `[rows, ...]` in row-major order.
///
/// An array that the batch's kind lacks is empty.
#[derive(Debug, Default)]
pub struct Batch<'a, 'b> {
    /// Number of rows.
    pub n: usize,
    /// The observation columns.
    pub obs: &'b mut [&'a mut [u8]],
    /// The same columns of the observation after each step.
    pub next_obs: &'b mut [&'a mut [u8]],
    /// Actions, rewards and extras.
    pub columns: &'b mut [&'a mut [u8]],
    /// See [`BatchPart::Terminated`].
    pub terminated: &'b mut [u8],
    /// See [`BatchPart::Truncated`].
    pub truncated: &'b mut [u8],
    /// See [`BatchPart::Indices`].
    pub indices: &'b mut [u8],
    /// See [`BatchPart::Discounts`].
    pub discounts: &'b mut [u8],
    /// See [`BatchPart::Weights`].
    pub weights: &'b mut [u8],
    /// See [`BatchPart::IsFirst`].
    pub is_first: &'b mut [u8],
    /// See [`BatchPart::ReturnsToGo`].
    pub returns_to_go: &'b mut [u8],
    /// See [`BatchPart::Timesteps`].
    pub timesteps: &'b mut [u8],
    /// See [`BatchPart::Mask`].
    pub mask: &'b mut [u8],
}

impl<'a, 'b> Batch<'a, 'b> {
    /// Makes a batch of `n` rows from `arrays`, which have the order of [`BatchKind::parts`].
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if the number of arrays or the size of one is wrong.
    pub fn from_arrays(
        schema: &Schema,
        kind: BatchKind,
        n: usize,
        arrays: &'b mut [&'a mut [u8]],
    ) -> Result<Self> {
        let count = kind.parts(schema).count();
        check_len("batch", arrays.len(), count, "arrays, those of its kind")?;
        let mut array_iter = arrays.iter();
        kind.parts(schema).try_for_each(|part| {
            let (dtype, shape) = part.row_type(schema);
            let bytes = n * dtype.size() * shape.iter().product::<usize>();
            let name = part.name().unwrap_or("a column of the batch");
            check_len(name, array_iter.next().map_or(0, |array| array.len()), bytes, "bytes")
        })?;
        let (obs, rest) = arrays.split_at_mut(schema.obs().len());
        let (next_obs, rest) = rest.split_at_mut(kind.n_next_obs(schema));
        let (columns, rest) = rest.split_at_mut(schema.columns().len());
        let mut batch = Self { n, obs, next_obs, columns, ..Self::default() };
        for (part, array) in kind.keyed_parts().zip(rest) {
            match part {
                BatchPart::Obs(_) | BatchPart::NextObs(_) | BatchPart::Column(_) => {}
                BatchPart::Terminated => batch.terminated = array,
                BatchPart::Truncated => batch.truncated = array,
                BatchPart::Indices => batch.indices = array,
                BatchPart::Discounts => batch.discounts = array,
                BatchPart::Weights => batch.weights = array,
                BatchPart::IsFirst => batch.is_first = array,
                BatchPart::ReturnsToGo => batch.returns_to_go = array,
                BatchPart::Timesteps => batch.timesteps = array,
                BatchPart::Mask => batch.mask = array,
            }
        }
        Ok(batch)
    }

    /// Returns every array. An array that the batch's kind lacks is empty.
    pub(super) fn arrays(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let columns = self.obs.iter_mut().chain(&mut *self.next_obs).chain(&mut *self.columns);
        let keyed_arrays = [
            &mut self.terminated,
            &mut self.truncated,
            &mut self.indices,
            &mut self.discounts,
            &mut self.weights,
            &mut self.is_first,
            &mut self.returns_to_go,
            &mut self.timesteps,
            &mut self.mask,
        ];
        columns.map(|array| &mut **array).chain(keyed_arrays.into_iter().map(|array| &mut **array))
    }
}

/// Writes numbers as float32 or float64, depending on the length of the array.
pub(super) fn write_floats(out: &mut [u8], values: impl ExactSizeIterator<Item = f64>) {
    if out.len() == 8 * values.len() {
        for (slot, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
            *slot = value.to_ne_bytes();
        }
    } else {
        for (slot, value) in out.as_chunks_mut().0.iter_mut().zip(values) {
            #[expect(clippy::cast_possible_truncation, reason = "rounding to the column's type")]
            let single = value as f32;
            *slot = single.to_ne_bytes();
        }
    }
}

/// A batch that owns its memory, for callers without arrays.
#[derive(Debug, Clone)]
pub struct OwnedBatch {
    schema: Schema,
    kind: BatchKind,
    n: usize,
    parts: Vec<(BatchPart, Vec<u8>)>,
}

impl OwnedBatch {
    /// Makes zeroed arrays for `n` rows.
    #[must_use]
    pub fn new(schema: &Schema, kind: BatchKind, n: usize) -> Self {
        let array = |part: BatchPart| {
            let (dtype, shape) = part.row_type(schema);
            (part, vec![0; n * dtype.size() * shape.iter().product::<usize>()])
        };
        let parts = kind.parts(schema).map(array).collect();
        Self { schema: schema.clone(), kind, n, parts }
    }

    /// Passes the arrays to `fill`, which writes into them.
    ///
    /// # Errors
    /// The errors of `fill`.
    pub fn fill<T>(&mut self, fill: impl FnOnce(&mut Batch<'_, '_>) -> Result<T>) -> Result<T> {
        let mut arrays: Vec<&mut [u8]> =
            self.parts.iter_mut().map(|(_, array)| array.as_mut_slice()).collect();
        fill(&mut Batch::from_arrays(&self.schema, self.kind, self.n, &mut arrays)?)
    }

    /// Returns the bytes of an array. They are empty if the batch has no such array.
    #[must_use]
    pub fn bytes(&self, part: BatchPart) -> &[u8] {
        let entry = self.parts.iter().find(|(candidate, _)| *candidate == part);
        entry.map_or(&[], |(_, array)| array)
    }

    /// Returns the numbers of a float32 array.
    #[must_use]
    pub fn f32(&self, part: BatchPart) -> Vec<f32> {
        self.bytes(part).as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;
    use crate::buffer::schema::ObsField;

    const KINDS: [BatchKind; 6] = [
        BatchKind::Transitions,
        BatchKind::NStep,
        BatchKind::Weighted,
        BatchKind::WeightedNStep,
        BatchKind::Sequences,
        BatchKind::Trajectories,
    ];

    fn schema(extras: Vec<Field>) -> Result<Schema> {
        let obs = ObsField { field: Field::new("", Dtype::F32, [2]), stack: None };
        Schema::new(vec![obs], (Dtype::F32, vec![1]), Dtype::F32, extras)
    }

    #[test]
    fn an_array_too_few_or_too_many_is_refused_also_without_rows() {
        let schema = schema(Vec::new()).unwrap();
        for kind in KINDS {
            let count = kind.parts(&schema).count();
            for n_arrays in 0..count + 2 {
                let mut empty_arrays: Vec<&mut [u8]> =
                    (0..n_arrays).map(|_| <&mut [u8]>::default()).collect();
                assert_eq!(
                    Batch::from_arrays(&schema, kind, 0, &mut empty_arrays).is_ok(),
                    n_arrays == count
                );
            }
        }
    }

    #[test]
    fn no_extra_column_has_the_key_of_another_part() {
        for kind in KINDS {
            for name in kind.keyed_parts().filter_map(BatchPart::name) {
                assert!(schema(vec![Field::new(name, Dtype::F32, [])]).is_err(), "{name}");
            }
        }
    }
}
