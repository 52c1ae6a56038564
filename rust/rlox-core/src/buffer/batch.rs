//! A batch: named arrays into which rows are copied.

use super::schema::Schema;
use crate::dtype::Dtype;
use crate::error::{Result, check_len};

/// One array of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
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

impl Part {
    /// Returns the element type and the shape of one row.
    #[must_use]
    pub fn row(self, schema: &Schema) -> (Dtype, &[usize]) {
        let field = match self {
            Self::Obs(at) | Self::NextObs(at) => schema.obs().get(at).map(|column| &column.field),
            Self::Column(at) => schema.columns().get(at),
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
pub enum Kind {
    /// Observations, next observations, columns, flags and indices.
    Transitions,
    /// [`Kind::Transitions`] with discounts.
    NStep,
    /// [`Kind::Transitions`] with weights.
    Weighted,
    /// [`Kind::Transitions`] with discounts and weights.
    WeightedNStep,
    /// [`Kind::Transitions`] with `is_first` and `mask`.
    Sequences,
    /// Observations, columns, returns to go, timesteps and mask.
    Trajectories,
}

impl Kind {
    /// Returns the arrays in the schema's order. No other code defines this order.
    pub fn parts(self, schema: &Schema) -> impl Iterator<Item = Part> + use<> {
        (0..schema.obs().len())
            .map(Part::Obs)
            .chain((0..self.next_obs(schema)).map(Part::NextObs))
            .chain((0..schema.columns().len()).map(Part::Column))
            .chain(self.named())
    }

    /// Returns the number of [`Part::NextObs`] arrays.
    fn next_obs(self, schema: &Schema) -> usize {
        if matches!(self, Self::Trajectories) { 0 } else { schema.obs().len() }
    }

    /// Returns the arrays that are not columns of the schema.
    fn named(self) -> impl Iterator<Item = Part> {
        let heads = [Part::Terminated, Part::Truncated, Part::Indices];
        let tail: &[Part] = match self {
            Self::Transitions => &[],
            Self::NStep => &[Part::Discounts],
            Self::Weighted => &[Part::Weights],
            Self::WeightedNStep => &[Part::Discounts, Part::Weights],
            Self::Sequences => &[Part::IsFirst, Part::Mask],
            Self::Trajectories => &[Part::ReturnsToGo, Part::Timesteps, Part::Mask],
        };
        let all = if self == Self::Trajectories { 0 } else { heads.len() };
        heads.into_iter().take(all).chain(tail.iter().copied())
    }
}

/// The arrays of one call as bytes, each `[rows, ...]` row-major.
///
/// Arrays that the kind lacks are empty.
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
    /// See [`Part::Terminated`].
    pub terminated: &'b mut [u8],
    /// See [`Part::Truncated`].
    pub truncated: &'b mut [u8],
    /// See [`Part::Indices`].
    pub indices: &'b mut [u8],
    /// See [`Part::Discounts`].
    pub discounts: &'b mut [u8],
    /// See [`Part::Weights`].
    pub weights: &'b mut [u8],
    /// See [`Part::IsFirst`].
    pub is_first: &'b mut [u8],
    /// See [`Part::ReturnsToGo`].
    pub returns_to_go: &'b mut [u8],
    /// See [`Part::Timesteps`].
    pub timesteps: &'b mut [u8],
    /// See [`Part::Mask`].
    pub mask: &'b mut [u8],
}

impl<'a, 'b> Batch<'a, 'b> {
    /// Makes a batch of `n` rows from `arrays`, which have the order of [`Kind::parts`].
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) if the number of arrays or the size of one is wrong.
    pub fn over(
        schema: &Schema,
        kind: Kind,
        n: usize,
        arrays: &'b mut [&'a mut [u8]],
    ) -> Result<Self> {
        let count = kind.parts(schema).count();
        check_len("batch", arrays.len(), count, "arrays, those of its kind")?;
        let mut given = arrays.iter();
        kind.parts(schema).try_for_each(|part| {
            let (dtype, shape) = part.row(schema);
            let bytes = n * dtype.size() * shape.iter().product::<usize>();
            let name = part.name().unwrap_or("a column of the batch");
            check_len(name, given.next().map_or(0, |array| array.len()), bytes, "bytes")
        })?;
        let (obs, rest) = arrays.split_at_mut(schema.obs().len());
        let (next_obs, rest) = rest.split_at_mut(kind.next_obs(schema));
        let (columns, rest) = rest.split_at_mut(schema.columns().len());
        let mut batch = Self { n, obs, next_obs, columns, ..Self::default() };
        for (part, array) in kind.named().zip(rest) {
            match part {
                Part::Obs(_) | Part::NextObs(_) | Part::Column(_) => {}
                Part::Terminated => batch.terminated = array,
                Part::Truncated => batch.truncated = array,
                Part::Indices => batch.indices = array,
                Part::Discounts => batch.discounts = array,
                Part::Weights => batch.weights = array,
                Part::IsFirst => batch.is_first = array,
                Part::ReturnsToGo => batch.returns_to_go = array,
                Part::Timesteps => batch.timesteps = array,
                Part::Mask => batch.mask = array,
            }
        }
        Ok(batch)
    }

    /// Returns every array; those that the kind lacks are empty.
    pub(super) fn arrays(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let columns = self.obs.iter_mut().chain(&mut *self.next_obs).chain(&mut *self.columns);
        let named = [
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
        columns.map(|array| &mut **array).chain(named.into_iter().map(|array| &mut **array))
    }
}

/// Writes numbers as float32 or float64, depending on the length of the array.
pub(super) fn put_real(out: &mut [u8], values: impl ExactSizeIterator<Item = f64>) {
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
pub struct Arrays {
    schema: Schema,
    kind: Kind,
    n: usize,
    parts: Vec<(Part, Vec<u8>)>,
}

impl Arrays {
    /// Makes zeroed arrays for `n` rows.
    #[must_use]
    pub fn new(schema: &Schema, kind: Kind, n: usize) -> Self {
        let array = |part: Part| {
            let (dtype, shape) = part.row(schema);
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
        fill(&mut Batch::over(&self.schema, self.kind, self.n, &mut arrays)?)
    }

    /// Returns the bytes of an array. They are empty if the batch has no such array.
    #[must_use]
    pub fn bytes(&self, part: Part) -> &[u8] {
        let found = self.parts.iter().find(|(known, _)| *known == part);
        found.map_or(&[], |(_, array)| array)
    }

    /// Returns the numbers of a float32 array.
    #[must_use]
    pub fn f32(&self, part: Part) -> Vec<f32> {
        self.bytes(part).as_chunks().0.iter().map(|bytes| f32::from_ne_bytes(*bytes)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Field;
    use crate::buffer::schema::ObsField;

    const KINDS: [Kind; 6] = [
        Kind::Transitions,
        Kind::NStep,
        Kind::Weighted,
        Kind::WeightedNStep,
        Kind::Sequences,
        Kind::Trajectories,
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
            for given in 0..count + 2 {
                let mut none: Vec<&mut [u8]> = (0..given).map(|_| <&mut [u8]>::default()).collect();
                assert_eq!(Batch::over(&schema, kind, 0, &mut none).is_ok(), given == count);
            }
        }
    }

    #[test]
    fn no_extra_column_has_the_key_of_another_part() {
        for kind in KINDS {
            for name in kind.named().filter_map(Part::name) {
                assert!(schema(vec![Field::new(name, Dtype::F32, [])]).is_err(), "{name}");
            }
        }
    }
}
