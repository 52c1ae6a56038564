//! Settings by name, for callers that do not have this crate's types.

use std::collections::BTreeMap;
use std::fmt;

use rlox_core::error::{Error, Result};

use super::activation::Activation;

/// The value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// No value.
    None,
    /// True or false.
    Flag(bool),
    /// An integer of at least 0.
    Integer(u64),
    /// A number, NaN and infinities included.
    Number(f64),
    /// Text.
    Text(String),
    /// Widths of layers.
    Widths(Vec<usize>),
}

impl fmt::Display for Value {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => out.write_str("None"),
            Self::Flag(flag) => write!(out, "{flag}"),
            Self::Integer(integer) => write!(out, "{integer}"),
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => write!(out, "{text:?}"),
            Self::Widths(widths) => write!(out, "{widths:?}"),
        }
    }
}

/// Settings by name. The code that uses a setting takes it out; [`Values::finish`] refuses those
/// that nobody took.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Values {
    values: BTreeMap<String, Value>,
    /// The names of the settings that were asked for.
    known: Vec<&'static str>,
}

impl Values {
    /// Takes the setting `name` out.
    ///
    /// # Errors
    /// [`Error::Config`] if it is missing or has another type.
    pub fn take<T: FromValue>(&mut self, name: &'static str) -> Result<T> {
        self.known.push(name);
        let value = self.values.remove(name);
        let got = value.as_ref().map_or_else(|| "missing".to_owned(), ToString::to_string);
        T::from_value(value).ok_or_else(|| Error::config(name, got, T::EXPECTED))
    }

    /// Checks that every setting was taken.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for the first one that was not.
    pub fn finish(self) -> Result<()> {
        match self.values.first_key_value() {
            None => Ok(()),
            Some((name, _)) => Err(Error::unknown_name("setting", name, &self.known)),
        }
    }
}

impl FromIterator<(String, Value)> for Values {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(values: I) -> Self {
        Self { values: values.into_iter().collect(), known: Vec::new() }
    }
}

/// A type of a setting.
pub trait FromValue: Sized {
    /// Describes the accepted values in messages.
    const EXPECTED: &'static str;

    /// Converts the value, which is None if the setting is missing. Returns None if it has another
    /// type.
    fn from_value(value: Option<Value>) -> Option<Self>;
}

impl FromValue for f64 {
    const EXPECTED: &'static str = "a number";

    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Number(number) => Some(number),
            #[expect(clippy::cast_precision_loss, reason = "an integer in the place of a number")]
            Value::Integer(integer) => Some(integer as Self),
            _ => None,
        }
    }
}

impl FromValue for u64 {
    const EXPECTED: &'static str = "an integer in 0..2**64";

    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Integer(integer) => Some(integer),
            _ => None,
        }
    }
}

impl FromValue for usize {
    const EXPECTED: &'static str = u64::EXPECTED;

    /// Converts an integer; one beyond the range of sizes becomes the largest size, which no array can
    /// reach.
    fn from_value(value: Option<Value>) -> Option<Self> {
        u64::from_value(value).map(|integer| Self::try_from(integer).unwrap_or(Self::MAX))
    }
}

impl FromValue for bool {
    const EXPECTED: &'static str = "true or false";

    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }
}

impl FromValue for String {
    const EXPECTED: &'static str = "text";

    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl FromValue for Vec<usize> {
    const EXPECTED: &'static str = "widths of hidden layers";

    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Widths(widths) => Some(widths),
            _ => None,
        }
    }
}

impl<T: FromValue> FromValue for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::None => Some(None),
            given => T::from_value(Some(given)).map(Some),
        }
    }
}

/// Returns a struct of settings whose fields are taken out of [`Values`] by their names.
macro_rules! take_fields {
    ($values:expr, $type:ident { $($field:ident),+ $(,)? }) => {
        $type { $($field: $values.take(stringify!($field))?),+ }
    };
}

/// Returns fields of a struct with their names.
macro_rules! named_fields {
    ($struct:ident { $($field:ident),+ $(,)? }) => {
        vec![$((stringify!($field), $struct.$field)),+]
    };
}

pub(super) use {named_fields, take_fields};

/// Takes the activation of hidden layers out.
///
/// # Errors
/// [`Error::UnknownName`] for one that does not exist.
pub(super) fn take_activation(values: &mut Values) -> Result<Activation> {
    Activation::from_name(&values.take::<String>("activation")?)
}
