//! Compares gradients of SAC's and TD3's losses with finite differences in float64.
//!
//! With a step size of 0 nothing changes, Adam's first moment after one batch is a tenth of the
//! gradient, and the reported losses are those at these parameters.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use rlox_core::seed::Stream;
use rlox_core::{Error, Layout, Result};
use rlox_nn::cpu::optim::{Adam, Optimizer};
use rlox_nn::cpu::{
    Activation, Batches, Critics, CriticsArchitecture, Mlp, SacEngine, SacParameters, SacSettings, Td3Engine,
    Td3Parameters, Td3Settings, Temperature, TrainState, parameter_shapes,
};

const STEP: f64 = 1e-6;
const ROWS: usize = 6;
const OBS_DIM: usize = 3;
const ACTION_DIM: usize = 2;

fn normals(stream: &mut Stream, n: usize, scale: f64) -> Vec<f64> {
    let mut out = vec![0.0; n];
    stream.fill_normal(&mut out);
    out.iter().map(|x| x * scale).collect()
}

/// The losses of critics and actor, and the gradients of actor and critics.
type LossesAndGradients = ([f64; 2], [Vec<f64>; 2]);

/// Networks with one activation, their parameters, and a batch.
struct Case {
    layouts: [Layout; 2],
    nets: (Mlp, Critics),
    /// The parameters of actor, critics, and the targets of both.
    parameters: [Vec<f64>; 4],
    columns: [Vec<f64>; 5],
    weights: Vec<f64>,
    noise: Vec<f64>,
}

impl Case {
    fn new(activation: Activation, outputs: usize) -> Self {
        let mut stream = Stream::new(outputs as u64, activation.name(), 0);
        let sizes = [OBS_DIM, 5, 4, outputs];
        let actor_layout = Layout::aligned(16, parameter_shapes("actor", &sizes)).unwrap();
        let actor = Mlp::new(&actor_layout, "actor", &sizes, activation).unwrap();
        let (members, hidden) = (2, vec![6, 4]);
        let architecture =
            CriticsArchitecture { members, obs_dim: OBS_DIM, action_dim: ACTION_DIM, hidden, activation };
        let critics_layout = Layout::aligned(16, architecture.parameter_shapes()).unwrap();
        let critics = Critics::new(&critics_layout, &architecture).unwrap();
        let parameters = [&actor_layout, &critics_layout, &actor_layout, &critics_layout]
            .map(|layout| normals(&mut stream, layout.len(), 0.5));
        let actions = normals(&mut stream, ROWS * ACTION_DIM, 1.0).iter().map(|x| x.tanh()).collect();
        let columns = [
            normals(&mut stream, ROWS * OBS_DIM, 1.0),
            actions,
            normals(&mut stream, ROWS, 1.0),
            normals(&mut stream, ROWS * OBS_DIM, 1.0),
            (0..ROWS).map(|row| if row % 3 == 0 { 0.0 } else { 0.9 }).collect(),
        ];
        let weights = (0..ROWS).map(|_| 0.2 + stream.uniform()).collect();
        let noise = normals(&mut stream, 2 * ROWS * ACTION_DIM, 1.0);
        let (layouts, nets) = ([actor_layout, critics_layout], (actor, critics));
        Self { layouts, nets, parameters, columns, weights, noise }
    }

    fn batches(&self, weighted: bool) -> Batches<'_, f64, f64> {
        let [obs, actions, rewards, next_obs, discounts] = &self.columns;
        let weights = weighted.then_some(self.weights.as_slice());
        Batches { rows: ROWS, obs, actions, rewards, next_obs, discounts, weights }
    }

    /// Returns the losses of critics and actor at these parameters, and their gradients.
    fn losses(&self, nets: &[Vec<f64>; 2], is_sac: bool, weighted: bool) -> Result<LossesAndGradients> {
        let [mut actor, mut critic] = nets.clone();
        let [mut target_actor, mut target] = [self.parameters[2].clone(), self.parameters[3].clone()];
        let mut moments = [&actor, &critic].map(|vector| [vec![0.0; vector.len()], vec![0.0; vector.len()]]);
        let (mut steps, mut errors) = ([0, 0], [0.0; ROWS]);
        let [[a1, a2], [c1, c2]] = &mut moments;
        let [a_steps, c_steps] = &mut steps;
        let rule = Adam::new(1e-8);
        let actor = TrainState {
            parameters: &mut actor,
            optimizer: Optimizer::Adam { rule, exp_avg: a1, exp_avg_sq: a2, steps: a_steps },
        };
        let critic = TrainState {
            parameters: &mut critic,
            optimizer: Optimizer::Adam { rule, exp_avg: c1, exp_avg_sq: c2, steps: c_steps },
        };
        let [actor_layout, critics_layout] = self.layouts.clone();
        let (net, critics) = self.nets.clone();
        let batches = self.batches(weighted);
        let (learning_rate, max_grad_norm, tau) = (0.0, None, 0.5);
        let losses = if is_sac {
            let mut engine = SacEngine::new((net, actor_layout), (critics, critics_layout)).unwrap();
            let temperature = Temperature::Fixed(0.3);
            let mut sac_networks = SacParameters { actor, critic, target: &mut target, temperature };
            let settings = SacSettings { learning_rate, max_grad_norm, tau, target_update_interval: 1 };
            let sac_settings = (&settings, 0);
            let sac_update =
                engine.learn(&mut sac_networks, batches, &self.noise, sac_settings, &mut errors)?;
            [sac_update.critic, sac_update.actor]
        } else {
            let mut engine = Td3Engine::new((net, actor_layout), (critics, critics_layout)).unwrap();
            let mut td3_networks =
                Td3Parameters { actor, critic, target_actor: &mut target_actor, target_critic: &mut target };
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
            let noise = &self.noise[..ROWS * ACTION_DIM];
            let td3_settings = (&settings, 0);
            let td3_update = engine.learn(&mut td3_networks, batches, noise, td3_settings, &mut errors)?;
            [td3_update.critic, td3_update.actor.unwrap()]
        };
        let [[actor, _], [critic, _]] = moments;
        Ok((losses, [actor, critic].map(|moment| moment.iter().map(|m| 10.0 * m).collect())))
    }
}

#[test]
fn gradients_of_actors_and_critics_are_those_of_finite_differences() {
    let mut checked = 0;
    for activation in Activation::ALL {
        for (is_sac, outputs) in [(true, 2 * ACTION_DIM), (false, ACTION_DIM)] {
            let case = Case::new(activation, outputs);
            for weighted in [false, true] {
                let parameters = [case.parameters[0].clone(), case.parameters[1].clone()];
                let (_, gradients) = case.losses(&parameters, is_sac, weighted).unwrap();
                for (net, gradient) in gradients.iter().enumerate() {
                    // The losses come in the order critics, actor.
                    let loss =
                        |point: &[Vec<f64>; 2]| case.losses(point, is_sac, weighted).unwrap().0[1 - net];
                    let (mut worst, mut norm) = (0.0_f64, 0.0_f64);
                    for i in 0..gradient.len() {
                        let (mut above, mut below) = (parameters.clone(), parameters.clone());
                        above[net][i] += STEP;
                        below[net][i] -= STEP;
                        let slope = (loss(&above) - loss(&below)) / (2.0 * STEP);
                        worst = worst.max((slope - gradient[i]).abs());
                        norm += slope * slope;
                    }
                    assert!(norm > 0.0);
                    let error = worst / norm.sqrt();
                    assert!(error < 1e-6, "{activation:?} soft={is_sac} net {net}: {error}");
                    checked += 1;
                }
            }
        }
    }
    assert_eq!(checked, 32);
}

#[test]
fn an_infinite_gradient_norm_of_the_actor_is_named() {
    for (is_sac, outputs) in [(true, 2 * ACTION_DIM), (false, ACTION_DIM)] {
        let mut case = Case::new(Activation::Tanh, outputs);
        // If hidden layers output 0, their weights do not affect outputs, but they scale the
        // gradients.
        for column in [0, 3] {
            case.columns[column].fill(0.0);
        }
        let layout = case.layouts[0].clone();
        let mut actor = case.parameters[0].clone();
        for (name, _, range) in layout.arrays() {
            match name {
                "actor.4.weight" => actor[range].fill(1e200),
                _ if name.ends_with("bias") => actor[range].fill(0.0),
                _ => {}
            }
        }
        case.parameters[2].clone_from(&actor);
        let result = case.losses(&[actor, case.parameters[1].clone()], is_sac, false);
        match result {
            Err(Error::NonFinite { name, index: 0, value }) => {
                assert_eq!((&*name, value), ("actor's gradient norm by minibatch", f64::INFINITY));
            }
            other => panic!("soft={is_sac}: {other:?}"),
        }
    }
}
