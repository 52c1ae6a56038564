//! Preference pairs for Python.

use pyo3::prelude::*;
use rlox_core::llm::preference::DpoPair;

use super::tokens::read_token_ids;
use crate::errors::OrRaise;
use crate::memory::views::ViewMut;

/// A prompt with a preferred and a dispreferred completion, for DPO (Rafailov et al. 2023).
///
/// Immutable; pairs with the same tokens are equal.
///
/// Args:
///     prompt_tokens: token ids in 0..2**32, `[P]`; may be empty.
///     chosen_tokens: token ids of the preferred completion, `[C]`, at least one.
///     rejected_tokens: token ids of the dispreferred completion, `[R]`, at least one.
///
/// Raises:
///     ShapeError: tokens are not one-dimensional or not integers, or a completion is empty.
///     ConfigError: a token id is out of range.
#[pyclass(name = "DPOPair", module = "rlox._core", frozen, eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub(crate) struct PyDpoPair {
    inner: DpoPair,
}

#[pymethods]
impl PyDpoPair {
    #[new]
    fn new(
        py: Python<'_>,
        prompt_tokens: &Bound<'_, PyAny>,
        chosen_tokens: &Bound<'_, PyAny>,
        rejected_tokens: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let pair = DpoPair::new(
            read_token_ids(prompt_tokens, "prompt_tokens")?,
            read_token_ids(chosen_tokens, "chosen_tokens")?,
            read_token_ids(rejected_tokens, "rejected_tokens")?,
        );
        Ok(Self { inner: pair.or_raise(py)? })
    }

    /// Number of tokens of the prompt.
    fn prompt_len(&self) -> usize {
        self.inner.prompt().len()
    }

    /// Number of tokens of the preferred completion.
    fn chosen_len(&self) -> usize {
        self.inner.chosen().len()
    }

    /// Number of tokens of the dispreferred completion.
    fn rejected_len(&self) -> usize {
        self.inner.rejected().len()
    }

    /// Token ids of the prompt, a new uint32 `[P]`.
    #[getter]
    fn prompt_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        concatenate_ids(py, &[self.inner.prompt()])
    }

    /// Token ids of the preferred completion, a new uint32 `[C]`.
    #[getter]
    fn chosen_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        concatenate_ids(py, &[self.inner.chosen()])
    }

    /// Token ids of the dispreferred completion, a new uint32 `[R]`.
    #[getter]
    fn rejected_tokens<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        concatenate_ids(py, &[self.inner.rejected()])
    }

    /// Prompt and preferred completion, a new uint32 `[P + C]`.
    fn chosen_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        concatenate_ids(py, &[self.inner.prompt(), self.inner.chosen()])
    }

    /// Prompt and dispreferred completion, a new uint32 `[P + R]`.
    fn rejected_ids<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        concatenate_ids(py, &[self.inner.prompt(), self.inner.rejected()])
    }

    /// Mask of `chosen_ids()`: True for the completion's tokens, which enter a loss, bool
    /// `[P + C]`.
    fn chosen_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        mask(py, self.prompt_len(), self.chosen_len())
    }

    /// Mask of `rejected_ids()`: True for the completion's tokens, which enter a loss, bool
    /// `[P + R]`.
    fn rejected_mask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        mask(py, self.prompt_len(), self.rejected_len())
    }

    fn __repr__(&self) -> String {
        let [prompt, chosen, rejected] = [self.prompt_len(), self.chosen_len(), self.rejected_len()];
        format!("DPOPair(prompt_len={prompt}, chosen_len={chosen}, rejected_len={rejected})")
    }
}

/// Concatenates the parts.
fn concatenate_ids<'py>(py: Python<'py>, parts: &[&[u32]]) -> PyResult<Bound<'py, PyAny>> {
    let all = parts.concat();
    let mut out = ViewMut::<u32>::fresh(py, &[all.len()])?;
    out.slice_mut().copy_from_slice(&all);
    Ok(out.into_array().into_any())
}

/// Returns a mask that is false for the prompt and true for the completion.
fn mask(py: Python<'_>, prompt: usize, completion: usize) -> PyResult<Bound<'_, PyAny>> {
    let mut out = ViewMut::<bool>::fresh(py, &[prompt + completion])?;
    out.slice_mut().iter_mut().skip(prompt).for_each(|flag| *flag = true);
    Ok(out.into_array().into_any())
}
