//! The description of a policy in an exported file.

// A file may contain any number, so operations that could overflow are denied.
#![deny(clippy::arithmetic_side_effects)]

use rlox_core::{Error, Result};
use serde_json::Value;

use super::file::File;
use crate::cpu::Activation;

/// The version of the format that this module reads.
pub(super) const FORMAT: u64 = 1;

/// The key of the description in the file's header.
const KEY: &str = "rlox";

/// Limits of a description. `MAX_COUNT` limits the length of an observation, the width of a layer and
/// the number of golden vectors.
const MAX_DESCRIPTION_BYTES: usize = 1 << 20;
const MAX_LAYERS: usize = 64;
const MAX_COUNT: usize = 1 << 16;

/// The largest number of products that the check of the golden vectors may need: some seconds of
/// work. `rlox export` writes 32 golden vectors.
const MAX_PRODUCTS: u64 = 1 << 32;

/// The function from the network's outputs to an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    /// The outputs are logits; the action is the most likely choice.
    Categorical,
    /// The outputs are action values; the action is the best choice.
    Q,
    /// The outputs are means; the action is clipped to the bounds.
    Gaussian,
    /// The outputs are means; the action is their tanh, scaled to the bounds.
    Squashed,
    /// The action is tanh of the outputs, scaled to the bounds.
    Deterministic,
}

impl Head {
    const ALL: [(&'static str, Self); 5] = [
        ("categorical", Self::Categorical),
        ("q", Self::Q),
        ("gaussian", Self::Gaussian),
        ("squashed", Self::Squashed),
        ("deterministic", Self::Deterministic),
    ];

    /// Returns whether an action is a choice.
    pub(super) const fn is_discrete(self) -> bool {
        matches!(self, Self::Categorical | Self::Q)
    }

    /// Returns the prefix of the network's tensor names.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Q => "q",
            _ => "actor",
        }
    }
}

/// A description whose values have been checked.
#[derive(Debug, Clone)]
pub(super) struct Description {
    pub(super) algorithm: String,
    pub(super) env: String,
    /// The network's sizes: inputs, hidden widths, outputs.
    pub(super) sizes: Vec<usize>,
    pub(super) activation: Activation,
    pub(super) dueling: bool,
    pub(super) head: Head,
    /// The number of the first choice in the environment (`Discrete.start`).
    pub(super) start: i64,
    /// The absolute value to which the mean of a squashed policy is clipped.
    pub(super) mean_limit: Option<f32>,
    /// The absolute value to which standardized observations are clipped, possibly infinity; None:
    /// they are not standardized.
    pub(super) normalizer_clip: Option<f64>,
    /// The number of golden vectors.
    pub(super) n_golden: usize,
}

impl Description {
    /// Reads the description of a file.
    ///
    /// # Errors
    /// [`Error::Config`] if it is missing, has another version, or has an invalid value.
    pub(super) fn from_file(file: &File<'_>) -> Result<Self> {
        let text = file.text(KEY)?;
        if text.len() > MAX_DESCRIPTION_BYTES {
            let got = format!("{} bytes long", text.len());
            return Err(file.config_error("description", got, format!("{MAX_DESCRIPTION_BYTES} at most")));
        }
        let json: Value = serde_json::from_str(text).map_err(|cause| {
            file.config_error("description", format!("no JSON ({cause})"), "what `rlox export` writes")
        })?;
        let root = Section { file, value: &json, prefix: "" };
        root.require_format()?;
        let (network, action) = (root.section("network")?, root.section("action")?);
        let head = network.one_of("head", &Head::ALL)?;
        let activations = Activation::ALL.map(|one| (one.name(), one));
        let normalizer_clip = match root.get("normalizer") {
            Value::Null => None,
            _ => Some(root.section("normalizer")?.limit("clip")?.unwrap_or(f64::INFINITY)),
        };
        let limit = network.limit("mean_limit")?;
        #[expect(clippy::cast_possible_truncation, reason = "the network is of float32")]
        let mean_limit = limit.map(|limit| limit as f32);
        Ok(Self {
            algorithm: root.text("algorithm")?,
            env: root.text("env")?,
            sizes: network.sizes()?,
            activation: network.one_of("activation", &activations)?,
            dueling: network.dueling(head)?,
            head,
            start: if head.is_discrete() { action.integer("start")? } else { 0 },
            mean_limit,
            normalizer_clip,
            n_golden: root.count("golden", root.get("golden"))?,
        })
    }

    /// Refuses golden vectors whose check would take minutes.
    ///
    /// # Errors
    /// [`Error::Config`].
    pub(super) fn check_effort(&self, file: &File<'_>) -> Result<()> {
        // No overflow: there are at most 64 layers of 2^32 weights each, and 2^16 vectors.
        let pairs = self.sizes.iter().zip(self.sizes.iter().skip(1));
        let layer_weights = pairs.map(|(&inputs, &outputs)| inputs.saturating_mul(outputs) as u64);
        let weights = layer_weights.fold(0, u64::saturating_add);
        if weights.saturating_mul(self.n_golden as u64) <= MAX_PRODUCTS {
            return Ok(());
        }
        let got = format!("{} vectors of {weights} weights", self.n_golden);
        Err(file.config_error("description, golden", got, format!("{MAX_PRODUCTS} products at most")))
    }

    /// Returns the length of an observation.
    pub(super) fn inputs(&self) -> usize {
        self.sizes.first().copied().unwrap_or_default()
    }

    /// Returns the number of the network's outputs.
    pub(super) fn outputs(&self) -> usize {
        self.sizes.last().copied().unwrap_or_default()
    }
}

/// An object of the description, with its name for messages.
#[derive(Clone, Copy)]
struct Section<'a> {
    file: &'a File<'a>,
    value: &'a Value,
    prefix: &'static str,
}

impl<'a> Section<'a> {
    /// Returns the value of key `name`; null if it is missing.
    fn get(&self, name: &str) -> &'a Value {
        self.value.get(name).unwrap_or(&Value::Null)
    }

    fn error(&self, name: &str, got: &Value, expected: impl Into<String>) -> Error {
        let mut got = got.to_string();
        if let Some((end, _)) = got.char_indices().nth(60) {
            got.replace_range(end.., "...");
        }
        let Self { prefix, .. } = self;
        self.file.config_error(format_args!("description, {prefix}{name}"), got, expected)
    }

    fn require_format(&self) -> Result<()> {
        let format = self.get("format");
        if format.as_u64() == Some(FORMAT) {
            return Ok(());
        }
        let expected = format!("{FORMAT}; read it with the version of rlox that wrote it");
        Err(self.error("format", format, expected))
    }

    fn section(&self, name: &'static str) -> Result<Self> {
        let value = self.get(name);
        if !value.is_object() {
            return Err(self.error(name, value, "an object"));
        }
        let prefix = match name {
            "network" => "network.",
            "action" => "action.",
            _ => "normalizer.",
        };
        Ok(Self { file: self.file, value, prefix })
    }

    fn text(&self, name: &str) -> Result<String> {
        let value = self.get(name);
        value.as_str().map(str::to_owned).ok_or_else(|| self.error(name, value, "text"))
    }

    fn one_of<T: Copy>(&self, name: &str, options: &[(&str, T)]) -> Result<T> {
        let value = self.get(name);
        let option = options.iter().find(|(one, _)| value.as_str() == Some(one));
        option.map(|&(_, one)| one).ok_or_else(|| {
            let names: Vec<&str> = options.iter().map(|&(one, _)| one).collect();
            self.error(name, value, format!("one of {}", names.join(", ")))
        })
    }

    fn integer(&self, name: &str) -> Result<i64> {
        let value = self.get(name);
        value.as_i64().ok_or_else(|| self.error(name, value, "a whole number"))
    }

    /// Reads a limit above 0; None if it is null.
    fn limit(&self, name: &str) -> Result<Option<f64>> {
        match self.get(name) {
            Value::Null => Ok(None),
            value => match value.as_f64() {
                Some(limit) if limit > 0.0 && limit <= f64::from(f32::MAX) => Ok(Some(limit)),
                _ => Err(self.error(name, value, "a number above 0, or null")),
            },
        }
    }

    fn count(&self, name: &str, value: &Value) -> Result<usize> {
        let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
        count
            .filter(|count| (1..=MAX_COUNT).contains(count))
            .ok_or_else(|| self.error(name, value, format!("a whole number from 1 to {MAX_COUNT}")))
    }

    fn sizes(&self) -> Result<Vec<usize>> {
        let value = self.get("sizes");
        let sizes = value.as_array().map(Vec::as_slice).unwrap_or_default();
        if !(2..=MAX_LAYERS + 1).contains(&sizes.len()) {
            let expected = format!("a list of 2 to {} numbers", MAX_LAYERS + 1);
            return Err(self.error("sizes", value, expected));
        }
        sizes.iter().map(|size| self.count("sizes", size)).collect()
    }

    /// Reads whether the network has separate streams for value and advantage, which require a
    /// hidden layer and head `q`.
    fn dueling(&self, head: Head) -> Result<bool> {
        let value = self.get("dueling");
        let has_hidden_layer = self.sizes()?.len() > 2;
        match value.as_bool() {
            Some(dueling) if !dueling || (has_hidden_layer && head == Head::Q) => Ok(dueling),
            Some(_) => Err(self.error("dueling", value, "false without a hidden layer and head q")),
            None => Err(self.error("dueling", value, "true or false")),
        }
    }
}
