//! What computes in the precision that Python asks for.

use pyo3::prelude::*;

use crate::errors::{self, Class};

/// Something of single or of double precision.
pub(super) enum Either<S, D> {
    Single(S),
    Double(D),
}

/// `f32` or `f64`.
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

/// The engine that `$made` gives, as a shared one: it is inferred to be of the precision that is asked for.
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

/// `$call` of whichever `$engine` is, called `$name` there: a function generic in the precision.
macro_rules! either {
    ($engine:expr, |$name:ident| $call:expr) => {
        match $engine {
            $crate::nn::precision::Either::Single($name) => $call,
            $crate::nn::precision::Either::Double($name) => $call,
        }
    };
}

pub(super) use {either, engine};
