//! A linear policy whose parameters can be written by hand: categorical with logits, or Gaussian
//! around a mean. A step allocates no memory.

use rlox_core::math::in_place;
use rlox_core::policy::{ActionsMut, Noise, Policy, PolicyInput, PolicyOutput};
use rlox_core::{EnvSpec, Error, Parameters, Result};

/// Number of logits or means that are on the stack together.
const BLOCK: usize = 256;

/// log sqrt(2 pi).
const LOG_ROOT_TAU: f32 = 0.918_938_5;

/// A policy with logits `W o + b`, or means `tanh(W o + b)` times the upper bounds, and with values
/// `v . o + c`. Its parameters are `actor.weight` `[n_outputs, obs_dim]`, `actor.bias` `[n_outputs]`,
/// `critic.weight` `[obs_dim]`, `critic.bias` `[]` and, for Box actions, `log_std` `[action_dim]`.
pub(crate) struct Linear {
    pub(crate) params: Parameters,
    obs_dim: usize,
    n_outputs: usize,
    /// The upper bounds of Box actions.
    bounds: Option<Vec<f32>>,
}

impl Linear {
    /// Returns a policy for these environments whose parameters are all 0.
    pub(crate) fn new(spec: &EnvSpec) -> Result<Self> {
        let (obs_dim, n_outputs) = (spec.observation.dim(), spec.action.size());
        if n_outputs > BLOCK {
            return Err(Error::config("action", n_outputs, "at most 256 logits or means"));
        }
        let bounds = spec.action.bounds().map(|space| space.high.clone());
        let mut named_shapes = vec![
            ("actor.weight", vec![n_outputs, obs_dim]),
            ("actor.bias", vec![n_outputs]),
            ("critic.weight", vec![obs_dim]),
            ("critic.bias", vec![]),
        ];
        if bounds.is_some() {
            named_shapes.push(("log_std", vec![n_outputs]));
        }
        Ok(Self { params: Parameters::zeros(named_shapes)?, obs_dim, n_outputs, bounds })
    }

    /// Returns the weights and the bias of the actor.
    fn actor(&self) -> Result<(&[f32], &[f32])> {
        let weight = self.params.array("actor.weight", &[self.n_outputs, self.obs_dim])?;
        Ok((weight, self.params.array("actor.bias", &[self.n_outputs])?))
    }

    /// Divides the observations into blocks whose outputs fit the stack. Passes the index of each
    /// block's first row, and its outputs `[rows, n_outputs]`, to a function.
    fn for_each_block<'a>(
        &'a self,
        obs: &'a [f32],
        scratch: &mut [f32; BLOCK],
        mut handle_block: impl FnMut(usize, &mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let (weight, bias) = self.actor()?;
        let rows = BLOCK / self.n_outputs;
        for (block, obs) in obs.chunks(rows * self.obs_dim).enumerate() {
            let n = obs.len() / self.obs_dim * self.n_outputs;
            let out = scratch.get_mut(..n).unwrap_or_default();
            let pairs = out.chunks_exact_mut(self.n_outputs).zip(obs.chunks_exact(self.obs_dim));
            for (out, obs) in pairs {
                out.iter_mut().zip(outputs(weight, bias, obs)).for_each(|(out, y)| *out = y);
            }
            handle_block(block * rows, out)?;
        }
        Ok(())
    }

    fn act_discrete(&self, input: PolicyInput<'_>, actions: &mut [i64], log_probs: &mut [f32]) -> Result<()> {
        self.for_each_block(input.obs, &mut [0.0; BLOCK], |first, logits| {
            in_place::log_softmax(logits, self.n_outputs)?;
            let targets = actions.iter_mut().zip(log_probs.iter_mut()).zip(input.noise).skip(first);
            for (row, ((action, log_prob), noise)) in logits.chunks_exact(self.n_outputs).zip(targets) {
                // Takes the first action at which the sum of probabilities exceeds the noise. If
                // because of rounding no sum exceeds the noise, takes the last action.
                let mut remaining_noise = *noise;
                for (choice, &choice_log_prob) in (0..).zip(row) {
                    (*action, *log_prob) = (choice, choice_log_prob);
                    remaining_noise -= choice_log_prob.exp();
                    if remaining_noise < 0.0 {
                        break;
                    }
                }
            }
            Ok(())
        })
    }

    fn act_box(
        &self,
        input: PolicyInput<'_>,
        bounds: &[f32],
        actions: &mut [f32],
        log_probs: &mut [f32],
    ) -> Result<()> {
        let log_std = self.params.array("log_std", &[self.n_outputs])?;
        let dim = self.n_outputs;
        self.for_each_block(input.obs, &mut [0.0; BLOCK], |first, means| {
            in_place::tanh(means);
            let noise = input.noise.chunks_exact(dim).skip(first);
            let targets = actions.chunks_exact_mut(dim).zip(log_probs.iter_mut()).skip(first);
            for ((means, noise), (action, log_prob)) in means.chunks_exact(dim).zip(noise).zip(targets) {
                *log_prob = 0.0;
                let inputs = means.iter().zip(bounds).zip(log_std).zip(noise);
                for ((((mean, bound), log_std), noise), action) in inputs.zip(action) {
                    *action = bound * mean + log_std.exp() * noise;
                    *log_prob -= 0.5 * noise * noise + log_std + LOG_ROOT_TAU;
                }
            }
            Ok(())
        })
    }
}

impl Policy for Linear {
    fn noise(&self) -> Noise {
        if self.bounds.is_none() { Noise::Uniform(1) } else { Noise::Normal(self.n_outputs) }
    }

    fn act(&self, input: PolicyInput<'_>, output: PolicyOutput<'_>) -> Result<()> {
        self.values(input.obs, output.values)?;
        match (output.actions, &self.bounds) {
            (ActionsMut::Discrete(actions), None) => self.act_discrete(input, actions, output.log_probs),
            (ActionsMut::Box(actions), Some(bounds)) => {
                self.act_box(input, bounds, actions, output.log_probs)
            }
            _ => Err(Error::config("actions", "of another kind", "the kind that the policy was made for")),
        }
    }

    fn values(&self, obs: &[f32], out: &mut [f32]) -> Result<()> {
        let weight = self.params.array("critic.weight", &[self.obs_dim])?;
        let bias = self.params.array("critic.bias", &[])?;
        for (obs, value) in obs.chunks_exact(self.obs_dim).zip(out) {
            *value = outputs(weight, bias, obs).sum();
        }
        Ok(())
    }
}

/// Returns the numbers of `W o + b` one after the other.
fn outputs(weight: &[f32], bias: &[f32], obs: &[f32]) -> impl Iterator<Item = f32> {
    weight
        .chunks_exact(obs.len().max(1))
        .zip(bias)
        .map(move |(row, bias)| row.iter().zip(obs).fold(*bias, |sum, (weight, x)| sum + weight * x))
}

/// Returns a policy whose parameters balance `CartPole-v1` or brake `Pendulum-v1`. For other
/// environments they stay 0.
pub(crate) fn hand_written_policy(spec: &EnvSpec) -> Result<Linear> {
    let mut policy = Linear::new(spec)?;
    let params = &mut policy.params;
    match spec.id.as_str() {
        "CartPole-v1" => {
            // Push to the side to which the pole falls. The value 80 stands for the discounted
            // return of a pole that stays up.
            let row = [0.0, 0.0, 0.0, 0.0, 0.5, 1.5, 15.0, 5.0];
            params.array_mut("actor.weight", &[2, 4])?.copy_from_slice(&row);
            params.array_mut("critic.bias", &[])?.fill(80.0);
        }
        "Pendulum-v1" => {
            // Observations are cos, sin and speed.
            params.array_mut("actor.weight", &[1, 3])?.copy_from_slice(&[0.0, -4.0, -1.0]);
            params.array_mut("critic.weight", &[3])?.copy_from_slice(&[150.0, 0.0, 0.0]);
            params.array_mut("critic.bias", &[])?.fill(-250.0);
            params.array_mut("log_std", &[1])?.fill(-0.7);
        }
        _ => {}
    }
    Ok(policy)
}
