//! Actions from Python: common arrays are used without a copy, everything else is converted.

use numpy::PyUntypedArrayMethods;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyList};
use rlox_core::env::Actions;
use rlox_core::space::ActionSpace;

use crate::convert::coerce;
use crate::errors::{self, ErrorClass};
use crate::memory::views::View;

/// Contiguous actions of the kind that an environment takes.
pub(crate) enum ActionArray<'py> {
    Discrete(View<'py, i64>),
    /// Actions from a list of integers.
    List(Vec<i64>),
    Box(View<'py, f32>),
}

impl<'py> ActionArray<'py> {
    /// Reads one action per environment: `[n]`, or `[n, action_dim]`.
    pub(crate) fn read(value: &Bound<'py, PyAny>, space: &ActionSpace, n: usize) -> PyResult<Self> {
        if let ActionSpace::Discrete { .. } = space
            && let Some(list) = read_list(value, n)
        {
            return Ok(Self::List(list));
        }
        let array = coerce::array(value, "actions")?;
        let fits = match *array.shape() {
            [rows] => rows == n && space.dim() == 1,
            [rows, dim] => rows == n && dim == space.dim(),
            _ => false,
        };
        if !fits {
            let dim = space.dim();
            let message = format!(
                "actions has shape {:?}, expected {}({n}, {dim})",
                array.shape(),
                if dim == 1 { format!("({n},) or ") } else { String::new() }
            );
            return Err(errors::new(value.py(), ErrorClass::Shape, message));
        }
        match space {
            ActionSpace::Discrete { .. } => coerce::elements(&array, "actions", "iub").map(Self::Discrete),
            ActionSpace::Box(_) => coerce::numbers(&array, "actions").map(Self::Box),
        }
    }

    /// Returns the actions as the core takes them.
    pub(crate) fn view(&self) -> Actions<'_> {
        match self {
            Self::Discrete(array) => Actions::Discrete(array.slice()),
            Self::List(list) => Actions::Discrete(list),
            Self::Box(array) => Actions::Box(array.slice()),
        }
    }
}

/// Reads a list of `n` integers without an array. None for anything else, which is then read as an
/// array.
fn read_list(value: &Bound<'_, PyAny>, n: usize) -> Option<Vec<i64>> {
    let list = value.cast_exact::<PyList>().ok()?;
    if list.len() != n {
        return None;
    }
    list.iter().map(|item| item.cast::<PyInt>().ok()?.extract().ok()).collect()
}
