//! Choice of the engine by the precision that Python passes.

use pyo3::prelude::*;

use crate::errors::{self, ErrorClass};

/// A value in single or in double precision.
pub(super) enum ByPrecision<S, D> {
    Single(S),
    Double(D),
}

/// Parses `f32` or `f64`.
pub(super) fn parse_precision(py: Python<'_>, precision: &str) -> PyResult<ByPrecision<(), ()>> {
    match precision {
        "f32" => Ok(ByPrecision::Single(())),
        "f64" => Ok(ByPrecision::Double(())),
        _ => {
            let message = format!("precision is {precision:?}, expected f32 or f64");
            Err(errors::new(py, ErrorClass::Config, message))
        }
    }
}

/// Makes a shared engine of `$made`, whose type parameter is inferred from the precision.
macro_rules! make_engine {
    ($py:expr, $precision:expr, $made:expr) => {{
        use $crate::errors::OrRaise as _;
        use $crate::nn::precision::{ByPrecision, parse_precision};
        parse_precision($py, $precision).and_then(|precision| match precision {
            ByPrecision::Single(()) => {
                $made.or_raise($py).map(|engine| ByPrecision::Single(rlox_core::Shared::new(engine)))
            }
            ByPrecision::Double(()) => {
                $made.or_raise($py).map(|engine| ByPrecision::Double(rlox_core::Shared::new(engine)))
            }
        })
    }};
}

/// Evaluates `$call` with the engine as `$name`; `$call` is generic in the precision.
macro_rules! match_precision {
    ($engine:expr, |$name:ident| $call:expr) => {
        match $engine {
            $crate::nn::precision::ByPrecision::Single($name) => $call,
            $crate::nn::precision::ByPrecision::Double($name) => $call,
        }
    };
}

pub(super) use {make_engine, match_precision};
