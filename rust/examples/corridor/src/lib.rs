#![doc = include_str!("../README.md")]

mod corridor;

pub use corridor::Corridor;
use rlox_core::env::registry::Entry;

/// Returns the registry entry: the environment's rules, and the precisions that they offer.
#[must_use]
pub fn entry() -> Entry {
    Entry::new::<f64>(&Corridor).with_f32(&Corridor)
}

/// The Python module `rlox_corridor`: rlox's classes for its own environments and this one.
#[cfg(feature = "extension-module")]
#[pyo3::pymodule(gil_used = true)]
mod rlox_corridor {
    use pyo3::prelude::*;
    #[pymodule_export]
    use rlox_py::{PyNativeEnv, PySingleEnv, PyVecEnv, native_env_ids};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        rlox_py::register(module.py(), super::entry())
    }
}
