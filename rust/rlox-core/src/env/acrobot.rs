//! `Acrobot-v1`: the "book" equations of Gymnasium 1.4.0's `acrobot.py`, one Runge-Kutta step of
//! fourth order per action.
//!
//! Both links have length, mass and moment of inertia 1 and their centre of mass at 1/2. Sines of
//! sums are computed by the addition theorems, and cos(x - pi/2) as sin(x). So the results differ
//! from Gymnasium's by a few units in the last place.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::f64::consts::PI;

use super::actions::map_choices;
use super::angles::{SinCos, wrap};
use super::{Actions, BLOCK, Env, Float, Spec, columns, columns_mut, to_f32};
use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

const GRAVITY: f64 = 9.8;
/// Seconds between steps.
const DT: f64 = 0.2;
const MAX_SPEED_1: f64 = 4.0 * PI;
const MAX_SPEED_2: f64 = 9.0 * PI;
const START_BOUND: f64 = 0.1;

const LOW: [f32; 6] = [-1.0, -1.0, -1.0, -1.0, -to_f32(MAX_SPEED_1), -to_f32(MAX_SPEED_2)];
const HIGH: [f32; 6] = [1.0, 1.0, 1.0, 1.0, to_f32(MAX_SPEED_1), to_f32(MAX_SPEED_2)];

const SPEC: Spec = Spec {
    id: "Acrobot-v1",
    max_episode_steps: 500,
    state_dim: 4,
    observation: BoxSpace { low: &LOW, high: &HIGH },
    action: ActionSpace::Discrete { n: 3 },
    nanoseconds_per_step: 40,
};

/// State columns: theta1 (0 hangs down), theta2 (relative to the first link), theta1', theta2'.
/// Actions 0, 1 and 2 apply the torques -1, 0 and 1 to the joint between the links. The line that
/// the tip must reach is one link above the fixed end. The reward is 0 at the step that brings the
/// tip above it, else -1. Episodes start from float32 numbers, as in Gymnasium.
///
/// After one step from the same state the float32 and float64 kernels differ by at most 1e-5 in
/// every state variable, relative to the larger of its magnitude and 1. Angles are compared modulo
/// a turn.
pub(super) struct Acrobot;

impl<F: Float> Env<F> for Acrobot {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [F]) {
        state.fill_with(|| F::from_f64(f64::from(stream.uniform_in(-START_BOUND, START_BOUND).to_f32())));
    }

    #[inline(always)]
    fn step(&self, state: &mut [F], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        let torque = |action| match action {
            0 => F::from_f64(-1.0),
            2 => F::from_f64(1.0),
            _ => F::default(),
        };
        let torques = map_choices(actions.discrete(), torque);
        let mut columns = columns_mut(state, rewards.len());
        runge_kutta(&mut columns, &torques);
        wrap_and_clip(&mut columns);
        flag_tip_above(&columns, terminated);
        for (reward, &reached) in rewards.iter_mut().zip(&*terminated) {
            *reward = if reached { 0.0 } else { -1.0 };
        }
    }

    #[inline(always)]
    fn observe(&self, state: &[F], rows: usize, obs: &mut [f32]) {
        let [theta_1, theta_2, speed_1, speed_2] = columns(state, rows);
        let (first, second) = (SinCos::of(theta_1), SinCos::of(theta_2));
        let trig = first.cos.iter().zip(&first.sin).zip(second.cos.iter().zip(&second.sin));
        let rows = trig.zip(speed_1.iter().zip(speed_2));
        for ((((a, b), (c, d)), (e, f)), obs) in rows.zip(obs.as_chunks_mut().0) {
            *obs = [a.to_f32(), b.to_f32(), c.to_f32(), d.to_f32(), e.to_f32(), f.to_f32()];
        }
    }
}

/// State variables, or their derivatives, of up to [`BLOCK`] rows.
type Block<F> = [[F; BLOCK]; 4];

/// Advances the state by [`DT`], without wrapping and clipping.
///
/// Each stage runs over the whole block before the next one. The stages of a row depend on each
/// other, the rows of a stage do not.
#[inline(always)]
fn runge_kutta<F: Float>(state: &mut [&mut [F]; 4], torques: &[F; BLOCK]) {
    let k1 = derivative(&extrapolate(state, 0.0, &[[F::default(); BLOCK]; 4]), torques);
    let k2 = derivative(&extrapolate(state, DT / 2.0, &k1), torques);
    let k3 = derivative(&extrapolate(state, DT / 2.0, &k2), torques);
    let k4 = derivative(&extrapolate(state, DT, &k3), torques);
    let slopes = k1.iter().zip(&k2).zip(k3.iter().zip(&k4));
    for (column, ((k1, k2), (k3, k4))) in state.iter_mut().zip(slopes) {
        let slopes = k1.iter().zip(k2).zip(k3.iter().zip(k4));
        for (value, ((&k1, &k2), (&k3, &k4))) in column.iter_mut().zip(slopes) {
            *value += F::from_f64(DT / 6.0) * (k1 + F::from_f64(2.0) * k2 + F::from_f64(2.0) * k3 + k4);
        }
    }
}

/// Returns the state after `seconds` with the derivatives `k`.
#[inline(always)]
fn extrapolate<F: Float>(state: &[&mut [F]; 4], seconds: f64, k: &Block<F>) -> Block<F> {
    let mut out = [[F::default(); BLOCK]; 4];
    for ((out, state), k) in out.iter_mut().zip(state).zip(k) {
        for ((out, &value), &k) in out.iter_mut().zip(&**state).zip(k) {
            *out = value + F::from_f64(seconds) * k;
        }
    }
    out
}

/// Returns d/dt of (theta1, theta2, theta1', theta2').
#[inline(always)]
fn derivative<F: Float>(state: &Block<F>, torques: &[F; BLOCK]) -> Block<F> {
    let float = F::from_f64;
    let [theta_1, theta_2, speed_1, speed_2] = state;
    let (first, second) = (SinCos::of(theta_1), SinCos::of(theta_2));
    let mut out = [*speed_1, *speed_2, [float(0.0); BLOCK], [float(0.0); BLOCK]];
    let [_, _, acceleration_1, acceleration_2] = &mut out;
    let trig = first.sin.iter().zip(&first.cos).zip(second.sin.iter().zip(&second.cos));
    let inputs = trig.zip(speed_1.iter().zip(speed_2)).zip(torques);
    let rows = acceleration_1.iter_mut().zip(acceleration_2).zip(inputs);
    for ((acceleration_1, acceleration_2), ((trig, (&speed_1, &speed_2)), &torque)) in rows {
        let ((&sin_1, &cos_1), (&sin_2, &cos_2)) = trig;
        let d1 = float(3.5) + cos_2;
        let d2 = float(1.25) + float(0.5) * cos_2;
        let phi_2 = float(0.5 * GRAVITY) * (sin_1 * cos_2 + cos_1 * sin_2);
        let phi_1 = float(-0.5) * (speed_2 * speed_2) * sin_2 - speed_2 * speed_1 * sin_2
            + float(1.5 * GRAVITY) * sin_1
            + phi_2;
        let ratio = d2 / d1;
        let pull = torque + ratio * phi_1 - float(0.5) * (speed_1 * speed_1) * sin_2 - phi_2;
        *acceleration_2 = pull / (float(1.25) - d2 * ratio);
        *acceleration_1 = -(d2 * *acceleration_2 + phi_1) / d1;
    }
    out
}

/// Wraps the angles and clips the speeds.
#[inline(always)]
fn wrap_and_clip<F: Float>([theta_1, theta_2, speed_1, speed_2]: &mut [&mut [F]; 4]) {
    wrap(theta_1);
    wrap(theta_2);
    for (column, max_speed) in [(speed_1, F::from_f64(MAX_SPEED_1)), (speed_2, F::from_f64(MAX_SPEED_2))] {
        for speed in column.iter_mut() {
            *speed = speed.clip(-max_speed, max_speed);
        }
    }
}

/// Writes whether the tip is above the line: -cos(theta1) - cos(theta1 + theta2) > 1.
#[inline(always)]
fn flag_tip_above<F: Float>([theta_1, theta_2, ..]: &[&mut [F]; 4], terminated: &mut [bool]) {
    let (first, second) = (SinCos::of(theta_1), SinCos::of(theta_2));
    let trig = first.sin.iter().zip(&first.cos).zip(second.sin.iter().zip(&second.cos));
    for (terminated, ((&sin_1, &cos_1), (&sin_2, &cos_2))) in terminated.iter_mut().zip(trig) {
        *terminated = -cos_1 - (cos_1 * cos_2 - sin_1 * sin_2) > F::from_f64(1.0);
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use super::*;

    fn step_one(state: [f64; 4], action: i64) -> ([f64; 4], f64, bool) {
        let (mut next, mut reward, mut terminated) = (state, [0.0], [false]);
        Acrobot.step(&mut next, Actions::Discrete(&[action]), &mut reward, &mut terminated);
        (next, reward[0], terminated[0])
    }

    #[test]
    fn hanging_at_rest_without_torque_stays_there() {
        assert_eq!(step_one([0.0; 4], 1), ([0.0; 4], -1.0, false));
    }

    #[test]
    fn a_torque_at_rest_gives_the_accelerations_computed_by_hand() {
        // Hanging down: d1 = 4.5, d2 = 1.75, so the joint accelerates by 1 / (1.25 - d2^2 / d1).
        let slopes = derivative(&[[0.0; BLOCK]; 4], &[1.0; BLOCK]);
        let joint_acceleration = 1.0 / (1.25 - 1.75 * (1.75 / 4.5));
        assert_eq!([slopes[2][0], slopes[3][0]], [-(1.75 * joint_acceleration) / 4.5, joint_acceleration]);
        assert!(step_one([0.0; 4], 2).0[3] > 0.0 && step_one([0.0; 4], 0).0[3] < 0.0);
    }

    #[test]
    fn energy_is_kept_without_torque() {
        // The total energy of two rods with the constants of `derivative`.
        let energy = |[a, b, c, d]: [f64; 4]| {
            let kinetic = 0.5 * (3.5 + b.cos()) * c * c + 0.5 * 1.25 * d * d + (1.25 + 0.5 * b.cos()) * c * d;
            kinetic - GRAVITY * (1.5 * a.cos() + 0.5 * (a + b).cos())
        };
        let start = [0.5, -0.3, 0.2, 0.1];
        let mut state = start;
        for _ in 0..10 {
            state = step_one(state, 1).0;
        }
        assert!((energy(state) - energy(start)).abs() < 0.05, "{}", energy(state));
    }

    #[test]
    fn angles_are_wrapped_and_speeds_clipped() {
        let ([first, second, ..], ..) = step_one([3.1, -3.1, 5.0, -5.0], 1);
        assert!(first.abs() <= PI && second.abs() <= PI && first < 0.0 && second > 0.0);
        let ([_, _, speed_1, speed_2], ..) = step_one([1.0, 2.0, 12.5, 28.2], 1);
        assert!(speed_1.abs() <= MAX_SPEED_1 && speed_2.abs() <= MAX_SPEED_2);
    }

    #[test]
    fn a_tip_above_the_line_ends_the_episode_with_reward_0() {
        let (_, reward, terminated) = step_one([PI, 0.0, 0.0, 0.0], 1);
        assert_eq!((reward, terminated), (0.0, true));
    }

    #[test]
    fn extreme_states_do_not_hang_and_an_overflow_becomes_nan() {
        let ([first, ..], ..) = step_one([1e300, 0.0, 0.0, 0.0], 1);
        assert!(first.abs() <= PI);
        assert!(step_one([0.0, 0.0, 1e200, 0.0], 1).0.iter().any(|x| x.is_nan()));
    }
}
