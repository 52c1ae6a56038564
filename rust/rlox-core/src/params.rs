//! Named parameters in one flat vector.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::tensor::TensorView;

/// The parameters of a model: float32 arrays in one vector, in the order of their names (by bytes)
/// unless their [`Layout`] says otherwise.
///
/// Code that treats all numbers alike (an optimizer, Polyak averaging, a checkpoint) uses the
/// vector. Code that needs their meaning uses the names.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    layout: Layout,
    values: Vec<f32>,
}

impl Parameters {
    /// Returns parameters of these names and shapes, all 0. The order of `arrays` has no effect.
    ///
    /// # Errors
    /// [`Error::Config`] for a duplicate or empty name, a dimension of 0, or more than 2^33
    /// numbers.
    pub fn zeros<N: Into<String>, S: Into<Vec<usize>>>(
        arrays: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self> {
        Layout::sorted(arrays).map(Self::from_layout)
    }

    /// Returns parameters in the order of `layout`, all 0.
    #[must_use]
    pub fn from_layout(layout: Layout) -> Self {
        Self { values: vec![0.0; layout.len()], layout }
    }

    /// Returns the position of each parameter.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns all numbers.
    #[must_use]
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Returns all numbers for writing.
    pub fn values_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Returns the range of the numbers of `name` in the vector.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names.
    pub fn range(&self, name: &str) -> Result<Range<usize>> {
        self.layout.find(name).map(|(_, range)| range)
    }

    /// Returns the numbers of `name`, which must have this shape.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names, [`Error::Shape`] for another shape.
    pub fn array(&self, name: &str, shape: &[usize]) -> Result<&[f32]> {
        let range = self.layout.range(name, shape)?;
        Ok(self.values.get(range).unwrap_or_default())
    }

    /// Returns the numbers of `name`, which must have this shape, for writing.
    ///
    /// # Errors
    /// As [`Parameters::array`].
    pub fn array_mut(&mut self, name: &str, shape: &[usize]) -> Result<&mut [f32]> {
        let range = self.layout.range(name, shape)?;
        Ok(self.values.get_mut(range).unwrap_or_default())
    }

    /// Returns the parameter `name` as a tensor.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        let (shape, range) = self.layout.find(name)?;
        TensorView::of_f32(shape, self.values.get(range).unwrap_or_default())
    }

    /// Replaces every parameter. `tensors` has one float32 tensor for each name, in any order.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names; [`Error::Shape`] for another shape and for a
    /// missing or duplicate name; [`Error::Config`] for another dtype. Nothing changes then.
    pub fn assign<'a>(&mut self, tensors: impl IntoIterator<Item = (&'a str, TensorView<'a>)>) -> Result<()> {
        let mut values = self.values.clone();
        let mut missing: Vec<&str> = self.layout.arrays().map(|(name, ..)| name).collect();
        for (name, tensor) in tensors {
            let range = self.layout.range(name, tensor.shape())?;
            tensor.copy_to_f32(values.get_mut(range).unwrap_or_default())?;
            let Some(index) = missing.iter().position(|other| *other == name) else {
                return Err(count_error(name, "two tensors"));
            };
            missing.remove(index);
        }
        if let Some(name) = missing.first() {
            return Err(count_error(name, "no tensor"));
        }
        self.values = values;
        Ok(())
    }
}

/// Returns an error for a parameter that has no tensor or more than one.
fn count_error(name: &str, got: &str) -> Error {
    let (name, got) = (format!("parameter {name}").into(), got.to_owned());
    Error::Shape { name, got, expected: "one tensor for each parameter".to_owned() }
}
