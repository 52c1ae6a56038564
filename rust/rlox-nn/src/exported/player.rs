//! Plays a policy: standardizes an observation, runs the network, and turns its outputs into an
//! action.

use rlox_core::env::Actions;
use rlox_core::error::check_len;
use rlox_core::math::in_place;
use rlox_core::{Error, Result};

use super::description::{Description, Head};
use super::file::File;
use super::network::Network;

/// An action for an environment.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A choice, by its number in the environment.
    Discrete(i64),
    /// A vector within the bounds; for a box of several dimensions, in row-major order.
    Box(Vec<f32>),
}

impl Action {
    /// Returns a view of the action for one environment of `rlox_core`.
    #[must_use]
    pub fn view(&self) -> Actions<'_> {
        match self {
            Self::Discrete(choice) => Actions::Discrete(std::slice::from_ref(choice)),
            Self::Box(vector) => Actions::Box(vector),
        }
    }
}

/// Standardizes observations: `(x - mean) / deviation` in float64, clipped to `clip`.
#[derive(Debug, Clone)]
struct Normalizer {
    mean: Vec<f64>,
    deviation: Vec<f64>,
    clip: f64,
}

impl Normalizer {
    fn read(file: &File<'_>, inputs: usize, clip: f64) -> Result<Self> {
        let mean = file.tensor("normalizer.mean", &[inputs])?;
        let deviation: Vec<f64> = file.tensor("normalizer.deviation", &[inputs])?;
        if let Some(smallest) = deviation.iter().find(|&&one| one <= 0.0) {
            return Err(file.config_error("tensor normalizer.deviation", smallest, "numbers above 0"));
        }
        Ok(Self { mean, deviation, clip })
    }

    #[expect(clippy::cast_possible_truncation, reason = "the network sees float32")]
    fn apply(&self, obs: &[f32], out: &mut [f32]) {
        let limit = self.clip;
        let moments = self.mean.iter().zip(&self.deviation);
        for ((value, &x), (mean, deviation)) in out.iter_mut().zip(obs).zip(moments) {
            *value = ((f64::from(x) - mean) / deviation).min(limit).max(-limit) as f32;
        }
    }
}

/// All that acting needs: network, normalizer, head and bounds.
#[derive(Debug, Clone)]
pub(super) struct Player {
    head: Head,
    /// The number of the first choice in the environment (`Discrete.start`).
    start: i64,
    /// The absolute value to which the network's outputs are clipped before tanh.
    mean_limit: f32,
    network: Network,
    normalizer: Option<Normalizer>,
    /// The bounds of vectors; empty for choices.
    low: Vec<f32>,
    high: Vec<f32>,
    /// The buffer for the standardized observation.
    network_input: Vec<f32>,
}

impl Player {
    /// Reads the policy of a file.
    ///
    /// # Errors
    /// [`Error::Config`] for tensors that are missing, of another shape or not finite, and for
    /// bounds or deviations that are invalid.
    pub(super) fn read(file: &File<'_>, description: &Description) -> Result<Self> {
        let (inputs, head) = (description.inputs(), description.head);
        let bound = |name: &str| {
            if head.is_discrete() {
                Ok(Vec::new())
            } else {
                file.tensor::<f32>(name, &[description.outputs()])
            }
        };
        let (low, high) = (bound("action.low")?, bound("action.high")?);
        if let Some(index) = low.iter().zip(&high).position(|(low, high)| low > high) {
            let expected = format!("no more than action.high at place {index}");
            return Err(file.config_error("tensor action.low", "above", expected));
        }
        let normalizer = match description.normalizer_clip {
            Some(clip) => Some(Normalizer::read(file, inputs, clip)?),
            None => None,
        };
        let (prefix, activation) = (head.prefix(), description.activation);
        Ok(Self {
            head,
            start: description.start,
            mean_limit: description.mean_limit.unwrap_or(f32::INFINITY),
            network: Network::read(file, prefix, &description.sizes, activation, description.dueling)?,
            normalizer,
            low,
            high,
            network_input: vec![0.0; inputs],
        })
    }

    /// Returns an action of the kind and length that [`Player::act`] writes.
    pub(super) fn action(&self) -> Action {
        if self.head.is_discrete() { Action::Discrete(self.start) } else { Action::Box(self.low.clone()) }
    }

    /// Writes the best action for an observation `[obs_dim]`.
    ///
    /// # Errors
    /// As `Policy::act`.
    pub(super) fn act(&mut self, obs: &[f32], action: &mut Action) -> Result<()> {
        let (low, high, limit) = (&self.low, &self.high, self.mean_limit);
        let outputs = run_network(&mut self.network, self.normalizer.as_ref(), &mut self.network_input, obs)?;
        match (self.head, action) {
            (Head::Categorical | Head::Q, Action::Discrete(choice)) => {
                *choice = self.start.wrapping_add(argmax(outputs));
            }
            (Head::Gaussian, Action::Box(vector)) => {
                check_len("action", vector.len(), outputs.len(), "as the policy's")?;
                vector.copy_from_slice(outputs);
                clip_to_bounds(vector, low, high);
            }
            (Head::Squashed | Head::Deterministic, Action::Box(vector)) => {
                check_len("action", vector.len(), outputs.len(), "as the policy's")?;
                for (number, &mean) in vector.iter_mut().zip(&*outputs) {
                    *number = mean.min(limit).max(-limit);
                }
                in_place::tanh(vector);
                for (number, (low, high)) in vector.iter_mut().zip(low.iter().zip(high)) {
                    *number = low + 0.5 * (*number + 1.0) * (high - low);
                }
                clip_to_bounds(vector, low, high);
            }
            (_, Action::Discrete(_)) => {
                return Err(Error::config("action", "a choice", "a vector, as Policy::action() returns it"));
            }
            (_, Action::Box(_)) => {
                return Err(Error::config("action", "a vector", "a choice, as Policy::action() returns it"));
            }
        }
        Ok(())
    }

    /// Returns the network's outputs for an observation `[obs_dim]`.
    ///
    /// # Errors
    /// As `Policy::act`.
    pub(super) fn outputs(&mut self, obs: &[f32]) -> Result<&[f32]> {
        run_network(&mut self.network, self.normalizer.as_ref(), &mut self.network_input, obs)
            .map(|outputs| &*outputs)
    }
}

/// Runs the network on an observation and checks that its outputs are finite.
fn run_network<'a>(
    network: &'a mut Network,
    normalizer: Option<&Normalizer>,
    input: &mut [f32],
    obs: &[f32],
) -> Result<&'a mut [f32]> {
    check_len("observation", obs.len(), input.len(), "as the policy sees them")?;
    require_finite("observation", obs)?;
    match normalizer {
        Some(normalizer) => normalizer.apply(obs, input),
        None => input.copy_from_slice(obs),
    }
    let outputs = network.run(input);
    require_finite("what the policy says", outputs)?;
    Ok(outputs)
}

fn require_finite(name: &'static str, values: &[f32]) -> Result<()> {
    // The loop has no early exit, so that it vectorizes.
    if values.iter().fold(true, |all, value| all & value.is_finite()) {
        return Ok(());
    }
    let index = values.iter().position(|value| !value.is_finite()).unwrap_or_default();
    let value = values.get(index).copied().map_or(f64::NAN, f64::from);
    Err(Error::NonFinite { name: name.into(), index, value })
}

/// Returns the index of the largest number, the first of equals.
fn argmax(values: &[f32]) -> i64 {
    let (mut best, mut max_value) = (0, f32::NEG_INFINITY);
    for (index, &value) in (0..).zip(values) {
        if value > max_value {
            (best, max_value) = (index, value);
        }
    }
    best
}

fn clip_to_bounds(vector: &mut [f32], low: &[f32], high: &[f32]) {
    for (number, (&low, &high)) in vector.iter_mut().zip(low.iter().zip(high)) {
        *number = number.max(low).min(high);
    }
}
