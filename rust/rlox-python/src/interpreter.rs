//! What the interpreter has to have before anything is done in it.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Refuses an interpreter whose threads run without its lock, and imports NumPy.
///
/// By the lock the claims of `memory::views` know that nobody else is at them. A free-threaded interpreter
/// takes it for this module, unless it was told not to. NumPy is imported here, so that a Ctrl-C in the middle
/// of that is an exception of the import: where the first array needs it, there is no way to say that it failed.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let asked = py.import("sys")?.getattr_opt("_is_gil_enabled")?;
    if asked.map(|asked| asked.call0()?.is_truthy()).transpose()? == Some(false) {
        return Err(PyImportError::new_err(
            "rlox needs the interpreter's lock (GIL), without which this process was started: leave out \
             PYTHON_GIL=0 or -X gil=0",
        ));
    }
    numpy::get_array_module(py).map(|_| ())
}
