//! Pairs of completions of one prompt; the first is preferred to the second.

use crate::error::{Error, Result};

/// A prompt with a preferred and a dispreferred completion, as token ids.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DpoPair {
    prompt: Vec<u32>,
    chosen: Vec<u32>,
    rejected: Vec<u32>,
}

impl DpoPair {
    /// Returns a pair; the prompt may be empty.
    ///
    /// # Errors
    /// [`Error::Shape`] if a completion is empty: it has no log-probability to compare.
    pub fn new(prompt: Vec<u32>, chosen: Vec<u32>, rejected: Vec<u32>) -> Result<Self> {
        for (name, tokens) in [("chosen_tokens", &chosen), ("rejected_tokens", &rejected)] {
            if tokens.is_empty() {
                return Err(Error::Shape {
                    name: name.into(),
                    got: "no tokens".to_owned(),
                    expected: "at least one: an empty completion has no log-probability".to_owned(),
                });
            }
        }
        Ok(Self { prompt, chosen, rejected })
    }

    /// Returns the token ids of the prompt.
    #[must_use]
    pub fn prompt(&self) -> &[u32] {
        &self.prompt
    }

    /// Returns the token ids of the preferred completion.
    #[must_use]
    pub fn chosen(&self) -> &[u32] {
        &self.chosen
    }

    /// Returns the token ids of the dispreferred completion.
    #[must_use]
    pub fn rejected(&self) -> &[u32] {
        &self.rejected
    }
}
