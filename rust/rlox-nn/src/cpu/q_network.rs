//! Values of choices.

use rlox_core::error::check_len;
use rlox_core::{Layout, Result};

use super::activation::Activation;
use super::gemm::Number;
use super::mlp::{Memory, Mlp, Wanted, named};

/// What a [`QNetwork`] is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QArchitecture {
    /// Numbers of an observation.
    pub obs_dim: usize,
    /// How many choices.
    pub choices: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Of all hidden layers.
    pub activation: Activation,
    /// Value and advantage in streams of their own (Wang et al. 2016).
    pub dueling: bool,
}

impl QArchitecture {
    /// Names and shapes of the parameters, in the order of torch's modules.
    #[must_use]
    pub fn named(&self) -> Vec<(String, Vec<usize>)> {
        self.parts().into_iter().flat_map(|(prefix, sizes)| named(prefix, &sizes)).collect()
    }

    /// The networks, by the prefix of their parameters' names, and their sizes; what dueling streams share comes
    /// first and may be nothing.
    fn parts(&self) -> Vec<(&'static str, Vec<usize>)> {
        let sizes = [&[self.obs_dim], self.hidden.as_slice()].concat();
        if !self.dueling {
            return vec![("q", [sizes.as_slice(), &[self.choices]].concat())];
        }
        let shared = sizes.len().saturating_sub(1);
        let ends = sizes.get(shared.saturating_sub(1)..).unwrap_or_default();
        vec![
            ("q.shared", sizes.get(..shared).unwrap_or_default().to_vec()),
            ("q.value", [ends, &[1]].concat()),
            ("q.advantage", [ends, &[self.choices]].concat()),
        ]
    }
}

/// Q(s, a) of each choice, over one vector of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QNetwork {
    choices: usize,
    nets: Nets,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Nets {
    Plain(Mlp),
    /// All hidden layers but the last are shared, if there are more; each stream has one of the last width.
    Dueling {
        shared: Option<Mlp>,
        value: Mlp,
        advantage: Mlp,
    },
}

/// Room for a pass and the way back.
#[derive(Debug, Clone, Default)]
pub struct QMemory<F> {
    /// Of the network, or of what is shared.
    first: Memory<F>,
    value: Memory<F>,
    advantage: Memory<F>,
    /// Q of dueling streams, `[n, choices]`.
    q: Vec<F>,
    /// Gradients of what the streams gave, and of what they were given.
    to_value: Vec<F>,
    to_advantage: Vec<F>,
    to_shared: [Vec<F>; 2],
}

impl QNetwork {
    /// The network of this architecture whose parameters lie as `layout` says.
    ///
    /// # Errors
    /// [`rlox_core::Error::UnknownName`] for a parameter that is missing, [`rlox_core::Error::Shape`] for one
    /// of another shape, [`rlox_core::Error::Config`] for parameters that the architecture has not.
    pub fn new(layout: &Layout, of: &QArchitecture) -> Result<Self> {
        let own = of.named();
        if let Some((name, ..)) =
            layout.arrays().find(|(name, ..)| own.iter().all(|o| o.0 != *name))
        {
            let expected = "one of this network, whose layers have other names";
            return Err(rlox_core::Error::config("parameter", name, expected));
        }
        let net =
            |(prefix, sizes): &(&str, Vec<usize>)| Mlp::new(layout, prefix, sizes, of.activation);
        let nets = match of.parts().as_slice() {
            [shared, value, advantage] => Nets::Dueling {
                shared: match shared.1.len() {
                    0 | 1 => None,
                    _ => Some(net(shared)?.activated()),
                },
                value: net(value)?,
                advantage: net(advantage)?,
            },
            parts => Nets::Plain(parts.first().map_or_else(|| net(&("q", Vec::new())), net)?),
        };
        Ok(Self { choices: of.choices, nets })
    }

    /// How many choices.
    #[must_use]
    pub const fn choices(&self) -> usize {
        self.choices
    }

    /// Q of `obs` `[n, obs_dim]`, `[n, choices]`.
    ///
    /// # Errors
    /// [`rlox_core::Error::Shape`] for slices that do not fit.
    pub fn forward<'m, F: Number>(
        &self,
        parameters: &[F],
        obs: &[F],
        memory: &'m mut QMemory<F>,
    ) -> Result<&'m [F]> {
        let QMemory { first, value, advantage, q, .. } = memory;
        let (value_net, advantage_net, features) = match &self.nets {
            Nets::Plain(net) => return net.forward(parameters, obs, first).map(|q| &*q),
            Nets::Dueling { shared: None, value, advantage } => (value, advantage, obs),
            Nets::Dueling { shared: Some(shared), value, advantage } => {
                (value, advantage, &*shared.forward(parameters, obs, first)?)
            }
        };
        let values = value_net.forward(parameters, features, value)?;
        let advantages = advantage_net.forward(parameters, features, advantage)?;
        q.clear();
        q.extend_from_slice(advantages);
        for (row, &mut value) in q.chunks_exact_mut(self.choices).zip(values) {
            let lift = value - mean(row);
            for q in row {
                *q += lift;
            }
        }
        Ok(q)
    }

    /// The way back of the last [`QNetwork::forward`], of the same `parameters` and `obs`: adds to `gradient`
    /// what the gradient of Q, `[n, choices]`, is of the parameters.
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
        let QMemory { first, value, advantage, to_value, to_advantage, to_shared, .. } = memory;
        let (shared, value_net, advantage_net) = match &self.nets {
            Nets::Plain(net) => {
                return net.backward(parameters, obs, first, to_q, Wanted::parameters(gradient));
            }
            Nets::Dueling { shared, value, advantage } => (shared, value, advantage),
        };
        let n = value.given().len();
        check_len("gradient of values", to_q.len(), n * self.choices, "one for each choice")?;
        to_value.clear();
        to_advantage.clear();
        for row in to_q.chunks_exact(self.choices) {
            let center = mean(row);
            to_value.push(row.iter().fold(F::ZERO, |sum, &slope| sum + slope));
            to_advantage.extend(row.iter().map(|&slope| slope - center));
        }
        let Some(shared) = shared else {
            let wanted = Wanted::parameters(&mut *gradient);
            value_net.backward(parameters, obs, value, to_value, wanted)?;
            let wanted = Wanted::parameters(gradient);
            return advantage_net.backward(parameters, obs, advantage, to_advantage, wanted);
        };
        let features = first.given();
        let [of_value, of_advantage] = to_shared;
        of_value.resize(features.len(), F::ZERO);
        of_advantage.resize(features.len(), F::ZERO);
        let wanted = Wanted { parameters: Some(&mut *gradient), inputs: Some(of_value) };
        value_net.backward(parameters, features, value, to_value, wanted)?;
        let wanted = Wanted { parameters: Some(&mut *gradient), inputs: Some(of_advantage) };
        advantage_net.backward(parameters, features, advantage, to_advantage, wanted)?;
        for (sum, &more) in of_value.iter_mut().zip(&*of_advantage) {
            *sum += more;
        }
        shared.backward(parameters, obs, first, of_value, Wanted::parameters(gradient))
    }
}

fn mean<F: Number>(row: &[F]) -> F {
    #[expect(clippy::cast_precision_loss, reason = "choices")]
    let n = row.len() as f64;
    row.iter().fold(F::ZERO, |sum, &x| sum + x) * F::from_f64(1.0 / n)
}
