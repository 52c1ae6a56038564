//! Requirements on the Python interpreter.

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// Refuses an interpreter whose threads run without the GIL, and imports NumPy.
///
/// The claims of `memory::views` rely on the GIL for exclusive access. A free-threaded interpreter
/// turns the GIL on for this module, unless PYTHON_GIL=0 or -X gil=0 forbids that. NumPy is
/// imported here, so that a Ctrl-C during NumPy's import makes this module's import fail. Later,
/// where the first array needs NumPy, there is no way to report the failure.
pub(crate) fn prepare(py: Python<'_>) -> PyResult<()> {
    let gil_check = py.import("sys")?.getattr_opt("_is_gil_enabled")?;
    if gil_check.map(|function| function.call0()?.is_truthy()).transpose()? == Some(false) {
        return Err(PyImportError::new_err(
            "rlox needs the interpreter's lock (GIL), but this process was started without it: leave out \
             PYTHON_GIL=0 or -X gil=0",
        ));
    }
    numpy::get_array_module(py).map(|_| ())
}
