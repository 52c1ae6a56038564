//! `CartPole-v1`: the equations and thresholds of Gymnasium 1.4.0's `cartpole.py`, by Euler
//! integration.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use super::actions::map_choices;
use super::angles::SinCos;
use super::{Actions, Env, Float, Spec, columns, columns_mut, to_f32};
use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

const GRAVITY: f64 = 9.8;
const MASS_POLE: f64 = 0.1;
/// 1 / (mass of the cart + mass of the pole).
const INVERSE_TOTAL_MASS: f64 = 1.0 / (MASS_POLE + 1.0);
/// Half the pole's length.
const LENGTH: f64 = 0.5;
const POLE_MASS_LENGTH: f64 = MASS_POLE * LENGTH;
const FORCE: f64 = 10.0;
/// Seconds between steps.
const TAU: f64 = 0.02;
const START_BOUND: f64 = 0.05;
const X_THRESHOLD: f64 = 2.4;
const THETA_THRESHOLD: f64 = 12.0 * 2.0 * std::f64::consts::PI / 360.0;
const THETA_HIGH: f32 = to_f32(THETA_THRESHOLD * 2.0);

const SPEC: Spec = Spec {
    id: "CartPole-v1",
    max_episode_steps: 500,
    state_dim: 4,
    observation: BoxSpace {
        low: &[-4.8, f32::NEG_INFINITY, -THETA_HIGH, f32::NEG_INFINITY],
        high: &[4.8, f32::INFINITY, THETA_HIGH, f32::INFINITY],
    },
    action: ActionSpace::Discrete { n: 2 },
    nanoseconds_per_step: 4,
};

/// State columns: x, x', theta, theta'. Action 1 pushes right, 0 left. The reward is 1 at every step.
///
/// After one step from the same state the float32 and float64 kernels differ by at most 3e-7 in
/// every state variable, relative to the larger of its magnitude and 1.
pub(super) struct CartPole;

impl<F: Float> Env<F> for CartPole {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [F]) {
        state.fill_with(|| F::from_f64(stream.uniform_in(-START_BOUND, START_BOUND)));
    }

    #[inline(always)]
    fn step(&self, state: &mut [F], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        let columns = columns_mut(state, rewards.len());
        rewards.fill(1.0);
        let push = |action| if action == 1 { F::from_f64(FORCE) } else { F::from_f64(-FORCE) };
        let forces = &map_choices(actions.discrete(), push);
        let trig = SinCos::of(columns[2]);
        euler(&trig, columns, forces, terminated);
    }

    #[inline(always)]
    fn observe(&self, state: &[F], rows: usize, obs: &mut [f32]) {
        let [x, x_dot, theta, theta_dot] = columns(state, rows);
        let rows = x.iter().zip(x_dot).zip(theta.iter().zip(theta_dot));
        for (((a, b), (c, d)), obs) in rows.zip(obs.as_chunks_mut().0) {
            *obs = [a.to_f32(), b.to_f32(), c.to_f32(), d.to_f32()];
        }
    }
}

/// Takes one Euler step of a block.
#[inline(always)]
fn euler<F: Float>(
    trig: &SinCos<F>,
    [x, x_dot, theta, theta_dot]: [&mut [F]; 4],
    forces: &[F],
    terminated: &mut [bool],
) {
    let float = F::from_f64;
    let rows = x.iter_mut().zip(x_dot).zip(theta.iter_mut().zip(theta_dot));
    let inputs = forces.iter().zip(trig.sin.iter().zip(&trig.cos)).zip(terminated);
    for (((x, x_dot), (theta, theta_dot)), ((&force, (&sin, &cos)), terminated)) in rows.zip(inputs) {
        // The products are grouped so that the longest chain of operations of a row is short.
        // Gymnasium groups them differently, so results may differ in the last bit.
        let pole_mass_length_ratio = float(POLE_MASS_LENGTH * INVERSE_TOTAL_MASS);
        let temp =
            force * float(INVERSE_TOTAL_MASS) + (pole_mass_length_ratio * sin) * (*theta_dot * *theta_dot);
        let theta_acc = (float(GRAVITY) * sin - cos * temp)
            / (float(LENGTH * 4.0 / 3.0) - float(LENGTH * MASS_POLE * INVERSE_TOTAL_MASS) * (cos * cos));
        let x_acc = temp - theta_acc * (pole_mass_length_ratio * cos);
        *x += float(TAU) * *x_dot;
        *x_dot += float(TAU) * x_acc;
        *theta += float(TAU) * *theta_dot;
        *theta_dot += float(TAU) * theta_acc;
        *terminated = (x.abs() > float(X_THRESHOLD)) | (theta.abs() > float(THETA_THRESHOLD));
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
    fn a_push_from_rest_gives_the_speeds_computed_by_hand() {
        // sin = 0, cos = 1: temp = 10/1.1, theta_acc = -temp / (0.5 (4/3 - 0.1/1.1)),
        // x_acc = temp - 0.05 theta_acc / 1.1.
        let ([x, x_dot, theta, theta_dot], reward, terminated) = step_one([0.0; 4], 1);
        assert_eq!((x, theta, reward, terminated), (0.0, 0.0, 1.0, false));
        assert!((theta_dot - -0.292_682_926_829_268_3).abs() < 1e-15);
        assert!((x_dot - 0.195_121_951_219_512_2).abs() < 1e-15);
    }

    #[test]
    fn the_terminating_step_also_has_reward_1() {
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
