//! `Pendulum-v1`: the equations of Gymnasium 1.4.0's `pendulum.py`.
//!
//! The action is float32, so NumPy's promotion (NEP 50) keeps the torque terms in float32 until
//! they meet the float64 state. This code does the same.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::f64::consts::PI;
use std::hint::black_box;

use super::angles::{SinCos, wrap};
use super::{Actions, BLOCK, Env, Float, Spec, columns, columns_mut};
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
    nanoseconds_per_step: 20,
};

/// State columns: theta (0 is upright, not wrapped), theta'. The action is a torque.
///
/// After one step from the same state the float32 and float64 kernels differ by at most 1e-6 in
/// every state variable and by at most 1e-5 in the reward. Both are relative to the larger of the
/// magnitude and 1.
pub(super) struct Pendulum;

/// The cost 0.001 u^2 of a torque u, as each precision computes it.
pub(super) trait TorqueCost: Float {
    /// Writes the cost of each action, clipped to the bounds.
    fn write_costs(actions: &[f32], costs: &mut [f64]);
}

impl TorqueCost for f64 {
    /// NumPy squares a float32 scalar with powf, which may differ from u * u by one unit in the
    /// last place. `black_box` hides the exponent, so that the compiler does not multiply instead.
    fn write_costs(actions: &[f32], costs: &mut [f64]) {
        for (cost, action) in costs.iter_mut().zip(actions) {
            let torque = action.clamp(-MAX_TORQUE, MAX_TORQUE);
            *cost = Self::from(0.001_f32 * torque.powf(black_box(2.0)));
        }
    }
}

impl TorqueCost for f32 {
    #[inline(always)]
    fn write_costs(actions: &[f32], costs: &mut [f64]) {
        for (cost, &action) in costs.iter_mut().zip(actions) {
            let torque = action.clip(-MAX_TORQUE, MAX_TORQUE);
            *cost = f64::from(0.001 * (torque * torque));
        }
    }
}

impl<F: TorqueCost> Env<F> for Pendulum {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [F]) {
        for (value, bound) in state.iter_mut().zip([PI, 1.0]) {
            *value = F::from_f64(stream.uniform_in(-bound, bound));
        }
    }

    #[inline(always)]
    fn step(&self, state: &mut [F], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        let columns = columns_mut(state, rewards.len());
        terminated.fill(false);
        let actions = actions.continuous();
        F::write_costs(actions, rewards);
        swing(columns, actions, rewards);
    }

    #[inline(always)]
    fn observe(&self, state: &[F], rows: usize, obs: &mut [f32]) {
        let [theta, theta_dot] = columns(state, rows);
        let SinCos { sin, cos } = SinCos::of(theta);
        let rows = cos.iter().zip(&sin).zip(theta_dot);
        for (((cos, sin), speed), obs) in rows.zip(obs.as_chunks_mut().0) {
            *obs = [cos.to_f32(), sin.to_f32(), speed.to_f32()];
        }
    }
}

/// Advances a block. On entry `rewards` holds the costs of the torques. On return it holds the
/// rewards: minus the total costs, which depend on the states before the step.
#[inline(always)]
fn swing<F: Float>([theta, theta_dot]: [&mut [F]; 2], actions: &[f32], rewards: &mut [f64]) {
    let float = F::from_f64;
    let sines = SinCos::of(theta).sin;
    let mut wrapped = [F::default(); BLOCK];
    for (angle, theta) in wrapped.iter_mut().zip(&*theta) {
        *angle = *theta;
    }
    wrap(&mut wrapped);
    let rows = theta.iter_mut().zip(theta_dot).zip(actions.iter().zip(rewards));
    let trig = sines.iter().zip(&wrapped);
    for (((theta, theta_dot), (&action, reward)), (&sin, &angle)) in rows.zip(trig) {
        let torque = TORQUE_TERM * action.clip(-MAX_TORQUE, MAX_TORQUE);
        let cost = angle * angle + float(0.1) * (*theta_dot * *theta_dot) + float(*reward);
        *reward = -cost.to_f64();
        let acceleration = float(GRAVITY_TERM) * sin + float(f64::from(torque));
        let speed = *theta_dot + acceleration * float(DT);
        *theta_dot = speed.clip(float(-MAX_SPEED), float(MAX_SPEED));
        *theta += *theta_dot * float(DT);
    }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    fn step_one(state: [f64; 2], action: f32) -> ([f64; 2], f64) {
        let (mut next, mut reward, mut terminated) = (state, [0.0], [true]);
        Pendulum.step(&mut next, Actions::Box(&[action]), &mut reward, &mut terminated);
        assert!(!terminated[0], "a pendulum never terminates");
        (next, reward[0])
    }

    #[test]
    fn a_torque_from_upright_rest_gives_the_state_computed_by_hand() {
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
        let near_reward = step_one([0.3, 0.0], 0.0).1;
        let turned_reward = step_one([0.3 - TAU, 0.0], 0.0).1;
        assert!((near_reward - turned_reward).abs() < 1e-14 && (near_reward + 0.09).abs() < 1e-14);
    }
}
