//! Named parameters in one flat vector.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tensor::TensorView;

/// The parameters of a model: float32 arrays in one vector, in the order of their names (by bytes)
/// unless their [`Layout`] says otherwise.
///
/// Whoever handles all numbers alike (an optimizer, Polyak averaging, a checkpoint) takes the vector;
/// whoever knows what they mean takes them by name.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    layout: Layout,
    values: Vec<f32>,
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
        Layout::sorted(named).map(Self::of)
    }

    /// Parameters that lie as `layout` says, all 0.
    #[must_use]
    pub fn of(layout: Layout) -> Self {
        Self { values: vec![0.0; layout.len()], layout }
    }

    /// Where each parameter lies.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Every number.
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
        self.layout.find(name).map(|(_, range)| range)
    }

    /// The numbers of `name`, which has this shape.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names, [`Error::Shape`] for another shape.
    pub fn array(&self, name: &str, shape: &[usize]) -> Result<&[f32]> {
        let range = self.layout.range(name, shape)?;
        Ok(self.values.get(range).unwrap_or_default())
    }

    /// The numbers of `name`, which has this shape, for writing.
    ///
    /// # Errors
    /// As [`Parameters::array`].
    pub fn array_mut(&mut self, name: &str, shape: &[usize]) -> Result<&mut [f32]> {
        let range = self.layout.range(name, shape)?;
        Ok(self.values.get_mut(range).unwrap_or_default())
    }

    /// The parameter `name` as a tensor.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let (shape, range) = self.layout.find(name)?;
        TensorView::of_f32(shape, self.values.get(range).unwrap_or_default())
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
        let mut missing: Vec<&str> = self.layout.arrays().map(|(name, ..)| name).collect();
        for (name, tensor) in tensors {
            let range = self.layout.range(name, tensor.shape())?;
            tensor.copy_to_f32(values.get_mut(range).unwrap_or_default())?;
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
}

/// An error for a parameter that does not get one tensor.
fn count(name: &str, got: &str) -> Error {
    let (name, got) = (format!("parameter {name}").into(), got.to_owned());
    Error::Shape { name, got, expected: "one tensor for each parameter".to_owned() }
}
