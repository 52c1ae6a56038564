//! Values of vectors by several critics with no parameter in common.

use rlox_core::error::{Result, check_len};
use rlox_core::{Error, Layout};

use super::activation::Activation;
use super::gemm::Number;
use super::mlp::{Memory, Mlp, Wanted, resize};
use super::optim::{Optimizer, clip};

/// What [`Critics`] are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriticsArchitecture {
    /// How many.
    pub members: usize,
    /// Numbers of an observation.
    pub obs_dim: usize,
    /// Numbers of a vector.
    pub size: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// Of all hidden layers.
    pub activation: Activation,
}

impl CriticsArchitecture {
    fn sizes(&self) -> Vec<usize> {
        [&[self.obs_dim + self.size], self.hidden.as_slice(), &[1]].concat()
    }

    /// Names and shapes of the parameters, in the order of rlox's `EnsembleMLP`: `weights.0` `[members,
    /// outputs, inputs]`, `weights.1`, ..., `biases.0` `[members, outputs]`, ...
    #[must_use]
    pub fn named(&self) -> Vec<(String, Vec<usize>)> {
        let sizes = self.sizes();
        let pairs: Vec<_> = sizes.iter().zip(sizes.iter().skip(1)).collect();
        let weights = pairs.iter().enumerate().map(|(i, &(&inputs, &outputs))| {
            (format!("weights.{i}"), vec![self.members, outputs, inputs])
        });
        let biases = pairs.iter().enumerate();
        let biases =
            biases.map(|(i, &(_, &outputs))| (format!("biases.{i}"), vec![self.members, outputs]));
        weights.chain(biases).collect()
    }
}

/// Q_i(s, a), over one vector of parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Critics {
    members: Vec<Mlp>,
    obs_dim: usize,
    size: usize,
}

/// Room for a pass and the way back.
#[derive(Debug, Clone, Default)]
pub struct CriticsMemory<F> {
    nets: Vec<Memory<F>>,
    /// Observation and vector beside each other, `[n, obs_dim + size]`.
    inputs: Vec<F>,
    /// `[members, n]`.
    q: Vec<F>,
    slopes: Vec<F>,
    to_inputs: Vec<F>,
}

/// Rows of states and vectors.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a, F> {
    /// `[n, obs_dim]`.
    pub obs: &'a [F],
    /// `[n, size]`.
    pub actions: &'a [F],
}

/// What the values of a batch are to become.
#[derive(Debug, Clone, Copy)]
pub(super) struct Aim<'a, F> {
    /// `[n]`.
    pub(super) goals: &'a [F],
    /// `[n]`; 1 without them.
    pub(super) weights: Option<&'a [F]>,
    /// Of the sum of all critics' squared errors.
    pub(super) factor: f64,
}

impl Critics {
    /// The critics of this architecture whose parameters lie as `layout` says.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a parameter that is missing, [`Error::Shape`] for one of another shape,
    /// [`Error::Config`] for parameters that the architecture has not, and for no members, numbers of an
    /// observation or of an action.
    pub fn new(layout: &Layout, of: &CriticsArchitecture) -> Result<Self> {
        let named = of.named();
        if let Some((name, ..)) =
            layout.arrays().find(|(name, ..)| named.iter().all(|o| o.0 != *name))
        {
            let expected = "one of these critics, whose layers have other names";
            return Err(Error::config("parameter", name, expected));
        }
        for (name, size) in [("members", of.members), ("obs_dim", of.obs_dim), ("actions", of.size)]
        {
            if size == 0 {
                return Err(Error::config(name, 0, "at least 1"));
            }
        }
        let members = Mlp::stacked(layout, of.members, &of.sizes(), of.activation)?;
        Ok(Self { members, obs_dim: of.obs_dim, size: of.size })
    }

    /// How many.
    #[must_use]
    pub const fn members(&self) -> usize {
        self.members.len()
    }

    /// What the first `members` say of `pairs`, `[members, n]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for slices that do not fit.
    pub fn forward<'m, F: Number>(
        &self,
        parameters: &[F],
        pairs: Pairs<'_, F>,
        members: usize,
        memory: &'m mut CriticsMemory<F>,
    ) -> Result<&'m [F]> {
        let n = pairs.obs.len() / self.obs_dim.max(1);
        check_len("obs", pairs.obs.len(), n * self.obs_dim, "whole rows")?;
        check_len("actions", pairs.actions.len(), n * self.size, "one for each observation")?;
        let CriticsMemory { nets, inputs, q, .. } = memory;
        inputs.clear();
        let rows = pairs.obs.chunks_exact(self.obs_dim).zip(pairs.actions.chunks_exact(self.size));
        for (obs, action) in rows {
            inputs.extend_from_slice(obs);
            inputs.extend_from_slice(action);
        }
        nets.resize_with(self.members.len(), Memory::default);
        q.clear();
        for (net, memory) in self.members.iter().zip(nets).take(members) {
            q.extend_from_slice(net.forward(parameters, inputs, memory)?);
        }
        Ok(q)
    }

    /// The gradient of `factor` sum_i E[w (Q_i - goal)^2] (Fujimoto et al. 2018, algorithm 1), of the last
    /// pass of all critics, in the place of `gradient`; returns that loss, and E[Q] of all.
    ///
    /// `errors` `[n]` become the means over the critics of |Q_i - goal|.
    pub(super) fn gradient<F: Number>(
        &self,
        parameters: &[F],
        memory: &mut CriticsMemory<F>,
        aim: Aim<'_, F>,
        errors: &mut [F],
        gradient: &mut [F],
    ) -> Result<(f64, f64)> {
        let n = aim.goals.len();
        check_len("errors", errors.len(), n, "as the goals")?;
        check_len("weights", aim.weights.map_or(n, <[F]>::len), n, "as the goals")?;
        let CriticsMemory { nets, inputs, q, slopes, .. } = memory;
        check_len("values", q.len(), n * self.members.len(), "of all critics")?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch, critics")]
        let (rows, members) = (n as f64, self.members.len() as f64);
        let (bend, share) = (F::from_f64(2.0 * aim.factor / rows), F::from_f64(1.0 / members));
        errors.fill(F::ZERO);
        gradient.fill(F::ZERO);
        let (mut loss, mut total) = (0.0, 0.0);
        for ((net, memory), q) in self.members.iter().zip(nets).zip(q.chunks_exact(n.max(1))) {
            slopes.clear();
            for (row, (&q, &goal)) in q.iter().zip(aim.goals).enumerate() {
                let weight = aim.weights.and_then(|all| all.get(row)).copied().unwrap_or(F::ONE);
                let error = q - goal;
                loss += (weight * error * error).to_f64();
                total += q.to_f64();
                slopes.push(weight * error * bend);
                if let Some(sum) = errors.get_mut(row) {
                    *sum += if error < F::ZERO { -error } else { error } * share;
                }
            }
            let wanted = Wanted::parameters(&mut *gradient);
            net.backward(parameters, inputs, memory, slopes, wanted)?;
        }
        Ok((aim.factor * loss / rows, total / (rows * members)))
    }

    /// The gradient of the vectors, `[n, size]` in `to_actions`, of that of the values of the last pass,
    /// `to_q` `[members, n]` of as many as were asked.
    pub(super) fn back<F: Number>(
        &self,
        parameters: &[F],
        memory: &mut CriticsMemory<F>,
        to_q: &[F],
        to_actions: &mut [F],
    ) -> Result<()> {
        let n = to_actions.len() / self.size.max(1);
        let CriticsMemory { nets, inputs, to_inputs, .. } = memory;
        resize(to_inputs, inputs.len())?;
        to_actions.fill(F::ZERO);
        for ((net, memory), to_q) in self.members.iter().zip(nets).zip(to_q.chunks_exact(n.max(1)))
        {
            let wanted = Wanted::inputs(to_inputs.as_mut_slice());
            net.backward(parameters, inputs, memory, to_q, wanted)?;
            let rows = to_inputs.chunks_exact(self.obs_dim + self.size);
            for (sum, more) in to_actions.chunks_exact_mut(self.size).zip(rows) {
                for (sum, &more) in sum.iter_mut().zip(more.iter().skip(self.obs_dim)) {
                    *sum += more;
                }
            }
        }
        Ok(())
    }
}

/// A vector that is learned, and its optimizer.
#[derive(Debug)]
pub struct Learned<'a, F> {
    /// The parameters.
    pub parameters: &'a mut [F],
    /// What steps them.
    pub optimizer: Optimizer<'a, F>,
}

impl<F: Number> Learned<'_, F> {
    /// A step along `gradient`, cut to `most`, whose norm before that is returned; none if that is no number.
    pub(super) fn step(&mut self, gradient: &mut [F], most: Option<f64>, lr: f64) -> Result<f64> {
        let norm = clip(gradient, most);
        if norm.is_finite() {
            self.optimizer.step(self.parameters, gradient, lr)?;
        }
        Ok(norm)
    }
}

/// target <- (1 - tau) target + tau online, as torch's `lerp` rounds it.
pub(super) fn follow<F: Number>(target: &mut [F], online: &[F], tau: f64) {
    let (near, far) = (F::from_f64(tau), F::from_f64(1.0 - tau));
    for (target, &online) in target.iter_mut().zip(online) {
        let way = online - *target;
        *target = if tau < 0.5 { *target + near * way } else { online - way * far };
    }
}

/// The lowest of several critics' values `[members, n]` in each row, `[n]`, and whose it is.
pub(super) fn lowest<F: Number>(q: &[F], n: usize, low: &mut Vec<F>, whose: &mut Vec<usize>) {
    low.clear();
    whose.clear();
    let mut members = q.chunks_exact(n.max(1));
    low.extend_from_slice(members.next().unwrap_or_default());
    whose.resize(low.len(), 0);
    for (member, q) in (1..).zip(members) {
        for ((low, whose), &q) in low.iter_mut().zip(whose.iter_mut()).zip(q) {
            if q < *low {
                (*low, *whose) = (q, member);
            }
        }
    }
}
