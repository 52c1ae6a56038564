//! Compares gradients with finite differences in float64, for every loss, head and activation.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::cast_possible_wrap, missing_docs)]

use rlox_core::seed::Stream;
use rlox_core::{Layout, Result};
use rlox_nn::cpu::losses::{ActorCriticLoss, Collected, Ppo, Said, Slopes};
use rlox_nn::cpu::{
    Activation, ActorCritic, ActorCriticMemory, Architecture, Done, Kind, Memory, Mlp, Wanted,
    named,
};

/// Half of the distance between the two points of a finite difference.
const STEP: f64 = 1e-6;

fn normals(stream: &mut Stream, n: usize, scale: f64) -> Vec<f64> {
    let mut out = vec![0.0; n];
    stream.fill_normal(&mut out);
    out.iter().map(|x| x * scale).collect()
}

/// Returns the largest difference of `gradient` from finite differences of `loss`, relative to the
/// norm of the latter.
fn difference(at: &[f64], gradient: &[f64], loss: impl Fn(&[f64]) -> f64) -> f64 {
    difference_in(0..at.len(), at, gradient, loss)
}

/// Returns the same for these indices only.
fn difference_in(
    places: impl IntoIterator<Item = usize>,
    at: &[f64],
    gradient: &[f64],
    loss: impl Fn(&[f64]) -> f64,
) -> f64 {
    let mut point = at.to_vec();
    let (mut worst, mut norm) = (0.0_f64, 0.0_f64);
    for i in places {
        point[i] = at[i] + STEP;
        let above = loss(&point);
        point[i] = at[i] - STEP;
        let slope = (above - loss(&point)) / (2.0 * STEP);
        point[i] = at[i];
        worst = worst.max((slope - gradient[i]).abs());
        norm += slope * slope;
    }
    assert!(norm > 0.0, "nothing depends on the parameters");
    worst / norm.sqrt()
}

struct Minibatch {
    obs: Vec<f64>,
    choices: Vec<i64>,
    allowed: Option<Vec<bool>>,
    vectors: Vec<f64>,
    log_probs: Vec<f64>,
    values: Vec<f64>,
    advantages: Vec<f64>,
    returns: Vec<f64>,
}

impl Minibatch {
    fn new(stream: &mut Stream, n: usize, of: &Architecture, masked: bool) -> Self {
        let (choices, dim) = match of.kind {
            Kind::Choices(k) => (k, 0),
            Kind::Numbers(k) | Kind::Sde(k) => (1, k),
        };
        let chosen: Vec<i64> =
            (0..n).map(|_| (stream.next_u64() % choices as u64) as i64).collect();
        let mut allowed: Vec<bool> = (0..n * choices).map(|_| stream.uniform() < 0.6).collect();
        for (row, &action) in chosen.iter().enumerate() {
            allowed[row * choices + usize::try_from(action).unwrap()] = true;
        }
        Self {
            obs: normals(stream, n * of.obs_dim, 1.0),
            choices: chosen,
            allowed: masked.then_some(allowed),
            vectors: normals(stream, n * dim, 1.0),
            log_probs: normals(stream, n, 0.3),
            values: normals(stream, n, 0.5),
            advantages: normals(stream, n, 1.0),
            returns: normals(stream, n, 1.0),
        }
    }

    fn done(&self) -> Done<'_, f64> {
        if self.vectors.is_empty() {
            Done::Choices(&self.choices, self.allowed.as_deref())
        } else {
            Done::Vectors(&self.vectors)
        }
    }

    fn collected(&self) -> Collected<'_, f64> {
        Collected {
            log_probs: &self.log_probs,
            values: &self.values,
            advantages: &self.advantages,
            returns: &self.returns,
        }
    }

    /// Sets old log-probabilities and values as if the policy had changed a little since.
    fn near(&mut self, net: &ActorCritic, parameters: &[f64]) {
        let mut memory = ActorCriticMemory::default();
        let said = net.evaluate(parameters, &self.obs, self.done(), &mut memory).unwrap();
        let (log_probs, values) = (said.log_probs.to_vec(), said.values.to_vec());
        self.log_probs.iter_mut().zip(log_probs).for_each(|(old, new)| *old += new);
        self.values.iter_mut().zip(values).for_each(|(old, new)| *old += new);
    }
}

type Loss = Box<dyn Fn(Said<'_, f64>, Collected<'_, f64>, Slopes<'_, f64>) -> Result<(f64, f64)>>;

fn losses() -> Vec<(&'static str, Loss)> {
    let weights = ActorCriticLoss { vf_coef: 0.7, ent_coef: 0.05 };
    let ppo = |clip_vloss| Ppo { weights, clip_eps: 0.2, clip_vloss };
    let of = |ppo: Ppo| -> Loss {
        Box::new(move |said, batch, to| {
            ppo.gradient(said, batch, to).map(|(told, to)| (told.terms.total, to))
        })
    };
    vec![
        (
            "actor-critic",
            Box::new(move |said, batch, to| {
                weights.gradient(said, batch, to).map(|(told, to)| (told.total, to))
            }),
        ),
        ("PPO", of(ppo(false))),
        ("PPO with clipped values", of(ppo(true))),
    ]
}

fn kinds() -> [(&'static str, Kind, bool); 4] {
    [
        ("choices", Kind::Choices(3), false),
        ("masked choices", Kind::Choices(5), true),
        ("normal numbers", Kind::Numbers(2), false),
        ("gSDE", Kind::Sde(2), false),
    ]
}

/// Returns the indices where `gradient` is the derivative of the loss. Under gSDE the actor's
/// hidden layers get no gradient through the deviations.
fn learned(layout: &Layout, of: &Architecture) -> Vec<usize> {
    let last = format!("actor.{}.", 2 * of.actor.len());
    let hidden = |name: &str| name.starts_with("actor.") && !name.starts_with(&last);
    let all = |name: &str| !matches!(of.kind, Kind::Sde(_)) || !hidden(name);
    layout.arrays().filter(|(name, ..)| all(name)).flat_map(|(.., range)| range).collect()
}

#[test]
fn gradients_are_those_of_finite_differences_for_every_loss_head_and_activation() {
    let mut compared = 0;
    for activation in Activation::ALL {
        for (kind_name, kind, masked) in kinds() {
            // With 17 inputs, a layer of up to 3 outputs computes dot products.
            for (actor, critic) in [(vec![6, 5], vec![17]), (vec![17], vec![4])] {
                let of = Architecture { obs_dim: 3, kind, actor, critic, activation };
                let layout = Layout::aligned(16, of.named()).unwrap();
                let net = ActorCritic::new(&layout, &of).unwrap();
                for (loss_name, loss) in losses() {
                    let mut stream = Stream::new(7, "gradients", compared);
                    compared += 1;
                    let parameters = normals(&mut stream, layout.len(), 0.5);
                    let mut batch = Minibatch::new(&mut stream, 9, &of, masked);
                    batch.near(&net, &parameters);
                    let at = |parameters: &[f64], gradient: &mut [f64]| {
                        let mut memory = ActorCriticMemory::default();
                        let seen = (&batch.obs[..], batch.done());
                        let with = |said: Said<'_, f64>, to: Slopes<'_, f64>| {
                            let (total, to) = loss(said, batch.collected(), to)?;
                            Ok((total, Some(to)))
                        };
                        net.gradient(parameters, seen, &mut memory, with, gradient).unwrap()
                    };
                    let mut gradient = vec![f64::NAN; layout.len()];
                    at(&parameters, &mut gradient);
                    let loss = |p: &[f64]| at(p, &mut vec![0.0; layout.len()]);
                    let places = learned(&layout, &of);
                    let wrong = difference_in(places, &parameters, &gradient, loss);
                    assert!(
                        wrong < 1e-6,
                        "{loss_name}, {kind_name}, {}: {wrong}",
                        activation.name()
                    );
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
            let layout = Layout::aligned(16, named("net", sizes)).unwrap();
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
            let wanted = Wanted::inputs(&mut gradient);
            net.backward(&parameters, &x, &mut memory, &weights, wanted).unwrap();
            let wrong = difference(&x, &gradient, loss);
            assert!(wrong < 1e-8, "{sizes:?}, {}: {wrong}", activation.name());
        }
    }
}

#[test]
fn a_row_says_the_same_alone_and_among_others() {
    for sizes in [&[4, 64, 64, 2][..], &[3, 256, 1], &[17, 32, 6]] {
        for activation in Activation::ALL {
            let layout = Layout::aligned(16, named("net", sizes)).unwrap();
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
                let among = &all[i * width..(i + 1) * width];
                let same = one.iter().zip(among).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{sizes:?} {}: row {i}: {one:?} {among:?}", activation.name());
            }
        }
    }
}
