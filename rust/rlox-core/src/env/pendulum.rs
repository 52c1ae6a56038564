//! `Pendulum-v1`: the equations of Gymnasium 1.4.0's `pendulum.py`.
//!
//! The action is float32, so NumPy's promotion (NEP 50) keeps the torque terms in float32 until
//! they meet the float64 state; the same is done here.

use std::f64::consts::{PI, TAU};
use std::hint::black_box;

use super::trig::{BLOCK, SinCos};
use super::{Actions, Env, Spec, columns, columns_mut, single};
use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

const MAX_SPEED: f64 = 8.0;
const MAX_TORQUE: f32 = 2.0;
/// Seconds between steps.
const DT: f64 = 0.05;
/// 3 g / (2 l) with g = 10, l = 1.
const GRAVITY_TERM: f64 = 15.0;
/// 3 / (m l^2) with m = l = 1.
const TORQUE_TERM: f32 = 3.0;

const SPEC: Spec = Spec {
    id: "Pendulum-v1",
    max_episode_steps: 200,
    state_dim: 2,
    observation: BoxSpace { low: &[-1.0, -1.0, -8.0], high: &[1.0, 1.0, 8.0] },
    action: ActionSpace::Box(BoxSpace { low: &[-MAX_TORQUE], high: &[MAX_TORQUE] }),
};

/// State columns: theta (0 is upright, not wrapped), theta'. The action is a torque.
pub(super) struct Pendulum;

impl Env for Pendulum {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [f64]) {
        for (value, bound) in state.iter_mut().zip([PI, 1.0]) {
            *value = stream.uniform_in(-bound, bound);
        }
    }

    fn step(
        &self,
        state: &mut [f64],
        actions: Actions<'_>,
        rewards: &mut [f64],
        terminated: &mut [bool],
    ) {
        let [theta, theta_dot] = columns_mut(state, rewards.len());
        terminated.fill(false);
        let blocks = theta
            .chunks_mut(BLOCK)
            .zip(theta_dot.chunks_mut(BLOCK))
            .zip(actions.boxed().chunks(BLOCK).zip(rewards.chunks_mut(BLOCK)));
        for ((theta, theta_dot), (actions, rewards)) in blocks {
            let trig = SinCos::of(theta);
            let rows = theta.iter_mut().zip(theta_dot).zip(actions).zip(rewards).zip(&trig.sin);
            for ((((theta, theta_dot), &action), reward), &sin) in rows {
                *reward = -swing(theta, theta_dot, sin, action.clamp(-MAX_TORQUE, MAX_TORQUE));
            }
        }
    }

    fn observe(&self, state: &[f64], rows: usize, obs: &mut [f32]) {
        let [theta, theta_dot] = columns(state, rows);
        let obs = obs.as_chunks_mut::<3>().0;
        let blocks = theta.chunks(BLOCK).zip(theta_dot.chunks(BLOCK)).zip(obs.chunks_mut(BLOCK));
        for ((theta, theta_dot), obs) in blocks {
            let trig = SinCos::of(theta);
            for (((row, &cos), &sin), &speed) in
                obs.iter_mut().zip(&trig.cos).zip(&trig.sin).zip(theta_dot)
            {
                *row = [single(cos), single(sin), single(speed)];
            }
        }
    }
}

/// Advances one pendulum in place and returns the cost of the state it left.
#[inline]
fn swing(theta: &mut f64, theta_dot: &mut f64, sin: f64, torque: f32) -> f64 {
    let angle = (*theta + PI).rem_euclid(TAU) - PI;
    // NumPy squares a float32 scalar with powf, which may miss torque * torque by one unit in the
    // last place; the hidden exponent keeps the compiler from multiplying instead.
    let effort = f64::from(0.001_f32 * torque.powf(black_box(2.0)));
    let cost = angle * angle + 0.1 * (*theta_dot * *theta_dot) + effort;
    let acceleration = GRAVITY_TERM * sin + f64::from(TORQUE_TERM * torque);
    *theta_dot = (*theta_dot + acceleration * DT).clamp(-MAX_SPEED, MAX_SPEED);
    *theta += *theta_dot * DT;
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_one(state: [f64; 2], action: f32) -> ([f64; 2], f64) {
        let (mut next, mut reward, mut terminated) = (state, [0.0], [true]);
        Pendulum.step(&mut next, Actions::Box(&[action]), &mut reward, &mut terminated);
        assert!(!terminated[0], "a pendulum never terminates");
        (next, reward[0])
    }

    #[test]
    fn a_torque_from_upright_rest_follows_the_equations_by_hand() {
        let ([theta, theta_dot], reward) = step_one([0.0, 0.0], 1.0);
        assert!((theta_dot - 0.15).abs() < 1e-15);
        assert!((theta - 0.0075).abs() < 1e-15);
        assert!((reward + f64::from(0.001_f32)).abs() < 1e-18);
    }

    #[test]
    fn torque_beyond_the_bounds_is_clipped() {
        assert_eq!(step_one([1.0, 0.5], 9.0), step_one([1.0, 0.5], 2.0));
    }

    #[test]
    fn speed_is_clipped_before_it_moves_the_angle() {
        let ([theta, theta_dot], _) = step_one([PI / 2.0, 7.9], 2.0);
        assert!((theta_dot - 8.0).abs() < 1e-15);
        assert!((theta - (PI / 2.0 + 0.4)).abs() < 1e-15);
    }

    #[test]
    fn the_cost_measures_the_angle_modulo_a_turn() {
        let near = step_one([0.3, 0.0], 0.0).1;
        let turned = step_one([0.3 - TAU, 0.0], 0.0).1;
        assert!((near - turned).abs() < 1e-14 && (near + 0.09).abs() < 1e-14);
    }
}
