//! `CartPole-v1`: the equations and thresholds of Gymnasium 1.4.0's `cartpole.py`, Euler integration.

use multiversion::multiversion;

use super::trig::{BLOCK, SinCos};
use super::{Actions, Env, Spec, columns, columns_mut, single};
use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

const GRAVITY: f64 = 9.8;
const MASS_POLE: f64 = 0.1;
const TOTAL_MASS: f64 = MASS_POLE + 1.0;
/// Half the pole's length.
const LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = MASS_POLE * LENGTH;
const FORCE: f64 = 10.0;
/// Seconds between steps.
const TAU: f64 = 0.02;
const START: f64 = 0.05;
const X_THRESHOLD: f64 = 2.4;
const THETA_THRESHOLD: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
const THETA_HIGH: f32 = single(THETA_THRESHOLD * 2.0);

const SPEC: Spec = Spec {
    id: "CartPole-v1",
    max_episode_steps: 500,
    state_dim: 4,
    observation: BoxSpace {
        low: &[-4.8, f32::NEG_INFINITY, -THETA_HIGH, f32::NEG_INFINITY],
        high: &[4.8, f32::INFINITY, THETA_HIGH, f32::INFINITY],
    },
    action: ActionSpace::Discrete { n: 2 },
};

/// State columns: x, x', theta, theta'. Action 1 pushes right, 0 left; reward 1 every step.
pub(super) struct CartPole;

impl Env for CartPole {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [f64]) {
        state.fill_with(|| stream.uniform_in(-START, START));
    }

    fn step(
        &self,
        state: &mut [f64],
        actions: Actions<'_>,
        rewards: &mut [f64],
        terminated: &mut [bool],
    ) {
        let [x, x_dot, theta, theta_dot] = columns_mut(state, rewards.len());
        rewards.fill(1.0);
        let blocks = x
            .chunks_mut(BLOCK)
            .zip(x_dot.chunks_mut(BLOCK))
            .zip(theta.chunks_mut(BLOCK).zip(theta_dot.chunks_mut(BLOCK)))
            .zip(actions.discrete().chunks(BLOCK).zip(terminated.chunks_mut(BLOCK)));
        for (((x, x_dot), (theta, theta_dot)), (actions, terminated)) in blocks {
            let trig = SinCos::of(theta);
            step_block([x, x_dot, theta, theta_dot], &trig, actions, terminated);
        }
    }

    fn observe(&self, state: &[f64], rows: usize, obs: &mut [f32]) {
        let [x, x_dot, theta, theta_dot] = columns(state, rows);
        let rows = x.iter().zip(x_dot).zip(theta.iter().zip(theta_dot));
        for (((&a, &b), (&c, &d)), obs) in rows.zip(obs.as_chunks_mut().0) {
            *obs = [single(a), single(b), single(c), single(d)];
        }
    }
}

/// One Euler step of up to [`BLOCK`] rows.
// Without fused multiply-add, so that every CPU gives the same bits.
#[multiversion(targets("x86_64+avx2"))]
fn step_block(
    [x, x_dot, theta, theta_dot]: [&mut [f64]; 4],
    trig: &SinCos,
    actions: &[i64],
    terminated: &mut [bool],
) {
    let rows = x.iter_mut().zip(x_dot).zip(theta.iter_mut().zip(theta_dot));
    let given = actions.iter().zip(trig.sin.iter().zip(&trig.cos)).zip(terminated);
    for (((x, x_dot), (theta, theta_dot)), ((&action, (&sin, &cos)), terminated)) in rows.zip(given)
    {
        let force = if action == 1 { FORCE } else { -FORCE };
        let temp = (force + POLE_MASS_LENGTH * (*theta_dot * *theta_dot) * sin) / TOTAL_MASS;
        let theta_acc = (GRAVITY * sin - cos * temp)
            / (LENGTH * (4.0 / 3.0 - MASS_POLE * (cos * cos) / TOTAL_MASS));
        let x_acc = temp - POLE_MASS_LENGTH * theta_acc * cos / TOTAL_MASS;
        *x += TAU * *x_dot;
        *x_dot += TAU * x_acc;
        *theta += TAU * *theta_dot;
        *theta_dot += TAU * theta_acc;
        *terminated = (x.abs() > X_THRESHOLD) | (theta.abs() > THETA_THRESHOLD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_one(state: [f64; 4], action: i64) -> ([f64; 4], f64, bool) {
        let (mut next, mut reward, mut terminated) = (state, [0.0], [false]);
        CartPole.step(&mut next, Actions::Discrete(&[action]), &mut reward, &mut terminated);
        (next, reward[0], terminated[0])
    }

    #[test]
    fn a_push_from_rest_at_the_origin_follows_the_equations_by_hand() {
        // sin = 0, cos = 1: temp = 10/1.1, theta_acc = -temp / (0.5 (4/3 - 0.1/1.1)),
        // x_acc = temp - 0.05 theta_acc / 1.1.
        let ([x, x_dot, theta, theta_dot], reward, terminated) = step_one([0.0; 4], 1);
        assert_eq!((x, theta, reward, terminated), (0.0, 0.0, 1.0, false));
        assert!((theta_dot - -0.292_682_926_829_268_3).abs() < 1e-15);
        assert!((x_dot - 0.195_121_951_219_512_2).abs() < 1e-15);
    }

    #[test]
    fn the_terminating_step_also_pays_one() {
        let (_, reward, terminated) = step_one([2.4, 1.0, 0.0, 0.0], 0);
        assert_eq!((reward, terminated), (1.0, true));
    }

    #[test]
    fn the_thresholds_themselves_are_inside() {
        assert!(!step_one([X_THRESHOLD, 0.0, 0.0, 0.0], 0).2);
        assert!(!step_one([0.0, 0.0, -THETA_THRESHOLD, 0.0], 0).2);
        assert!(step_one([0.0, 0.0, -THETA_THRESHOLD, -1e-9], 0).2);
    }
}
