//! Q-values of choices.

use rlox_core::error::check_len;
use rlox_core::{Layout, Result};

use super::activation::Activation;
use super::gemm::Number;
use super::mlp::{GradientBuffers, Memory, Mlp, parameter_shapes};

/// The architecture of a [`QNetwork`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QArchitecture {
    /// The length of an observation.
    pub obs_dim: usize,
    /// The number of choices.
    pub choices: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// The activation of all hidden layers.
    pub activation: Activation,
    /// Whether the value and the advantages have separate streams (Wang et al. 2016).
    pub dueling: bool,
}

impl QArchitecture {
    /// Returns the names and shapes of the parameters, in the order of torch's modules.
    #[must_use]
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.parts().into_iter().flat_map(|(prefix, sizes)| parameter_shapes(prefix, &sizes)).collect()
    }

    /// Returns the networks' parameter prefixes and sizes. For dueling streams the shared network
    /// comes first; it may have no layers.
    fn parts(&self) -> Vec<(&'static str, Vec<usize>)> {
        let sizes = [&[self.obs_dim], self.hidden.as_slice()].concat();
        if !self.dueling {
            return vec![("q", [sizes.as_slice(), &[self.choices]].concat())];
        }
        let shared = sizes.len().saturating_sub(1);
        let stream_sizes = sizes.get(shared.saturating_sub(1)..).unwrap_or_default();
        vec![
            ("q.shared", sizes.get(..shared).unwrap_or_default().to_vec()),
            ("q.value", [stream_sizes, &[1]].concat()),
            ("q.advantage", [stream_sizes, &[self.choices]].concat()),
        ]
    }
}

/// A network that computes Q(s, a) of each choice, over one parameter vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QNetwork {
    choices: usize,
    nets: Nets,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Nets {
    Plain(Mlp),
    /// The streams share all hidden layers but the last, if there are several. Each stream has a
    /// hidden layer of the last width.
    Dueling {
        shared: Option<Mlp>,
        value: Mlp,
        advantage: Mlp,
    },
}

/// Buffers of a forward and a backward pass.
#[derive(Debug, Clone, Default)]
pub struct QMemory<F> {
    /// Buffers of the plain network, or of the shared one.
    base: Memory<F>,
    value: Memory<F>,
    advantage: Memory<F>,
    /// Q of dueling streams, `[n, choices]`.
    q: Vec<F>,
    /// The gradients with respect to the streams' outputs and inputs.
    to_value: Vec<F>,
    to_advantage: Vec<F>,
    to_shared: [Vec<F>; 2],
}

impl QNetwork {
    /// Returns the network of this architecture, whose parameters are at the ranges of `layout`.
    ///
    /// # Errors
    /// [`rlox_core::Error::UnknownName`] for a missing parameter, [`rlox_core::Error::Shape`] for a
    /// parameter of another shape, [`rlox_core::Error::Config`] for parameters that the
    /// architecture does not have.
    pub fn new(layout: &Layout, architecture: &QArchitecture) -> Result<Self> {
        let shapes = architecture.parameter_shapes();
        if let Some((name, ..)) = layout.arrays().find(|(name, ..)| shapes.iter().all(|o| o.0 != *name)) {
            let expected = "a parameter of this network, whose layers have other names";
            return Err(rlox_core::Error::config("parameter", name, expected));
        }
        let net =
            |(prefix, sizes): &(&str, Vec<usize>)| Mlp::new(layout, prefix, sizes, architecture.activation);
        let nets = match architecture.parts().as_slice() {
            [shared, value, advantage] => Nets::Dueling {
                shared: match shared.1.len() {
                    0 | 1 => None,
                    _ => Some(net(shared)?.with_output_activation()),
                },
                value: net(value)?,
                advantage: net(advantage)?,
            },
            parts => Nets::Plain(parts.first().map_or_else(|| net(&("q", Vec::new())), net)?),
        };
        Ok(Self { choices: architecture.choices, nets })
    }

    /// Returns the network whose outputs are those of `net`.
    #[must_use]
    pub(super) fn plain(net: Mlp) -> Self {
        Self { choices: net.outputs(), nets: Nets::Plain(net) }
    }

    /// Returns the length of an observation.
    #[must_use]
    pub fn inputs(&self) -> usize {
        match &self.nets {
            Nets::Plain(net) | Nets::Dueling { shared: Some(net), .. } => net.inputs(),
            Nets::Dueling { shared: None, value, .. } => value.inputs(),
        }
    }

    /// Returns the number of choices.
    #[must_use]
    pub const fn choices(&self) -> usize {
        self.choices
    }

    /// Computes the Q-values `[n, choices]` of `obs` `[n, obs_dim]`.
    ///
    /// # Errors
    /// [`rlox_core::Error::Shape`] for slices that do not fit.
    pub fn forward<'m, F: Number>(
        &self,
        parameters: &[F],
        obs: &[F],
        memory: &'m mut QMemory<F>,
    ) -> Result<&'m [F]> {
        let QMemory { base, value, advantage, q, .. } = memory;
        let (value_net, advantage_net, features) = match &self.nets {
            Nets::Plain(net) => return net.forward(parameters, obs, base).map(|q| &*q),
            Nets::Dueling { shared: None, value, advantage } => (value, advantage, obs),
            Nets::Dueling { shared: Some(shared), value, advantage } => {
                (value, advantage, &*shared.forward(parameters, obs, base)?)
            }
        };
        let values = value_net.forward(parameters, features, value)?;
        let advantages = advantage_net.forward(parameters, features, advantage)?;
        q.clear();
        q.extend_from_slice(advantages);
        for (row, &mut value) in q.chunks_exact_mut(self.choices).zip(values) {
            let offset = value - mean(row);
            for q in row {
                *q += offset;
            }
        }
        Ok(q)
    }

    /// Runs backward from the last [`QNetwork::forward`], with the same `parameters` and `obs`.
    /// Adds the gradient with respect to the parameters to `gradient`. `to_q` `[n, choices]` is the
    /// gradient with respect to the Q-values.
    ///
    /// # Errors
    /// [`rlox_core::Error::Shape`] for slices that do not fit.
    pub fn backward<F: Number>(
        &self,
        parameters: &[F],
        obs: &[F],
        memory: &mut QMemory<F>,
        to_q: &[F],
        gradient: &mut [F],
    ) -> Result<()> {
        let QMemory { base, value, advantage, to_value, to_advantage, to_shared, .. } = memory;
        let (shared, value_net, advantage_net) = match &self.nets {
            Nets::Plain(net) => {
                return net.backward(parameters, obs, base, to_q, GradientBuffers::parameters(gradient));
            }
            Nets::Dueling { shared, value, advantage } => (shared, value, advantage),
        };
        let n = value.last_outputs().len();
        check_len("gradient of values", to_q.len(), n * self.choices, "one for each choice")?;
        to_value.clear();
        to_advantage.clear();
        for row in to_q.chunks_exact(self.choices) {
            let center = mean(row);
            to_value.push(row.iter().fold(F::ZERO, |sum, &slope| sum + slope));
            to_advantage.extend(row.iter().map(|&slope| slope - center));
        }
        let Some(shared) = shared else {
            let value_gradient = GradientBuffers::parameters(&mut *gradient);
            value_net.backward(parameters, obs, value, to_value, value_gradient)?;
            let advantage_gradient = GradientBuffers::parameters(gradient);
            return advantage_net.backward(parameters, obs, advantage, to_advantage, advantage_gradient);
        };
        let features = base.last_outputs();
        let [value_part, advantage_part] = to_shared;
        value_part.resize(features.len(), F::ZERO);
        advantage_part.resize(features.len(), F::ZERO);
        let value_buffers = GradientBuffers { parameters: Some(&mut *gradient), inputs: Some(value_part) };
        value_net.backward(parameters, features, value, to_value, value_buffers)?;
        let advantage_buffers =
            GradientBuffers { parameters: Some(&mut *gradient), inputs: Some(advantage_part) };
        advantage_net.backward(parameters, features, advantage, to_advantage, advantage_buffers)?;
        for (sum, &more) in value_part.iter_mut().zip(&*advantage_part) {
            *sum += more;
        }
        shared.backward(parameters, obs, base, value_part, GradientBuffers::parameters(gradient))
    }
}

fn mean<F: Number>(row: &[F]) -> F {
    #[expect(clippy::cast_precision_loss, reason = "choices")]
    let n = row.len() as f64;
    row.iter().fold(F::ZERO, |sum, &x| sum + x) * F::from_f64(1.0 / n)
}

/// Returns the index of the largest value, the first of equals.
pub(super) fn argmax<F: Number>(values: &[F]) -> usize {
    let mut best = 0;
    for (i, value) in values.iter().enumerate() {
        if values.get(best).is_some_and(|greatest| value > greatest) {
            best = i;
        }
    }
    best
}
