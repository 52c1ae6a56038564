//! The arrays of a batch: fresh ones, or memory of the caller.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use rlox_core::{Dtype, Field};

use super::columns::Columns;
use crate::coerce;
use crate::errors::{self, Class};
use crate::views::{ViewMut, Written};

/// What a batch has after its indices, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct More {
    /// `discounts` of n-step windows.
    pub discounts: bool,
    /// `weights` of prioritized draws.
    pub weights: bool,
    /// `is_first` and `mask` of sequences.
    pub sequence: bool,
}

/// Element types of a batch's arrays.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Column(Dtype),
    Index,
}

const FLAG: Kind = Kind::Column(Dtype::Bool);

/// The most dimensions of an array.
const MOST_DIMS: usize = 16;

/// The arrays of one call, in the order of `Storage::fill`.
pub(super) struct Arrays<'a, 'py> {
    columns: &'a Columns,
    more: More,
    given: Option<&'a Bound<'py, PyDict>>,
    views: Vec<ViewMut<'py, u8>>,
}

impl<'a, 'py> Arrays<'a, 'py> {
    /// Arrays with the leading axes `lead`: those of the caller's dict `given`, or fresh ones.
    pub(super) fn new(
        py: Python<'py>,
        columns: &'a Columns,
        lead: &[usize],
        more: More,
        given: Option<&'a Bound<'py, PyDict>>,
    ) -> PyResult<Self> {
        let schema = columns.schema();
        let count = 2 * schema.obs().len() + schema.columns().len() + 5;
        let mut arrays = Self { columns, more, given, views: Vec::with_capacity(count) };
        for key in [intern!(py, "obs"), intern!(py, "next_obs")] {
            let nested = columns.dict().then(|| arrays.nested(key)).transpose()?.flatten();
            for (column, name) in schema.obs().iter().zip(columns.obs_keys()) {
                let (key, home) = match name {
                    Some(name) => (name.bind(py), nested.as_ref()),
                    None => (key, given),
                };
                arrays.add(py, home, key, &column.field, lead)?;
            }
        }
        for (field, key) in schema.columns().iter().zip(columns.column_keys()) {
            arrays.add(py, given, key.bind(py), field, lead)?;
        }
        for (key, kind) in tail(py, more) {
            arrays.add_kind(py, given, key, kind, lead)?;
        }
        Ok(arrays)
    }

    /// The bytes of all arrays.
    pub(super) fn slices(&mut self) -> Vec<&mut [u8]> {
        self.views.iter_mut().map(ViewMut::slice_mut).collect()
    }

    /// The batch as a dict: the caller's own, or a new one.
    pub(super) fn into_dict(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        if let Some(given) = self.given {
            return Ok(given.clone());
        }
        let dict = self.columns.batch(py, self.more)?;
        let tail = tail(py, self.more);
        let mut arrays = self.views.into_iter().map(ViewMut::into_array);
        for key in [intern!(py, "obs"), intern!(py, "next_obs")] {
            let mut home = dict.clone();
            if self.columns.dict() {
                home = PyDict::new(py);
                dict.set_item(key, &home)?;
            }
            for name in self.columns.obs_keys() {
                let key = name.as_ref().map_or(key, |name| name.bind(py));
                arrays.next().map_or(Ok(()), |array| home.set_item(key, array))?;
            }
        }
        let columns = self.columns.column_keys().iter().map(|key| key.bind(py));
        for (key, array) in columns.chain(tail.map(|(key, _)| key)).zip(arrays) {
            dict.set_item(key, array)?;
        }
        Ok(dict)
    }

    /// The caller's dict under `key`, for dict observations.
    fn nested(&self, key: &Bound<'py, PyString>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(given) = self.given else { return Ok(None) };
        let inner = given.get_item(key)?.and_then(|value| value.cast_into::<PyDict>().ok());
        inner.map(Some).ok_or_else(|| missing(key, "a dict of arrays"))
    }

    fn add(
        &mut self,
        py: Python<'py>,
        home: Option<&Bound<'py, PyDict>>,
        key: &Bound<'py, PyString>,
        field: &Field,
        lead: &[usize],
    ) -> PyResult<()> {
        let mut shape = [0; MOST_DIMS];
        let dims = lead.len() + field.shape.len();
        for (dim, &size) in shape.iter_mut().zip(lead.iter().chain(&field.shape)) {
            *dim = size;
        }
        let shape = shape.get(..dims).unwrap_or_default();
        self.add_kind(py, home, key, Kind::Column(field.dtype), shape)
    }

    fn add_kind(
        &mut self,
        py: Python<'py>,
        home: Option<&Bound<'py, PyDict>>,
        key: &Bound<'py, PyString>,
        kind: Kind,
        shape: &[usize],
    ) -> PyResult<()> {
        let place = Place { py, home, key, shape };
        let view = match kind {
            Kind::Column(Dtype::U8) => place.array::<u8>(),
            Kind::Column(Dtype::U16) => place.array::<u16>(),
            Kind::Column(Dtype::I8) => place.array::<i8>(),
            Kind::Column(Dtype::I16) => place.array::<i16>(),
            Kind::Column(Dtype::I32) => place.array::<i32>(),
            Kind::Column(Dtype::I64) => place.array::<i64>(),
            Kind::Column(Dtype::F32) => place.array::<f32>(),
            Kind::Column(Dtype::F64) => place.array::<f64>(),
            Kind::Column(Dtype::Bool) => place.array::<bool>(),
            Kind::Index => place.array::<u64>(),
        }?;
        self.views.push(view);
        Ok(())
    }
}

/// Where one array comes from.
struct Place<'a, 'py> {
    py: Python<'py>,
    home: Option<&'a Bound<'py, PyDict>>,
    key: &'a Bound<'py, PyString>,
    shape: &'a [usize],
}

impl<'py> Place<'_, 'py> {
    fn array<T: Written>(self) -> PyResult<ViewMut<'py, u8>> {
        let Some(home) = self.home else {
            return Ok(ViewMut::<T>::fresh(self.py, self.shape)?.into_bytes());
        };
        let value = home.get_item(self.key)?.ok_or_else(|| missing(self.key, "an array"))?;
        let name = self.key.to_string();
        // A tensor's NumPy view shares its memory; what a list becomes would be lost.
        let array = coerce::array(&value, &name)?;
        let owned = || array.as_any().getattr("flags")?.getattr("owndata")?.is_truthy();
        if !array.is(&value) && owned()? {
            return Err(missing(self.key, "an array or tensor that can be written to"));
        }
        Ok(coerce::output::<T>(array.as_any(), &name, self.shape)?.into_bytes())
    }
}

fn missing(key: &Bound<'_, PyString>, expected: &str) -> PyErr {
    let message = format!(
        "out[{key:?}] is missing or of no use, expected {expected}; pass what sample() returned"
    );
    errors::new(key.py(), Class::Shape, message)
}

/// Names and types of what follows the columns.
fn tail(py: Python<'_>, more: More) -> impl Iterator<Item = (&Bound<'_, PyString>, Kind)> {
    let float = Kind::Column(Dtype::F32);
    [
        (true, intern!(py, "terminated"), FLAG),
        (true, intern!(py, "truncated"), FLAG),
        (true, intern!(py, "indices"), Kind::Index),
        (more.discounts, intern!(py, "discounts"), float),
        (more.weights, intern!(py, "weights"), float),
        (more.sequence, intern!(py, "is_first"), FLAG),
        (more.sequence, intern!(py, "mask"), FLAG),
    ]
    .into_iter()
    .filter_map(|(present, key, kind)| present.then_some((key, kind)))
}
