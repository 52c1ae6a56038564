//! Compares gradients of SAC's and TD3's losses with finite differences in float64.
//!
//! With a step size of 0 nothing changes, Adam's first moment after one batch is a tenth of the
//! gradient, and the reported losses are those at these parameters.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use rlox_core::seed::Stream;
use rlox_core::{Error, Layout, Result};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    Activation, Batches, Critics, CriticsArchitecture, Learned, Mlp, SacEngine, SacParameters,
    SacSettings, Td3Engine, Td3Parameters, Td3Settings, Temperature, named,
};

const STEP: f64 = 1e-6;
const ROWS: usize = 6;
const OBS: usize = 3;
const SIZE: usize = 2;

fn normals(stream: &mut Stream, n: usize, scale: f64) -> Vec<f64> {
    let mut out = vec![0.0; n];
    stream.fill_normal(&mut out);
    out.iter().map(|x| x * scale).collect()
}

/// The losses of critics and actor, and the gradients of actor and critics.
type Told = ([f64; 2], [Vec<f64>; 2]);

/// Networks with one activation, their parameters, and a batch.
struct Case {
    layouts: [Layout; 2],
    nets: (Mlp, Critics),
    /// The parameters of actor, critics, and the targets of both.
    at: [Vec<f64>; 4],
    columns: [Vec<f64>; 5],
    weights: Vec<f64>,
    noise: Vec<f64>,
}

impl Case {
    fn new(activation: Activation, outputs: usize) -> Self {
        let mut stream = Stream::new(outputs as u64, activation.name(), 0);
        let sizes = [OBS, 5, 4, outputs];
        let of_actor = Layout::aligned(16, named("actor", &sizes)).unwrap();
        let actor = Mlp::new(&of_actor, "actor", &sizes, activation).unwrap();
        let (members, hidden) = (2, vec![6, 4]);
        let of = CriticsArchitecture { members, obs_dim: OBS, size: SIZE, hidden, activation };
        let of_critics = Layout::aligned(16, of.named()).unwrap();
        let critics = Critics::new(&of_critics, &of).unwrap();
        let at = [&of_actor, &of_critics, &of_actor, &of_critics]
            .map(|layout| normals(&mut stream, layout.len(), 0.5));
        let actions = normals(&mut stream, ROWS * SIZE, 1.0).iter().map(|x| x.tanh()).collect();
        let columns = [
            normals(&mut stream, ROWS * OBS, 1.0),
            actions,
            normals(&mut stream, ROWS, 1.0),
            normals(&mut stream, ROWS * OBS, 1.0),
            (0..ROWS).map(|row| if row % 3 == 0 { 0.0 } else { 0.9 }).collect(),
        ];
        let weights = (0..ROWS).map(|_| 0.2 + stream.uniform()).collect();
        let noise = normals(&mut stream, 2 * ROWS * SIZE, 1.0);
        let (layouts, nets) = ([of_actor, of_critics], (actor, critics));
        Self { layouts, nets, at, columns, weights, noise }
    }

    fn batches(&self, weighted: bool) -> Batches<'_, f64, f64> {
        let [obs, actions, rewards, next_obs, discounts] = &self.columns;
        let weights = weighted.then_some(self.weights.as_slice());
        Batches { rows: ROWS, obs, actions, rewards, next_obs, discounts, weights }
    }

    /// Returns the losses of critics and actor at these parameters, and their gradients.
    fn losses(&self, at: &[Vec<f64>; 2], soft: bool, weighted: bool) -> Result<Told> {
        let [mut actor, mut critic] = at.clone();
        let [mut target_actor, mut target] = [self.at[2].clone(), self.at[3].clone()];
        let mut moments = [&actor, &critic].map(|of| [vec![0.0; of.len()], vec![0.0; of.len()]]);
        let (mut steps, mut errors) = ([0, 0], [0.0; ROWS]);
        let [[a1, a2], [c1, c2]] = &mut moments;
        let [a_steps, c_steps] = &mut steps;
        let rule = Adam::new(1e-8);
        let actor = Learned {
            parameters: &mut actor,
            optimizer: Optimizer::Adam { rule, exp_avg: a1, exp_avg_sq: a2, steps: a_steps },
        };
        let critic = Learned {
            parameters: &mut critic,
            optimizer: Optimizer::Adam { rule, exp_avg: c1, exp_avg_sq: c2, steps: c_steps },
        };
        let [of_actor, of_critics] = self.layouts.clone();
        let (net, critics) = self.nets.clone();
        let batches = self.batches(weighted);
        let (learning_rate, max_grad_norm, tau) = (0.0, None, 0.5);
        let told = if soft {
            let mut engine = SacEngine::new((net, of_actor), (critics, of_critics)).unwrap();
            let temperature = Temperature::Fixed(0.3);
            let mut of = SacParameters { actor, critic, target: &mut target, temperature };
            let settings =
                SacSettings { learning_rate, max_grad_norm, tau, target_update_interval: 1 };
            let by = (&settings, 0);
            let told = engine.learn(&mut of, batches, &self.noise, by, &mut errors)?;
            [told.critic, told.actor]
        } else {
            let mut engine = Td3Engine::new((net, of_actor), (critics, of_critics)).unwrap();
            let mut of = Td3Parameters {
                actor,
                critic,
                target_actor: &mut target_actor,
                target_critic: &mut target,
            };
            let (policy_delay, target_noise, noise_clip) = (1, 0.2, 0.3);
            let settings = Td3Settings {
                learning_rate,
                max_grad_norm,
                tau,
                policy_delay,
                target_noise,
                noise_clip,
                alpha: None,
            };
            let noise = &self.noise[..ROWS * SIZE];
            let by = (&settings, 0);
            let told = engine.learn(&mut of, batches, noise, by, &mut errors)?;
            [told.critic, told.actor.unwrap()]
        };
        let [[actor, _], [critic, _]] = moments;
        Ok((told, [actor, critic].map(|moment| moment.iter().map(|m| 10.0 * m).collect())))
    }
}

#[test]
fn gradients_of_actors_and_critics_are_those_of_finite_differences() {
    let mut checked = 0;
    for activation in Activation::ALL {
        for (soft, outputs) in [(true, 2 * SIZE), (false, SIZE)] {
            let case = Case::new(activation, outputs);
            for weighted in [false, true] {
                let at = [case.at[0].clone(), case.at[1].clone()];
                let (_, gradients) = case.losses(&at, soft, weighted).unwrap();
                for (net, gradient) in gradients.iter().enumerate() {
                    // The losses come in the order critics, actor.
                    let loss =
                        |at: &[Vec<f64>; 2]| case.losses(at, soft, weighted).unwrap().0[1 - net];
                    let (mut worst, mut norm) = (0.0_f64, 0.0_f64);
                    for i in 0..gradient.len() {
                        let (mut above, mut below) = (at.clone(), at.clone());
                        above[net][i] += STEP;
                        below[net][i] -= STEP;
                        let slope = (loss(&above) - loss(&below)) / (2.0 * STEP);
                        worst = worst.max((slope - gradient[i]).abs());
                        norm += slope * slope;
                    }
                    assert!(norm > 0.0);
                    let apart = worst / norm.sqrt();
                    assert!(apart < 1e-6, "{activation:?} soft={soft} net {net}: {apart}");
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 32);
}

#[test]
fn a_gradient_norm_of_the_actor_that_is_infinite_is_told_by_its_name() {
    for (soft, outputs) in [(true, 2 * SIZE), (false, SIZE)] {
        let mut case = Case::new(Activation::Tanh, outputs);
        // If hidden layers output 0, their weights do not affect outputs, but they scale the
        // gradients.
        for place in [0, 3] {
            case.columns[place].fill(0.0);
        }
        let layout = case.layouts[0].clone();
        let mut actor = case.at[0].clone();
        for (name, _, range) in layout.arrays() {
            match name {
                "actor.4.weight" => actor[range].fill(1e200),
                _ if name.ends_with("bias") => actor[range].fill(0.0),
                _ => {}
            }
        }
        case.at[2].clone_from(&actor);
        let told = case.losses(&[actor, case.at[1].clone()], soft, false);
        match told {
            Err(Error::NonFinite { name, index: 0, value }) => {
                assert_eq!((&*name, value), ("actor's gradient norm by minibatch", f64::INFINITY));
            }
            other => panic!("soft={soft}: {other:?}"),
        }
    }
}
