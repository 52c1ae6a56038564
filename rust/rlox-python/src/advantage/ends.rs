//! Episode flags from Python: `dones`, or `terminated` and `truncated`.

use numpy::PyUntypedArray;
use pyo3::prelude::*;
use rlox_core::advantage::{Ends, Flag};

use super::rollout::read_shaped;
use crate::convert::coerce::{self, OptionalArg};
use crate::errors::{self, ErrorClass};
use crate::memory::views::{Plain, View, ViewMut, has_dtype};

/// The episode flags that the caller passed.
pub(crate) struct EndArgs<'a, 'py> {
    pub(crate) dones: OptionalArg<'a, 'py>,
    pub(crate) terminated: OptionalArg<'a, 'py>,
    pub(crate) truncated: OptionalArg<'a, 'py>,
}

/// Episode flags in the dtype of the caller's arrays, so that common dtypes are not copied.
pub(crate) enum EndArrays<'py> {
    Bool(EndPair<'py, u8>),
    Single(EndPair<'py, f32>),
    Double(EndPair<'py, f64>),
}

/// An array and the name of its argument.
type NamedArray<'a, 'py> = (&'a Bound<'py, PyUntypedArray>, &'a str);

/// Contiguous flags. Without `truncated` every episode end is a termination.
pub(crate) struct EndPair<'py, G> {
    terminated: View<'py, G>,
    truncated: Option<View<'py, G>>,
}

impl<'py, G> EndPair<'py, G> {
    /// Reads both arrays with `read`.
    fn read(
        terminated: NamedArray<'_, 'py>,
        truncated: Option<NamedArray<'_, 'py>>,
        read: fn(&Bound<'py, PyUntypedArray>, &str) -> PyResult<View<'py, G>>,
    ) -> PyResult<Self> {
        let truncated = truncated.map(|(array, name)| read(array, name)).transpose()?;
        Ok(Self { terminated: read(terminated.0, terminated.1)?, truncated })
    }
}

impl<G: Plain + Flag> EndPair<'_, G> {
    /// Returns the flags as the kernels take them.
    pub(crate) fn ends(&self) -> Ends<'_, G> {
        let terminated = self.terminated.slice();
        match &self.truncated {
            Some(truncated) => Ends { terminated, truncated: truncated.slice() },
            None => Ends::without_truncation(terminated),
        }
    }
}

impl<'py> EndArrays<'py> {
    /// Reads flags of `shape`. Truncation needs the values of the states that the steps reached.
    pub(crate) fn read(
        py: Python<'py>,
        args: &EndArgs<'_, 'py>,
        shape: &[usize],
        has_next_values: bool,
    ) -> PyResult<Self> {
        let config_error = |message: &str| Err(errors::new(py, ErrorClass::Config, message));
        match (args.dones, args.terminated, args.truncated) {
            (None, None, None) => config_error(
                "no episode ends given: pass dones, or terminated (and truncated), zeros if none ends",
            ),
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => config_error(
                "dones was given together with terminated or truncated; pass dones alone, or \
                 terminated and truncated",
            ),
            (_, _, Some(_)) if !has_next_values => config_error(
                "truncated was given without next_values; pass next_values, V of the state each \
                 step reached (the final observation after truncation)",
            ),
            (Some(dones), None, None) => {
                Self::without_truncation(&read_shaped(dones, "dones", shape)?, "dones")
            }
            (None, Some(flag), None) => {
                Self::without_truncation(&read_shaped(flag, "terminated", shape)?, "terminated")
            }
            (None, None, Some(truncated_arg)) => {
                let no_termination = ViewMut::<bool>::fresh(py, shape)?.into_array();
                Self::with_truncation(&no_termination, &read_shaped(truncated_arg, "truncated", shape)?)
            }
            (None, Some(flag), Some(truncated_flags)) => Self::with_truncation(
                &read_shaped(flag, "terminated", shape)?,
                &read_shaped(truncated_flags, "truncated", shape)?,
            ),
        }
    }

    fn without_truncation(ends: &Bound<'py, PyUntypedArray>, name: &str) -> PyResult<Self> {
        Self::from_arrays((ends, name), None)
    }

    fn with_truncation(
        terminated: &Bound<'py, PyUntypedArray>,
        truncated: &Bound<'py, PyUntypedArray>,
    ) -> PyResult<Self> {
        Self::from_arrays((terminated, "terminated"), Some((truncated, "truncated")))
    }

    fn from_arrays(
        terminated: NamedArray<'_, 'py>,
        truncated: Option<NamedArray<'_, 'py>>,
    ) -> PyResult<Self> {
        let all = |predicate: fn(&Bound<'py, PyUntypedArray>) -> bool| {
            predicate(terminated.0) && truncated.is_none_or(|(array, _)| predicate(array))
        };
        Ok(if all(has_dtype::<f64>) {
            Self::Double(EndPair::read(terminated, truncated, read_flags)?)
        } else if all(has_dtype::<f32>) {
            Self::Single(EndPair::read(terminated, truncated, read_flags)?)
        } else {
            Self::Bool(EndPair::read(terminated, truncated, coerce::bools)?)
        })
    }
}

/// Reads numbers as flags: 0 is false, other numbers are true, NaN is an error.
fn read_flags<'py, T: Plain + Flag>(
    array: &Bound<'py, PyUntypedArray>,
    name: &str,
) -> PyResult<View<'py, T>> {
    let flags = coerce::numbers::<T>(array, name)?;
    coerce::refuse_nan(array.py(), flags.slice(), name)?;
    Ok(flags)
}

/// Runs the body with the pair of flags, of any type, as `$pair`.
macro_rules! with_ends {
    ($ends:expr, $pair:ident => $body:expr) => {
        match $ends {
            $crate::advantage::ends::EndArrays::Bool($pair) => $body,
            $crate::advantage::ends::EndArrays::Single($pair) => $body,
            $crate::advantage::ends::EndArrays::Double($pair) => $body,
        }
    };
}

pub(crate) use with_ends;
