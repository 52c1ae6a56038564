//! Named parameters in one flat vector.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::tensor::TensorView;

/// More numbers than this are refused: 32 GiB of them.
const MAX_NUMBERS: usize = 1 << 33;

/// The parameters of a model: float32 arrays, one after the other in the order of their names (by
/// bytes), so that names and shapes alone say where a number lies.
///
/// Whoever handles all numbers alike (an optimizer, Polyak averaging, a checkpoint) takes the vector;
/// whoever knows what they mean takes them by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    entries: Vec<Entry>,
    values: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    shape: Vec<usize>,
    range: Range<usize>,
}

impl Parameters {
    /// Parameters of these names and shapes, in any order, all 0.
    ///
    /// # Errors
    /// [`Error::Config`] for a name that comes twice or is empty, a dimension of 0, or more than
    /// 2^33 numbers.
    pub fn zeros<N: Into<String>, S: Into<Vec<usize>>>(
        named: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self> {
        let mut named: Vec<(String, Vec<usize>)> =
            named.into_iter().map(|(name, shape)| (name.into(), shape.into())).collect();
        named.sort_unstable();
        let (mut entries, mut start) = (Vec::<Entry>::new(), 0_usize);
        for (name, shape) in named {
            if name.is_empty() || entries.last().is_some_and(|before| before.name == name) {
                return Err(Error::config("parameter", format!("{name:?}"), "names that differ"));
            }
            let end = shape
                .iter()
                .try_fold(1_usize, |size, &dim| size.checked_mul(dim))
                .filter(|&size| size > 0)
                .and_then(|size| start.checked_add(size))
                .filter(|&end| end <= MAX_NUMBERS);
            let Some(end) = end else {
                let name = format!("shape of parameter {name}");
                let expected = "dimensions of at least 1, and at most 2^33 numbers in all";
                return Err(Error::config(name, format!("{shape:?}"), expected));
            };
            entries.push(Entry { name, shape, range: start..end });
            start = end;
        }
        Ok(Self { entries, values: vec![0.0; start] })
    }

    /// Names with shapes, in the order of the vector.
    #[must_use]
    pub fn layout(&self) -> impl ExactSizeIterator<Item = (&str, &[usize])> {
        self.entries.iter().map(|entry| (entry.name.as_str(), entry.shape.as_slice()))
    }

    /// Every number, in the order of the names.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Every number, for writing.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Where the numbers of `name` lie in the vector.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names.
    pub fn range(&self, name: &str) -> Result<Range<usize>> {
        self.entry(name).map(|entry| entry.range.clone())
    }

    /// The numbers of `name`, which has this shape.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names, [`Error::Shape`] for another shape.
    pub fn array(&self, name: &str, shape: &[usize]) -> Result<&[f32]> {
        let entry = self.entry(name)?;
        entry.check(shape)?;
        Ok(self.values.get(entry.range.clone()).unwrap_or_default())
    }

    /// The numbers of `name`, which has this shape, for writing.
    ///
    /// # Errors
    /// As [`Parameters::array`].
    pub fn array_mut(&mut self, name: &str, shape: &[usize]) -> Result<&mut [f32]> {
        let entry = self.entry(name)?;
        entry.check(shape)?;
        let range = entry.range.clone();
        Ok(self.values.get_mut(range).unwrap_or_default())
    }

    /// The parameter `name` as a tensor.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let entry = self.entry(name)?;
        let values = self.values.get(entry.range.clone()).unwrap_or_default();
        TensorView::of_f32(&entry.shape, values)
    }

    /// Replaces every parameter: one float32 tensor for each name, in any order.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names; [`Error::Shape`] for another shape, and for a
    /// name that is missing or comes twice; [`Error::Config`] for another dtype. Nothing changes then.
    pub fn assign<'a>(
        &mut self,
        tensors: impl IntoIterator<Item = (&'a str, TensorView<'a>)>,
    ) -> Result<()> {
        let mut values = self.values.clone();
        let mut missing: Vec<&str> = self.layout().map(|(name, _)| name).collect();
        for (name, tensor) in tensors {
            let entry = self.entry(name)?;
            entry.check(tensor.shape())?;
            tensor.copy_to_f32(values.get_mut(entry.range.clone()).unwrap_or_default())?;
            let Some(place) = missing.iter().position(|other| *other == name) else {
                return Err(count(name, "two tensors"));
            };
            missing.remove(place);
        }
        if let Some(name) = missing.first() {
            return Err(count(name, "no tensor"));
        }
        self.values = values;
        Ok(())
    }

    fn entry(&self, name: &str) -> Result<&Entry> {
        let found = self.entries.binary_search_by(|entry| entry.name.as_str().cmp(name)).ok();
        found.and_then(|place| self.entries.get(place)).ok_or_else(|| {
            let names: Vec<&str> = self.layout().map(|(name, _)| name).collect();
            Error::unknown_name("parameter", name, &names)
        })
    }
}

impl Entry {
    fn check(&self, shape: &[usize]) -> Result<()> {
        if self.shape == shape {
            return Ok(());
        }
        let name = format!("parameter {}", self.name).into();
        let expected = format!("{shape:?}, the shape that was asked for");
        Err(Error::Shape { name, got: format!("shape {:?}", self.shape), expected })
    }
}

/// An error for a parameter that does not get one tensor.
fn count(name: &str, got: &str) -> Error {
    let (name, got) = (format!("parameter {name}").into(), got.to_owned());
    Error::Shape { name, got, expected: "one tensor for each parameter".to_owned() }
}
