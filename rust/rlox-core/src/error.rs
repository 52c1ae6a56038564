//! The error type of the crate. A message names the checked item, its value, the expected value and
//! the remedy.

use std::borrow::Cow;

use thiserror::Error as ThisError;

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// An error of this crate: invalid input, a failed file operation, an interruption or a bug.
///
/// The enum is exhaustive on purpose. The Python boundary maps every variant to one exception
/// class, and a new variant must not compile until it has one.
#[derive(Debug, Clone, PartialEq, ThisError)]
pub enum Error {
    /// A scalar setting is out of its range.
    #[error("{name} is {got}, expected {expected}")]
    Config {
        /// Name of the parameter.
        name: Cow<'static, str>,
        /// Its value as text.
        got: String,
        /// The accepted range and the remedy.
        expected: String,
    },
    /// An array has the wrong length or shape.
    #[error("{name} has {got}, expected {expected}")]
    Shape {
        /// Name of the array.
        name: Cow<'static, str>,
        /// Its size as text.
        got: String,
        /// The expected size and where it comes from.
        expected: String,
    },
    /// A name is not registered.
    #[error("unknown {kind} {name:?}; {hint}")]
    UnknownName {
        /// Kind of the item, such as `environment`.
        kind: Cow<'static, str>,
        /// The requested name.
        name: String,
        /// The similar names, or all known names.
        hint: String,
    },
    /// The environment does not accept an action.
    #[error("action of env {env} is {got}, expected {expected}")]
    Action {
        /// Index of the environment in the batch.
        env: usize,
        /// The action as text.
        got: String,
        /// The accepted actions.
        expected: String,
    },
    /// A number is NaN or infinite where a finite number is needed.
    #[error("{name} is {value} at flat index {index}, expected a finite number")]
    NonFinite {
        /// Name of the array or parameter.
        name: Cow<'static, str>,
        /// Position in row-major order.
        index: usize,
        /// The offending value.
        value: f64,
    },
    /// A row is not in the buffer: it was overwritten or never written.
    #[error("row {} is not in the buffer, which holds {held}", index_or_negative(*.index))]
    StaleIndex {
        /// The requested index.
        index: u64,
        /// The rows in the buffer, as text.
        held: String,
    },
    /// A snapshot belongs to another kind of object, or it was altered.
    #[error("snapshot field {field} is {got}, expected {expected}")]
    Snapshot {
        /// The field of the snapshot.
        field: Cow<'static, str>,
        /// The value of the field, as text.
        got: String,
        /// The value that the receiver needs.
        expected: String,
    },
    /// The file system refused an operation.
    #[error("cannot {action} {path}: {cause}")]
    Storage {
        /// The operation, such as `write`.
        action: Cow<'static, str>,
        /// The file or folder.
        path: String,
        /// The system's message.
        cause: String,
    },
    /// The content of a file differs from the content that was written.
    #[error("{path} is damaged at byte {offset}: {what}; go back to an earlier copy")]
    Damaged {
        /// Path of the file.
        path: String,
        /// Byte offset of the damage.
        offset: u64,
        /// The actual and the expected content.
        what: String,
    },
    /// A folder has no save of the requested name.
    #[error("there is no save {name:?} in {folder}; there is {there}")]
    Missing {
        /// The requested name.
        name: String,
        /// The folder.
        folder: String,
        /// The saves in the folder.
        there: String,
    },
    /// This crate has a bug.
    #[error("internal error: {what}; please report it and discard the object involved")]
    Internal {
        /// The inconsistency.
        what: String,
    },
    /// The caller interrupted the work, see [`crate::interrupt`].
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// Returns an [`Error::Config`].
    pub fn config(
        name: impl Into<Cow<'static, str>>,
        got: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self::Config { name: name.into(), got: got.to_string(), expected: expected.into() }
    }

    /// Returns an [`Error::Snapshot`].
    pub fn snapshot(
        field: impl Into<Cow<'static, str>>,
        got: impl std::fmt::Display,
        expected: impl std::fmt::Display,
    ) -> Self {
        Self::Snapshot { field: field.into(), got: got.to_string(), expected: expected.to_string() }
    }

    /// Returns an [`Error::Storage`].
    pub fn storage(
        action: impl Into<Cow<'static, str>>,
        path: &std::path::Path,
        cause: impl std::fmt::Display,
    ) -> Self {
        Self::Storage { action: action.into(), path: path.display().to_string(), cause: cause.to_string() }
    }

    /// Returns an [`Error::Damaged`].
    pub fn damaged(path: &std::path::Path, offset: u64, description: impl Into<String>) -> Self {
        Self::Damaged { path: path.display().to_string(), offset, what: description.into() }
    }

    /// Returns an [`Error::Internal`].
    pub fn internal(description: impl Into<String>) -> Self {
        Self::Internal { what: description.into() }
    }

    /// Returns an [`Error::UnknownName`]. It proposes the known names that begin like `name` or are
    /// at most two edits away. If there are none, it lists all known names.
    #[must_use]
    pub fn unknown_name(kind: impl Into<Cow<'static, str>>, name: &str, known_names: &[&str]) -> Self {
        let lowercase_name = name.to_lowercase();
        let similar_names: Vec<&str> = known_names
            .iter()
            .copied()
            .filter(|candidate| is_similar(&lowercase_name, &candidate.to_lowercase()))
            .collect();
        let hint = if similar_names.is_empty() {
            format!("known: {}", known_names.join(", "))
        } else {
            format!("did you mean {}?", similar_names.join(" or "))
        };
        Self::UnknownName { kind: kind.into(), name: name.to_owned(), hint }
    }
}

/// Formats an index. If the index exceeds int64, the text also has the negative int64 of the same
/// bits.
fn index_or_negative(index: u64) -> String {
    let negative = index.cast_signed();
    if negative < 0 { format!("{index} ({negative} as int64)") } else { index.to_string() }
}

/// Checks that array `name` has `expected` elements. `reason` says where that number comes from.
///
/// # Errors
/// [`Error::Shape`] if the lengths differ.
#[inline]
pub fn check_len(name: &'static str, got: usize, expected: usize, reason: &str) -> Result<()> {
    if got == expected { Ok(()) } else { Err(wrong_len(name, got, expected, reason)) }
}

#[cold]
fn wrong_len(name: &'static str, got: usize, expected: usize, reason: &str) -> Error {
    let (got, expected) = (format!("{got} elements"), format!("{expected} ({reason})"));
    Error::Shape { name: name.into(), got, expected }
}

/// Checks that every element of array `name` is finite.
pub(crate) fn check_finite(name: &'static str, values: &[f64]) -> Result<()> {
    match values.iter().enumerate().find(|(_, value)| !value.is_finite()) {
        Some((index, &value)) => Err(Error::NonFinite { name: name.into(), index, value }),
        None => Ok(()),
    }
}

/// Returns true if one name is the start of the other, or if they are at most two edits apart.
/// `name` may also start with `candidate` without its version, such as `-v1`.
fn is_similar(name: &str, candidate: &str) -> bool {
    let stem = candidate.split("-v").next().unwrap_or(candidate);
    !name.is_empty()
        && (name.len() >= 3 && candidate.starts_with(name)
            || name.starts_with(stem)
            || edit_distance(name, candidate) <= 2)
}

/// Returns the Levenshtein distance in bytes.
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
    fn an_unknown_name_suggests_the_nearest_ones() {
        let known = ["CartPole-v1", "Pendulum-v1"];
        for typo in ["cartpole-v1", "CartPole", "CartPole-v0", "Cartpol-v1", "CartPole-v12"] {
            let message = Error::unknown_name("environment", typo, &known).to_string();
            assert!(message.ends_with("did you mean CartPole-v1?"), "{message}");
        }
    }

    #[test]
    fn a_name_without_similar_ones_lists_all_known_names() {
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
