//! Q-values of actions that are vectors, by several critics that share no parameters.

use multiversion::multiversion;
use rlox_core::error::{Result, check_len};
use rlox_core::{Error, Layout};

use super::activation::Activation;
use super::gemm::Number;
use super::mlp::{GradientBuffers, Memory, Mlp, resize};
use super::optim::{Optimizer, clip};

/// The architecture of [`Critics`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CriticsArchitecture {
    /// The number of critics.
    pub members: usize,
    /// The length of an observation.
    pub obs_dim: usize,
    /// The length of an action.
    pub action_dim: usize,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// The activation of all hidden layers.
    pub activation: Activation,
}

impl CriticsArchitecture {
    fn sizes(&self) -> Vec<usize> {
        [&[self.obs_dim + self.action_dim], self.hidden.as_slice(), &[1]].concat()
    }

    /// Returns the names and shapes of the parameters, in the order of rlox's `EnsembleMLP`:
    /// `weights.0` `[members, outputs, inputs]`, `weights.1`, ..., `biases.0` `[members, outputs]`,
    /// ...
    #[must_use]
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let sizes = self.sizes();
        let pairs: Vec<_> = sizes.iter().zip(sizes.iter().skip(1)).collect();
        let weights = pairs
            .iter()
            .enumerate()
            .map(|(i, &(&inputs, &outputs))| (format!("weights.{i}"), vec![self.members, outputs, inputs]));
        let biases = pairs.iter().enumerate();
        let biases = biases.map(|(i, &(_, &outputs))| (format!("biases.{i}"), vec![self.members, outputs]));
        weights.chain(biases).collect()
    }
}

/// The functions Q_i(s, a), over one parameter vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Critics {
    members: Vec<Mlp>,
    obs_dim: usize,
    action_dim: usize,
}

/// Buffers of a forward and a backward pass.
#[derive(Debug, Clone, Default)]
pub struct CriticsMemory<F> {
    nets: Vec<Memory<F>>,
    /// Observations and actions side by side, `[n, obs_dim + action_dim]`.
    inputs: Vec<F>,
    /// `[members, n]`.
    q: Vec<F>,
    slopes: Vec<F>,
    /// Rows whose gradient is not 0, and the gradients of their actions.
    rows: Vec<usize>,
    to_actions: Vec<F>,
}

/// Rows of observations and actions.
#[derive(Debug, Clone, Copy)]
pub struct StateActionPairs<'a, F> {
    /// `[n, obs_dim]`.
    pub obs: &'a [F],
    /// `[n, action_dim]`.
    pub actions: &'a [F],
}

/// The targets of a batch, and the weights of its loss.
#[derive(Debug, Clone, Copy)]
pub(super) struct CriticTargets<'a, F> {
    /// `[n]`.
    pub(super) values: &'a [F],
    /// `[n]`; None: all are 1.
    pub(super) weights: Option<&'a [F]>,
    /// The factor of the sum of all critics' squared errors.
    pub(super) factor: f64,
}

impl Critics {
    /// Returns the critics of this architecture, whose parameters are at the ranges of `layout`.
    ///
    /// # Errors
    /// [`Error::UnknownName`] for a missing parameter, [`Error::Shape`] for a parameter of another
    /// shape, [`Error::Config`] for parameters that the architecture does not have, and if the
    /// number of members or the length of an observation or an action is 0.
    pub fn new(layout: &Layout, architecture: &CriticsArchitecture) -> Result<Self> {
        let shapes = architecture.parameter_shapes();
        if let Some((name, ..)) = layout.arrays().find(|(name, ..)| shapes.iter().all(|o| o.0 != *name)) {
            let expected = "a parameter of these critics, whose layers have other names";
            return Err(Error::config("parameter", name, expected));
        }
        for (name, size) in [
            ("members", architecture.members),
            ("obs_dim", architecture.obs_dim),
            ("actions", architecture.action_dim),
        ] {
            if size == 0 {
                return Err(Error::config(name, 0, "at least 1"));
            }
        }
        let members =
            Mlp::stacked(layout, architecture.members, &architecture.sizes(), architecture.activation)?;
        Ok(Self { members, obs_dim: architecture.obs_dim, action_dim: architecture.action_dim })
    }

    /// Returns the number of critics.
    #[must_use]
    pub const fn members(&self) -> usize {
        self.members.len()
    }

    /// Returns the Q-values of `pairs` by the first `members` critics, `[members, n]`.
    ///
    /// # Errors
    /// [`Error::Shape`] for slices that do not fit.
    pub fn forward<'m, F: Number>(
        &self,
        parameters: &[F],
        pairs: StateActionPairs<'_, F>,
        members: usize,
        memory: &'m mut CriticsMemory<F>,
    ) -> Result<&'m [F]> {
        let n = pairs.obs.len() / self.obs_dim.max(1);
        check_len("obs", pairs.obs.len(), n * self.obs_dim, "whole rows")?;
        check_len("actions", pairs.actions.len(), n * self.action_dim, "one for each observation")?;
        let CriticsMemory { nets, inputs, q, .. } = memory;
        inputs.clear();
        let rows = pairs.obs.chunks_exact(self.obs_dim).zip(pairs.actions.chunks_exact(self.action_dim));
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

    /// Writes the gradient of `factor` sum_i E[w (Q_i - target)^2] to `gradient`, after a forward
    /// pass of all critics (algorithm 1 of Fujimoto et al. 2018). Returns that loss and the mean of
    /// Q over all critics.
    ///
    /// `errors` `[n]` receives |Q_i - target| as the mean over the critics.
    pub(super) fn gradient<F: Number>(
        &self,
        parameters: &[F],
        memory: &mut CriticsMemory<F>,
        targets: CriticTargets<'_, F>,
        errors: &mut [F],
        gradient: &mut [F],
    ) -> Result<(f64, f64)> {
        let n = targets.values.len();
        check_len("errors", errors.len(), n, "as the targets")?;
        check_len("weights", targets.weights.map_or(n, <[F]>::len), n, "as the targets")?;
        let CriticsMemory { nets, inputs, q, slopes, .. } = memory;
        check_len("values", q.len(), n * self.members.len(), "of all critics")?;
        #[expect(clippy::cast_precision_loss, reason = "rows of a batch, critics")]
        let (rows, members) = (n as f64, self.members.len() as f64);
        let (scale, share) = (F::from_f64(2.0 * targets.factor / rows), F::from_f64(1.0 / members));
        errors.fill(F::ZERO);
        gradient.fill(F::ZERO);
        let (mut loss, mut total) = (0.0, 0.0);
        for ((net, memory), q) in self.members.iter().zip(nets).zip(q.chunks_exact(n.max(1))) {
            slopes.clear();
            for (row, (&q, &target)) in q.iter().zip(targets.values).enumerate() {
                let weight = targets.weights.and_then(|all| all.get(row)).copied().unwrap_or(F::ONE);
                let error = q - target;
                loss += (weight * error * error).to_f64();
                total += q.to_f64();
                slopes.push(weight * error * scale);
                if let Some(sum) = errors.get_mut(row) {
                    *sum += if error < F::ZERO { -error } else { error } * share;
                }
            }
            let buffers = GradientBuffers::parameters(&mut *gradient);
            net.backward(parameters, inputs, memory, slopes, buffers)?;
        }
        Ok((targets.factor * loss / rows, total / (rows * members)))
    }

    /// Writes the gradient with respect to the actions, `[n, action_dim]`, to `to_actions`. `to_q`
    /// `[members, n]` is the gradient with respect to the Q-values of the last forward pass. Rows of a
    /// critic for which it is 0 add nothing and are left out.
    pub(super) fn backward<F: Number>(
        &self,
        parameters: &[F],
        memory: &mut CriticsMemory<F>,
        to_q: &[F],
        to_actions: &mut [F],
    ) -> Result<()> {
        let n = to_actions.len() / self.action_dim.max(1);
        let CriticsMemory { nets, slopes, rows, to_actions: row_gradients, .. } = memory;
        let columns = self.obs_dim..self.obs_dim + self.action_dim;
        to_actions.fill(F::ZERO);
        for ((net, memory), to_q) in self.members.iter().zip(nets).zip(to_q.chunks_exact(n.max(1))) {
            rows.clear();
            slopes.clear();
            for (row, &slope) in to_q.iter().enumerate().filter(|(_, slope)| **slope != F::ZERO) {
                rows.push(row);
                slopes.push(slope);
            }
            if rows.is_empty() {
                continue;
            }
            resize(row_gradients, rows.len() * self.action_dim)?;
            net.input_gradient(parameters, memory, rows, (slopes, &columns), row_gradients)?;
            for (&row, gradient) in rows.iter().zip(row_gradients.chunks_exact(self.action_dim)) {
                let start = row * self.action_dim;
                let sums = to_actions.get_mut(start..start + self.action_dim).unwrap_or_default();
                for (sum, &more) in sums.iter_mut().zip(gradient) {
                    *sum += more;
                }
            }
        }
        Ok(())
    }
}

/// A parameter vector and its optimizer.
#[derive(Debug)]
pub struct TrainState<'a, F> {
    /// The parameters.
    pub parameters: &'a mut [F],
    /// The optimizer of these parameters.
    pub optimizer: Optimizer<'a, F>,
}

impl<F: Number> TrainState<'_, F> {
    /// Clips `gradient`, takes a step along it, and returns the norm before clipping. Takes no step
    /// if that norm is not finite.
    pub(super) fn step(&mut self, gradient: &mut [F], max_norm: Option<f64>, lr: f64) -> Result<f64> {
        let norm = clip(gradient, max_norm);
        if norm.is_finite() {
            self.optimizer.step(self.parameters, gradient, lr)?;
        }
        Ok(norm)
    }
}

/// Sets target to (1 - tau) target + tau online, rounded as in torch's `lerp`.
#[multiversion(targets("x86_64+avx512f+avx512dq+avx512vl", "x86_64+avx2"))]
pub(super) fn polyak_update<F: Number>(target: &mut [F], online: &[F], tau: f64) {
    let (rate, complement) = (F::from_f64(tau), F::from_f64(1.0 - tau));
    for (target, &online) in target.iter_mut().zip(online) {
        let difference = online - *target;
        *target = if tau < 0.5 { *target + rate * difference } else { online - difference * complement };
    }
}

/// Computes for each row the minimum over critics of the Q-values `[members, n]`, and the index of
/// the critic that has it; `[n]` each.
pub(super) fn min_over_critics<F: Number>(q: &[F], n: usize, min_q: &mut Vec<F>, argmin: &mut Vec<usize>) {
    min_q.clear();
    argmin.clear();
    let mut members = q.chunks_exact(n.max(1));
    min_q.extend_from_slice(members.next().unwrap_or_default());
    argmin.resize(min_q.len(), 0);
    for (member, q) in (1..).zip(members) {
        for ((row_min, row_argmin), &q) in min_q.iter_mut().zip(argmin.iter_mut()).zip(q) {
            if q < *row_min {
                (*row_min, *row_argmin) = (q, member);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rlox_core::seed::Stream;

    use super::*;

    fn normals(stream: &mut Stream, n: usize) -> Vec<f32> {
        let mut out = vec![0.0; n];
        stream.fill_normal(&mut out);
        out
    }

    /// Returns the gradient of the actions from whole passes of every critic over every row.
    fn whole_passes(
        critics: &Critics,
        parameters: &[f32],
        memory: &mut CriticsMemory<f32>,
        to_q: &[f32],
    ) -> Vec<f32> {
        let width = critics.obs_dim + critics.action_dim;
        let n = to_q.len() / critics.members.len();
        let mut sums = vec![0.0_f32; n * critics.action_dim];
        for (member, net) in critics.members.iter().enumerate() {
            let mut to_inputs = vec![0.0; n * width];
            let buffers = GradientBuffers::inputs(&mut to_inputs);
            let slopes = &to_q[member * n..(member + 1) * n];
            net.backward(parameters, &memory.inputs, &mut memory.nets[member], slopes, buffers).unwrap();
            for (i, sum) in sums.iter_mut().enumerate() {
                let (row, column) = (i / critics.action_dim, critics.obs_dim + i % critics.action_dim);
                *sum += to_inputs[row * width + column];
            }
        }
        sums
    }

    #[test]
    fn rows_without_a_gradient_are_left_out_and_the_others_keep_their_bits() {
        for activation in Activation::ALL {
            for hidden in [vec![], vec![2], vec![5, 19], vec![64, 64]] {
                let (members, obs_dim, action_dim, n) = (2, 17, 2, 33);
                let architecture = CriticsArchitecture { members, obs_dim, action_dim, hidden, activation };
                let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
                let critics = Critics::new(&layout, &architecture).unwrap();
                let mut stream = Stream::new(3, activation.name(), 0);
                let parameters = normals(&mut stream, layout.len());
                let (obs, actions) =
                    (normals(&mut stream, n * obs_dim), normals(&mut stream, n * action_dim));
                let mut memory = CriticsMemory::default();
                let pairs = StateActionPairs { obs: &obs, actions: &actions };
                critics.forward(&parameters, pairs, members, &mut memory).unwrap();
                let all = normals(&mut stream, members * n);
                let some: Vec<f32> =
                    all.iter().enumerate().map(|(i, &slope)| if i % 3 == 0 { slope } else { 0.0 }).collect();
                let second_only = [vec![0.0; n], all[n..].to_vec()].concat();
                for to_q in [all, some, second_only, vec![0.0; members * n]] {
                    let mut to_actions = vec![f32::NAN; n * action_dim];
                    critics.backward(&parameters, &mut memory, &to_q, &mut to_actions).unwrap();
                    let expected = whole_passes(&critics, &parameters, &mut memory, &to_q);
                    let bits = |values: Vec<f32>| values.into_iter().map(f32::to_bits).collect::<Vec<_>>();
                    assert_eq!(bits(to_actions), bits(expected));
                }
            }
        }
    }
}
