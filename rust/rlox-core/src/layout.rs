//! Positions of named arrays in one flat vector.

use std::ops::Range;

use crate::error::{Error, Result};

/// Maximum number of elements: 32 GiB of float32.
const MAX_NUMBERS: usize = 1 << 33;

/// Names, shapes and ranges of arrays that follow each other in one vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The arrays in the order of the vector.
    entries: Vec<Entry>,
    /// Indices into `entries`, sorted by name.
    by_name: Vec<usize>,
    len: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    name: String,
    shape: Vec<usize>,
    range: Range<usize>,
}

impl Layout {
    /// Returns a layout of these arrays in the order of their names (by bytes), without gaps. So
    /// names and shapes alone determine the position of a number.
    ///
    /// # Errors
    /// [`Error::Config`] for a duplicate or empty name, a dimension of 0, or more than 2^33
    /// numbers.
    pub fn sorted<N: Into<String>, S: Into<Vec<usize>>>(
        arrays: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self> {
        let mut sorted_arrays: Vec<(String, Vec<usize>)> =
            arrays.into_iter().map(|(name, shape)| (name.into(), shape.into())).collect();
        sorted_arrays.sort_unstable();
        Self::aligned(1, sorted_arrays)
    }

    /// Returns a layout of these arrays in this order. Each array begins at a multiple of `align`
    /// numbers, and the length of the vector is a multiple of `align`. The numbers between two
    /// arrays are padding.
    ///
    /// # Errors
    /// As [`Layout::sorted`]; [`Error::Config`] for an `align` of 0.
    pub fn aligned<N: Into<String>, S: Into<Vec<usize>>>(
        align: usize,
        arrays: impl IntoIterator<Item = (N, S)>,
    ) -> Result<Self> {
        if align == 0 {
            return Err(Error::config("align", 0, "at least 1"));
        }
        let (mut entries, mut len) = (Vec::new(), 0_usize);
        for (name, shape) in arrays {
            let (name, shape) = (name.into(), shape.into());
            let Some(end) = checked_end(len, &shape) else {
                let name = format!("shape of parameter {name}");
                let expected = "dimensions of at least 1, and at most 2^33 numbers in all";
                return Err(Error::config(name, format!("{shape:?}"), expected));
            };
            entries.push(Entry { name, shape, range: len..end });
            len = end.next_multiple_of(align);
        }
        Self::from_entries(entries, len)
    }

    fn from_entries(entries: Vec<Entry>, len: usize) -> Result<Self> {
        let mut by_name: Vec<(&str, usize)> =
            entries.iter().zip(0..).map(|(entry, place)| (entry.name.as_str(), place)).collect();
        by_name.sort_unstable();
        let mut previous_name = "";
        for (name, _) in &by_name {
            if *name == previous_name {
                return Err(Error::config("parameter", format!("{name:?}"), "names that differ"));
            }
            previous_name = name;
        }
        let by_name = by_name.into_iter().map(|(_, place)| place).collect();
        Ok(Self { entries, by_name, len })
    }

    /// Returns the number of elements of the vector, including padding.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no arrays.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns names, shapes and ranges in the order of the vector.
    #[must_use]
    pub fn arrays(&self) -> impl ExactSizeIterator<Item = (&str, &[usize], Range<usize>)> {
        self.entries.iter().map(|e| (e.name.as_str(), e.shape.as_slice(), e.range.clone()))
    }

    /// Returns the shape and the range of the array `name`.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names.
    pub fn find(&self, name: &str) -> Result<(&[usize], Range<usize>)> {
        let position = self.by_name.binary_search_by(|&place| self.name(place).cmp(name));
        let entry_index = position.ok().and_then(|place| self.by_name.get(place));
        let entry = entry_index.and_then(|&place| self.entries.get(place)).ok_or_else(|| {
            let names: Vec<&str> = self.entries.iter().map(|entry| entry.name.as_str()).collect();
            Error::unknown_name("parameter", name, &names)
        })?;
        Ok((&entry.shape, entry.range.clone()))
    }

    /// Returns the range of the array `name`, which must have this shape.
    ///
    /// # Errors
    /// [`Error::UnknownName`] with the nearest names, [`Error::Shape`] for another shape.
    pub fn range(&self, name: &str, shape: &[usize]) -> Result<Range<usize>> {
        let (actual_shape, range) = self.find(name)?;
        if actual_shape == shape {
            return Ok(range);
        }
        let name = format!("parameter {name}").into();
        let expected = format!("{shape:?}, the shape that was asked for");
        Err(Error::Shape { name, got: format!("shape {actual_shape:?}"), expected })
    }

    fn name(&self, index: usize) -> &str {
        self.entries.get(index).map_or("", |entry| entry.name.as_str())
    }
}

/// Returns the end of an array that begins at `start`. Returns None if the array has no elements or
/// ends beyond [`MAX_NUMBERS`].
fn checked_end(start: usize, shape: &[usize]) -> Option<usize> {
    shape
        .iter()
        .try_fold(1_usize, |size, &dim| size.checked_mul(dim))
        .filter(|&size| size > 0)
        .and_then(|size| start.checked_add(size))
        .filter(|&end| end <= MAX_NUMBERS)
}
