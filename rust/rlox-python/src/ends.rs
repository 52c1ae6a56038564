//! Episode flags from Python: `dones`, or `terminated` and `truncated`.

use numpy::{Element, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray};
use pyo3::prelude::*;
use rlox_core::advantage::{Ends, Flag};

use crate::coerce;
use crate::errors::{self, Class};

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
    Bool(EndPair<'py, bool>),
    Single(EndPair<'py, f32>),
    Double(EndPair<'py, f64>),
}

/// Contiguous flags; without `truncated` every end is a termination.
pub(crate) struct EndPair<'py, G: Element> {
    terminated: PyReadonlyArrayDyn<'py, G>,
    truncated: Option<PyReadonlyArrayDyn<'py, G>>,
}

impl<G: Element + Flag> EndPair<'_, G> {
    /// The kernels' view.
    pub(crate) fn ends(&self) -> PyResult<Ends<'_, G>> {
        let terminated = coerce::slice(&self.terminated, "terminated")?;
        match &self.truncated {
            Some(truncated) => {
                Ok(Ends { terminated, truncated: coerce::slice(truncated, "truncated")? })
            }
            None => Ok(Ends::without_truncation(terminated)),
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
                let never = PyArrayDyn::<bool>::zeros(py, shape, false);
                Self::both(never.as_untyped(), &flags(cut, "truncated", shape)?)
            }
            (None, Some(flag), Some(cut)) => {
                Self::both(&flags(flag, "terminated", shape)?, &flags(cut, "truncated", shape)?)
            }
        }
    }

    fn single(ends: &Bound<'py, PyUntypedArray>, name: &str) -> PyResult<Self> {
        Ok(if coerce::holds::<f64>(ends) {
            Self::Double(EndPair { terminated: coerce::numbers(ends, name)?, truncated: None })
        } else if coerce::holds::<f32>(ends) {
            Self::Single(EndPair { terminated: coerce::numbers(ends, name)?, truncated: None })
        } else {
            Self::Bool(EndPair { terminated: coerce::numbers(ends, name)?, truncated: None })
        })
    }

    fn both(
        terminated: &Bound<'py, PyUntypedArray>,
        truncated: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<Self> {
        Ok(if coerce::holds::<f64>(terminated) && coerce::holds::<f64>(truncated) {
            Self::Double(pair(terminated, truncated)?)
        } else if coerce::holds::<f32>(terminated) && coerce::holds::<f32>(truncated) {
            Self::Single(pair(terminated, truncated)?)
        } else {
            Self::Bool(pair(terminated, truncated)?)
        })
    }
}

fn pair<'py, G: Element>(
    terminated: &Bound<'py, PyUntypedArray>,
    truncated: &Bound<'py, PyUntypedArray>,
) -> PyResult<EndPair<'py, G>> {
    Ok(EndPair {
        terminated: coerce::numbers(terminated, "terminated")?,
        truncated: Some(coerce::numbers(truncated, "truncated")?),
    })
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
