//! Episode flags from Python: `dones`, or `terminated` and `truncated`.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use rlox_core::advantage::{Ends, Flag};

use crate::coerce;
use crate::errors::{self, Class};
use crate::views::{Plain, View, ViewMut, is_of};

/// An optional argument.
pub(crate) type Given<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The flags as the caller named them.
pub(crate) struct EndArgs<'a, 'py> {
    pub(crate) dones: Given<'a, 'py>,
    pub(crate) terminated: Given<'a, 'py>,
    pub(crate) truncated: Given<'a, 'py>,
}

/// Flags in the dtype they came in, so that the common ones are not copied.
pub(crate) enum EndArrays<'py> {
    Bool(EndPair<'py, u8>),
    Single(EndPair<'py, f32>),
    Double(EndPair<'py, f64>),
}

/// Contiguous flags; without `truncated` every end is a termination.
pub(crate) struct EndPair<'py, G> {
    terminated: View<'py, G>,
    truncated: Option<View<'py, G>>,
}

impl<G: Plain + Flag> EndPair<'_, G> {
    /// The kernels' view.
    pub(crate) fn ends(&self) -> Ends<'_, G> {
        let terminated = self.terminated.slice();
        match &self.truncated {
            Some(truncated) => Ends { terminated, truncated: truncated.slice() },
            None => Ends::without_truncation(terminated),
        }
    }
}

impl<'py> EndArrays<'py> {
    /// Reads flags of `shape`; truncation needs the values of the states reached.
    pub(crate) fn read(
        py: Python<'py>,
        args: &EndArgs<'_, 'py>,
        shape: &[usize],
        has_next_values: bool,
    ) -> PyResult<Self> {
        let config = |message: &str| Err(errors::new(py, Class::Config, message));
        match (args.dones, args.terminated, args.truncated) {
            (None, None, None) => config(
                "no episode ends given: pass dones, or terminated (and truncated); zeros if none",
            ),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => config(
                "dones was given together with terminated or truncated; pass dones alone, or \
                 terminated and truncated",
            ),
            (_, _, Some(_)) if !has_next_values => config(
                "truncated was given without next_values; pass next_values, V of the state each \
                 step reached (the final observation after truncation)",
            ),
            (Some(dones), None, None) => Self::single(&flags(dones, "dones", shape)?, "dones"),
            (None, Some(flag), None) => {
                Self::single(&flags(flag, "terminated", shape)?, "terminated")
            }
            (None, None, Some(cut)) => {
                let never = ViewMut::<bool>::fresh(py, shape)?.into_array();
                Self::both(&never, &flags(cut, "truncated", shape)?)
            }
            (None, Some(flag), Some(cut)) => {
                Self::both(&flags(flag, "terminated", shape)?, &flags(cut, "truncated", shape)?)
            }
        }
    }

    fn single(ends: &Bound<'py, PyUntypedArray>, name: &str) -> PyResult<Self> {
        Ok(if is_of::<f64>(ends) {
            Self::Double(EndPair { terminated: coerce::numbers(ends, name)?, truncated: None })
        } else if is_of::<f32>(ends) {
            Self::Single(EndPair { terminated: coerce::numbers(ends, name)?, truncated: None })
        } else {
            Self::Bool(EndPair { terminated: coerce::bools(ends, name)?, truncated: None })
        })
    }

    fn both(
        terminated: &Bound<'py, PyUntypedArray>,
        truncated: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<Self> {
        Ok(if is_of::<f64>(terminated) && is_of::<f64>(truncated) {
            Self::Double(EndPair {
                terminated: coerce::numbers(terminated, "terminated")?,
                truncated: Some(coerce::numbers(truncated, "truncated")?),
            })
        } else if is_of::<f32>(terminated) && is_of::<f32>(truncated) {
            Self::Single(EndPair {
                terminated: coerce::numbers(terminated, "terminated")?,
                truncated: Some(coerce::numbers(truncated, "truncated")?),
            })
        } else {
            Self::Bool(EndPair {
                terminated: coerce::bools(terminated, "terminated")?,
                truncated: Some(coerce::bools(truncated, "truncated")?),
            })
        })
    }
}

fn flags<'py>(
    value: &Bound<'py, PyAny>,
    name: &str,
    shape: &[usize],
) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = coerce::array(value, name)?;
    coerce::check_shape(&array, name, shape, "the shape of rewards")?;
    Ok(array)
}
