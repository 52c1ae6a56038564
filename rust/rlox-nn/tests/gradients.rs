//! Compares gradients with finite differences in float64, for every loss, head and activation.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::cast_possible_wrap, missing_docs)]

use rlox_core::seed::Stream;
use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::{ActorCriticLoss, Evaluation, PpoLoss, RolloutColumns, Slopes};
use rlox_nn::cpu::{
    ActionKind, ActionsTaken, Activation, ActorCritic, ActorCriticMemory, Architecture, GradientBuffers,
    Memory, Mlp, parameter_shapes,
};

/// Half of the distance between the two points of a finite difference.
const STEP: f64 = 1e-6;

fn normals(stream: &mut Stream, n: usize, scale: f64) -> Vec<f64> {
    let mut out = vec![0.0; n];
    stream.fill_normal(&mut out);
    out.iter().map(|x| x * scale).collect()
}

/// Returns the largest difference of `gradient` from finite differences of `loss`, relative to the
/// norm of the finite differences.
fn difference(base_point: &[f64], gradient: &[f64], loss: impl Fn(&[f64]) -> f64) -> f64 {
    difference_at(0..base_point.len(), base_point, gradient, loss)
}

/// Same as [`difference`], for these indices only.
fn difference_at(
    indices: impl IntoIterator<Item = usize>,
    base_point: &[f64],
    gradient: &[f64],
    loss: impl Fn(&[f64]) -> f64,
) -> f64 {
    let mut point = base_point.to_vec();
    let (mut worst, mut norm) = (0.0_f64, 0.0_f64);
    for i in indices {
        point[i] = base_point[i] + STEP;
        let above = loss(&point);
        point[i] = base_point[i] - STEP;
        let slope = (above - loss(&point)) / (2.0 * STEP);
        point[i] = base_point[i];
        worst = worst.max((slope - gradient[i]).abs());
        norm += slope * slope;
    }
    assert!(norm > 0.0, "nothing depends on the parameters");
    worst / norm.sqrt()
}

struct Minibatch {
    obs: Vec<f64>,
    choices: Vec<i64>,
    action_mask: Option<Vec<bool>>,
    vectors: Vec<f64>,
    log_probs: Vec<f64>,
    values: Vec<f64>,
    advantages: Vec<f64>,
    returns: Vec<f64>,
}

impl Minibatch {
    fn new(stream: &mut Stream, n: usize, architecture: &Architecture, masked: bool) -> Self {
        let (choices, dim) = match architecture.kind {
            ActionKind::Choices(k) => (k, 0),
            ActionKind::Gaussian(k) | ActionKind::Sde(k) => (1, k),
        };
        let chosen: Vec<i64> = (0..n).map(|_| (stream.next_u64() % choices as u64) as i64).collect();
        let mut action_mask: Vec<bool> = (0..n * choices).map(|_| stream.uniform() < 0.6).collect();
        for (row, &action) in chosen.iter().enumerate() {
            action_mask[row * choices + usize::try_from(action).unwrap()] = true;
        }
        Self {
            obs: normals(stream, n * architecture.obs_dim, 1.0),
            choices: chosen,
            action_mask: masked.then_some(action_mask),
            vectors: normals(stream, n * dim, 1.0),
            log_probs: normals(stream, n, 0.3),
            values: normals(stream, n, 0.5),
            advantages: normals(stream, n, 1.0),
            returns: normals(stream, n, 1.0),
        }
    }

    fn actions(&self) -> ActionsTaken<'_, f64> {
        if self.vectors.is_empty() {
            ActionsTaken::Choices(&self.choices, self.action_mask.as_deref())
        } else {
            ActionsTaken::Vectors(&self.vectors)
        }
    }

    fn rollout(&self) -> RolloutColumns<'_, f64> {
        RolloutColumns {
            log_probs: &self.log_probs,
            values: &self.values,
            advantages: &self.advantages,
            returns: &self.returns,
        }
    }

    /// Sets old log-probabilities and values as if the policy had changed a little since.
    fn set_old_outputs(&mut self, net: &ActorCritic, parameters: &[f64]) {
        let mut memory = ActorCriticMemory::default();
        let evaluation = net.evaluate(parameters, &self.obs, self.actions(), &mut memory).unwrap();
        let (log_probs, values) = (evaluation.log_probs.to_vec(), evaluation.values.to_vec());
        self.log_probs.iter_mut().zip(log_probs).for_each(|(old, new)| *old += new);
        self.values.iter_mut().zip(values).for_each(|(old, new)| *old += new);
    }
}

type Loss = Box<dyn Fn(Evaluation<'_, f64>, RolloutColumns<'_, f64>, Slopes<'_, f64>) -> Result<(f64, f64)>>;

fn losses() -> Vec<(&'static str, Loss)> {
    let weights = ActorCriticLoss { vf_coef: 0.7, ent_coef: 0.05 };
    let ppo = |clip_vloss| PpoLoss { coefficients: weights, clip_eps: 0.2, clip_vloss };
    let ppo_loss = |ppo: PpoLoss| -> Loss {
        Box::new(move |evaluation, batch, slopes| {
            ppo.gradient(evaluation, batch, slopes).map(|(terms, to_entropy)| (terms.terms.total, to_entropy))
        })
    };
    vec![
        (
            "actor-critic",
            Box::new(move |evaluation, batch, slopes| {
                weights
                    .gradient(evaluation, batch, slopes)
                    .map(|(terms, slope_of_entropy)| (terms.total, slope_of_entropy))
            }),
        ),
        ("PPO", ppo_loss(ppo(false))),
        ("PPO with clipped values", ppo_loss(ppo(true))),
    ]
}

fn kinds() -> [(&'static str, ActionKind, bool); 4] {
    [
        ("choices", ActionKind::Choices(3), false),
        ("masked choices", ActionKind::Choices(5), true),
        ("normal numbers", ActionKind::Gaussian(2), false),
        ("gSDE", ActionKind::Sde(2), false),
    ]
}

/// Returns the indices where `gradient` is the derivative of the loss. Under gSDE the actor's
/// hidden layers get no gradient through the deviations.
fn differentiable_indices(layout: &Layout, architecture: &Architecture) -> Vec<usize> {
    let last = format!("actor.{}.", 2 * architecture.actor.len());
    let is_hidden = |name: &str| name.starts_with("actor.") && !name.starts_with(&last);
    let is_differentiable = |name: &str| !matches!(architecture.kind, ActionKind::Sde(_)) || !is_hidden(name);
    layout.arrays().filter(|(name, ..)| is_differentiable(name)).flat_map(|(.., range)| range).collect()
}

#[test]
fn gradients_are_those_of_finite_differences_for_every_loss_head_and_activation() {
    let mut compared = 0;
    for activation in Activation::ALL {
        for (kind_name, kind, masked) in kinds() {
            // With 17 inputs, a layer of up to 3 outputs computes dot products.
            for (actor, critic) in [(vec![6, 5], vec![17]), (vec![17], vec![4])] {
                let architecture = Architecture { obs_dim: 3, kind, actor, critic, activation };
                let layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
                let net = ActorCritic::new(&layout, &architecture).unwrap();
                for (loss_name, loss) in losses() {
                    let mut stream = Stream::new(7, "gradients", compared);
                    compared += 1;
                    let parameters = normals(&mut stream, layout.len(), 0.5);
                    let mut batch = Minibatch::new(&mut stream, 9, &architecture, masked);
                    batch.set_old_outputs(&net, &parameters);
                    let loss_at = |parameters: &[f64], gradient: &mut [f64]| {
                        let mut memory = ActorCriticMemory::default();
                        let obs_and_actions = (&batch.obs[..], batch.actions());
                        let compute_loss = |evaluation: Evaluation<'_, f64>, slopes: Slopes<'_, f64>| {
                            let (total, to_entropy) = loss(evaluation, batch.rollout(), slopes)?;
                            Ok((total, Some(to_entropy)))
                        };
                        net.gradient(parameters, obs_and_actions, &mut memory, compute_loss, gradient)
                            .unwrap()
                    };
                    let mut gradient = vec![f64::NAN; layout.len()];
                    loss_at(&parameters, &mut gradient);
                    let loss = |p: &[f64]| loss_at(p, &mut vec![0.0; layout.len()]);
                    let indices = differentiable_indices(&layout, &architecture);
                    let error = difference_at(indices, &parameters, &gradient, loss);
                    assert!(error < 1e-6, "{loss_name}, {kind_name}, {}: {error}", activation.name());
                }
            }
        }
    }
    assert_eq!(compared, 4 * 4 * 2 * 3);
}

#[test]
fn the_gradient_of_inputs_is_that_of_finite_differences() {
    for activation in Activation::ALL {
        for sizes in [&[4, 2][..], &[4, 7, 5], &[4, 20, 1], &[18, 3]] {
            let layout = Layout::aligned(16, parameter_shapes("net", sizes)).unwrap();
            let net = Mlp::new(&layout, "net", sizes, activation).unwrap();
            let mut stream = Stream::new(3, "inputs", 0);
            let parameters = normals(&mut stream, layout.len(), 0.5);
            let x = normals(&mut stream, 6 * sizes[0], 1.0);
            let weights = normals(&mut stream, 6 * sizes[sizes.len() - 1], 1.0);
            let loss = |x: &[f64]| -> f64 {
                let mut memory = Memory::default();
                let y = net.infer(&parameters, x, &mut memory).unwrap();
                y.iter().zip(&weights).map(|(y, w)| y * w).sum()
            };
            let (mut memory, mut gradient) = (Memory::default(), vec![f64::NAN; x.len()]);
            net.forward(&parameters, &x, &mut memory).unwrap();
            let buffers = GradientBuffers::inputs(&mut gradient);
            net.backward(&parameters, &x, &mut memory, &weights, buffers).unwrap();
            let error = difference(&x, &gradient, loss);
            assert!(error < 1e-8, "{sizes:?}, {}: {error}", activation.name());
        }
    }
}

#[test]
fn a_row_has_the_same_output_alone_and_among_others() {
    for sizes in [&[4, 64, 64, 2][..], &[3, 256, 1], &[17, 32, 6]] {
        for activation in Activation::ALL {
            let layout = Layout::aligned(16, parameter_shapes("net", sizes)).unwrap();
            let net = Mlp::new(&layout, "net", sizes, activation).unwrap();
            let mut stream = Stream::new(5, "rows", 0);
            let mut parameters = vec![0.0_f32; layout.len()];
            stream.fill_normal(&mut parameters);
            let mut x = vec![0.0_f32; 70 * sizes[0]];
            stream.fill_normal(&mut x);
            let mut memory = Memory::default();
            let all = net.infer(&parameters, &x, &mut memory).unwrap().to_vec();
            for (i, x) in x.chunks_exact(sizes[0]).enumerate() {
                let mut memory = Memory::default();
                let one = net.infer(&parameters, x, &mut memory).unwrap();
                let width = one.len();
                let row_of_all = &all[i * width..(i + 1) * width];
                let is_same = one.iter().zip(row_of_all).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(is_same, "{sizes:?} {}: row {i}: {one:?} {row_of_all:?}", activation.name());
            }
        }
    }
}
