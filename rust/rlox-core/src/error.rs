//! The one error type: what was checked, what came, what was expected, what to do.

use std::borrow::Cow;

use thiserror::Error as ThisError;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can be wrong with what a caller passes in.
///
/// Exhaustive on purpose: the Python boundary maps every variant to one exception class, and a
/// new variant must not compile until it has one.
#[derive(Debug, Clone, PartialEq, ThisError)]
pub enum Error {
    /// A scalar setting is out of its range.
    #[error("{name} is {got}, expected {expected}")]
    Config {
        /// The parameter.
        name: Cow<'static, str>,
        /// Its value as text.
        got: String,
        /// The accepted range, and what to do.
        expected: String,
    },
    /// An array has the wrong length or shape.
    #[error("{name} has {got}, expected {expected}")]
    Shape {
        /// The array.
        name: Cow<'static, str>,
        /// Its size as text.
        got: String,
        /// The size that fits, and where it comes from.
        expected: String,
    },
    /// A name is in no registry.
    #[error("unknown {kind} {name:?}; {hint}")]
    UnknownName {
        /// What kind of thing was looked up, such as `environment`.
        kind: Cow<'static, str>,
        /// The name that was asked for.
        name: String,
        /// The nearest known names, or all of them.
        hint: String,
    },
    /// An action that the environment cannot take.
    #[error("action of env {env} is {got}, expected {expected}")]
    Action {
        /// Index of the environment in the batch.
        env: usize,
        /// The action as text.
        got: String,
        /// The accepted actions.
        expected: String,
    },
    /// NaN or infinity where a finite number is needed.
    #[error("{name} is {value} at flat index {index}, expected a finite number")]
    NonFinite {
        /// The array or parameter.
        name: Cow<'static, str>,
        /// Position in row-major order.
        index: usize,
        /// The offending value.
        value: f64,
    },
    /// A row of a buffer that was overwritten or never written.
    #[error("row {} is not in the buffer, which holds {held}", index_or_negative(*.index))]
    StaleIndex {
        /// The index asked for.
        index: u64,
        /// What the buffer holds.
        held: String,
    },
    /// A snapshot that belongs to another kind of object or was altered.
    #[error("snapshot field {field} is {got}, expected {expected}")]
    Snapshot {
        /// The field of the snapshot.
        field: Cow<'static, str>,
        /// What it holds.
        got: String,
        /// What the receiver needs.
        expected: String,
    },
    /// The file system refused.
    #[error("cannot {action} {path}: {cause}")]
    Storage {
        /// What was tried, such as `write`.
        action: Cow<'static, str>,
        /// The file or folder.
        path: String,
        /// The system's message.
        cause: String,
    },
    /// A file does not hold what was written to it.
    #[error("{path} is damaged at byte {offset}: {what}; go back to an earlier copy")]
    Damaged {
        /// The file.
        path: String,
        /// Where in the file.
        offset: u64,
        /// What was found, and what was expected.
        what: String,
    },
    /// A save of a name that there is none of.
    #[error("there is no save {name:?} in {folder}; there is {there}")]
    Missing {
        /// The name.
        name: String,
        /// The folder.
        folder: String,
        /// The saves that are there.
        there: String,
    },
    /// A mistake of this crate.
    #[error("internal error: {what}; please report it and discard the object involved")]
    Internal {
        /// What was found.
        what: String,
    },
    /// The work was told to stop, see [`crate::interrupt`].
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// An [`Error::Config`].
    pub fn config(
        name: impl Into<Cow<'static, str>>,
        got: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Config { name: name.into(), got: got.to_string(), expected: expected.into() }
    }

    /// An [`Error::Snapshot`].
    pub fn snapshot(
        field: impl Into<Cow<'static, str>>,
        got: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Self {
        Self::Snapshot { field: field.into(), got: got.to_string(), expected: expected.to_string() }
    }

    /// An [`Error::Storage`].
    pub fn storage(
        action: impl Into<Cow<'static, str>>,
        path: &std::path::Path,
        cause: impl std::fmt::Display,
    ) -> Self {
        Self::Storage {
            action: action.into(),
            path: path.display().to_string(),
            cause: cause.to_string(),
        }
    }

    /// An [`Error::Damaged`].
    pub fn damaged(path: &std::path::Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Damaged { path: path.display().to_string(), offset, what: what.into() }
    }

    /// An [`Error::Internal`].
    pub fn internal(what: impl Into<String>) -> Self {
        Self::Internal { what: what.into() }
    }

    /// An [`Error::UnknownName`] that proposes the names within two edits, or lists all.
    #[must_use]
    pub fn unknown_name(kind: impl Into<Cow<'static, str>>, name: &str, known: &[&str]) -> Self {
        let wanted = name.to_lowercase();
        let near: Vec<&str> = known
            .iter()
            .copied()
            .filter(|candidate| is_near(&wanted, &candidate.to_lowercase()))
            .collect();
        let hint = if near.is_empty() {
            format!("known: {}", known.join(", "))
        } else {
            format!("did you mean {}?", near.join(" or "))
        };
        Self::UnknownName { kind: kind.into(), name: name.to_owned(), hint }
    }
}

/// An index, and what it was if it came from int64.
fn index_or_negative(index: u64) -> String {
    let negative = index.cast_signed();
    if negative < 0 { format!("{index} ({negative} as int64)") } else { index.to_string() }
}

/// Checks that array `name` has `expected` elements; `why` says where that number comes from.
///
/// # Errors
/// [`Error::Shape`] if it has not.
#[inline]
pub fn check_len(name: &'static str, got: usize, expected: usize, why: &str) -> Result<()> {
    if got == expected { Ok(()) } else { Err(wrong_len(name, got, expected, why)) }
}

#[cold]
fn wrong_len(name: &'static str, got: usize, expected: usize, why: &str) -> Error {
    let (got, expected) = (format!("{got} elements"), format!("{expected} ({why})"));
    Error::Shape { name: name.into(), got, expected }
}

/// Checks that every element of array `name` is finite.
pub(crate) fn check_finite(name: &'static str, values: &[f64]) -> Result<()> {
    match values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        Some((index, &value)) => Err(Error::NonFinite { name: name.into(), index, value }),
        None => Ok(()),
    }
}

/// True if one name is the start of the other or at most two edits away.
fn is_near(wanted: &str, candidate: &str) -> bool {
    let stem = candidate.split("-v").next().unwrap_or(candidate);
    !wanted.is_empty()
        && (wanted.len() >= 3 && candidate.starts_with(wanted)
            || wanted.starts_with(stem)
            || edit_distance(wanted, candidate) <= 2)
}

/// Levenshtein distance in bytes.
fn edit_distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = i;
        let mut previous = i + 1;
        let mut next = vec![previous];
        for (b, &above) in right.bytes().zip(row.iter().skip(1)) {
            previous = (diagonal + usize::from(a != b)).min(previous + 1).min(above + 1);
            diagonal = above;
            next.push(previous);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_proposes_the_nearest_ones() {
        let known = ["CartPole-v1", "Pendulum-v1"];
        for typo in ["cartpole-v1", "CartPole", "CartPole-v0", "Cartpol-v1", "CartPole-v12"] {
            let message = Error::unknown_name("environment", typo, &known).to_string();
            assert!(message.ends_with("did you mean CartPole-v1?"), "{message}");
        }
    }

    #[test]
    fn a_name_like_no_other_lists_all_known_names() {
        let message = Error::unknown_name("environment", "Go", &["A-v1", "B-v1"]).to_string();
        assert_eq!(message, "unknown environment \"Go\"; known: A-v1, B-v1");
    }

    #[test]
    fn edit_distance_counts_inserts_deletes_and_swaps_of_letters() {
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", "abc"), 0);
    }
}
