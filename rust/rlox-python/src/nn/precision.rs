//! Choice of the engine by the precision that Python passes.

use pyo3::prelude::*;

use crate::errors::{self, Class};

/// A value in single or in double precision.
pub(super) enum Either<S, D> {
    Single(S),
    Double(D),
}

/// Parses `f32` or `f64`.
pub(super) fn named(py: Python<'_>, precision: &str) -> PyResult<Either<(), ()>> {
    match precision {
        "f32" => Ok(Either::Single(())),
        "f64" => Ok(Either::Double(())),
        _ => {
            let message = format!("precision is {precision:?}, expected f32 or f64");
            Err(errors::new(py, Class::Config, message))
        }
    }
}

/// Makes a shared engine of `$made`, whose type parameter is inferred from the precision.
macro_rules! engine {
    ($py:expr, $precision:expr, $made:expr) => {{
        use $crate::errors::OrRaise as _;
        use $crate::nn::precision::{Either, named};
        named($py, $precision).and_then(|precision| match precision {
            Either::Single(()) => {
                $made.or_raise($py).map(|engine| Either::Single(rlox_core::Shared::new(engine)))
            }
            Either::Double(()) => {
                $made.or_raise($py).map(|engine| Either::Double(rlox_core::Shared::new(engine)))
            }
        })
    }};
}

/// Evaluates `$call` with the engine as `$name`; `$call` is generic in the precision.
macro_rules! either {
    ($engine:expr, |$name:ident| $call:expr) => {
        match $engine {
            $crate::nn::precision::Either::Single($name) => $call,
            $crate::nn::precision::Either::Double($name) => $call,
        }
    };
}

pub(super) use {either, engine};
