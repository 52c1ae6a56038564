//! `MountainCarContinuous-v0`: the equations of Gymnasium 1.4.0's `continuous_mountain_car.py`.
//!
//! Gymnasium keeps the state as float32 and computes the cosine in float64. NumPy's promotion (NEP
//! 50) rounds every other intermediate result to float32. Gymnasium replaces a force beyond the
//! bounds by the bound, a Python float, so its sum with the slope is rounded once. This code does
//! the same.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use std::marker::PhantomData;

use super::angles::SinCos;
use super::{Actions, BLOCK, Env, Float, Spec, columns, columns_mut};
use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

const MIN_POSITION: f32 = -1.2;
const MAX_POSITION: f32 = 0.6;
const MAX_SPEED: f32 = 0.07;
const GOAL_POSITION: f32 = 0.45;
const POWER: f64 = 0.0015;
const GRAVITY: f64 = 0.0025;
/// Episodes start at rest between these positions.
const START_RANGE: (f64, f64) = (-0.6, -0.4);

const SPEC: Spec = Spec {
    id: "MountainCarContinuous-v0",
    max_episode_steps: 999,
    state_dim: 2,
    observation: BoxSpace { low: &[MIN_POSITION, -MAX_SPEED], high: &[MAX_POSITION, MAX_SPEED] },
    action: ActionSpace::Box(BoxSpace { low: &[-1.0], high: &[1.0] }),
    nanoseconds_per_step: 4,
};

/// State columns: position, velocity; they are float32 in both kernels. The action is a force. The
/// reward is minus a tenth of the squared action, plus 100 at the goal.
///
/// `T` is the type in which the cosine is computed: f64 in the reference kernel, f32 in the float32
/// kernel. After one step from the same state the two kernels differ by at most 3e-7 in both state
/// variables.
pub(super) struct MountainCarContinuous<T>(PhantomData<T>);

impl<T> MountainCarContinuous<T> {
    pub(super) const INSTANCE: Self = Self(PhantomData);
}

impl<T: Float> Env<f32> for MountainCarContinuous<T> {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [f32]) {
        for (value, start) in state.iter_mut().zip([stream.uniform_in(START_RANGE.0, START_RANGE.1), 0.0]) {
            *value = start.to_f32();
        }
    }

    #[inline(always)]
    fn step(&self, state: &mut [f32], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        let columns = columns_mut(state, rewards.len());
        let actions = actions.continuous();
        drive::<T>(columns, actions, terminated);
        for ((reward, &action), &reached) in rewards.iter_mut().zip(actions).zip(&*terminated) {
            let goal = if reached { 100.0 } else { 0.0 };
            *reward = goal - f64::from(action) * f64::from(action) * 0.1;
        }
    }

    #[inline(always)]
    fn observe(&self, state: &[f32], rows: usize, obs: &mut [f32]) {
        let [position, velocity] = columns(state, rows);
        let rows = position.iter().zip(velocity).zip(obs.as_chunks_mut().0);
        for ((&position, &velocity), obs) in rows {
            *obs = [position, velocity];
        }
    }
}

/// Takes one step of a block.
#[inline(always)]
fn drive<T: Float>([position, velocity]: [&mut [f32]; 2], actions: &[f32], terminated: &mut [bool]) {
    let mut angles = [T::default(); BLOCK];
    for (angle, &position) in angles.iter_mut().zip(&*position) {
        *angle = T::from_f64(f64::from(3.0 * position));
    }
    let cosines = SinCos::of(&angles).cos;
    let rows = position.iter_mut().zip(velocity).zip(terminated);
    for (((position, velocity), terminated), (&action, &cos)) in rows.zip(actions.iter().zip(&cosines)) {
        let slope = T::from_f64(GRAVITY) * cos;
        let bound = if action > 0.0 { POWER } else { -POWER };
        let bounded_push = action * POWER.to_f32() - slope.to_f32();
        let clipped_push = (T::from_f64(bound) - slope).to_f32();
        let push = if action.abs() > 1.0 { clipped_push } else { bounded_push };
        let speed = (*velocity + push).clip(-MAX_SPEED, MAX_SPEED);
        *position = (*position + speed).clip(MIN_POSITION, MAX_POSITION);
        // The wall on the left stops the car.
        let stopped = (*position <= MIN_POSITION) && (speed < 0.0);
        *velocity = if stopped { 0.0 } else { speed };
        *terminated = (*position >= GOAL_POSITION) && (*velocity >= 0.0);
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use super::*;

    fn step_one(state: [f32; 2], action: f32) -> ([f32; 2], f64, bool) {
        let (mut next, mut reward, mut terminated) = (state, [0.0], [false]);
        MountainCarContinuous::<f64>::INSTANCE.step(
            &mut next,
            Actions::Box(&[action]),
            &mut reward,
            &mut terminated,
        );
        (next, reward[0], terminated[0])
    }

    #[test]
    fn force_and_slope_add_up_by_hand() {
        let ([position, velocity], reward, terminated) = step_one([0.0, 0.0], 0.5);
        assert!((velocity - (0.000_75 - 0.0025)).abs() < 1e-9);
        assert!((position - velocity).abs() < 1e-12 && !terminated);
        assert!((reward + 0.025).abs() < 1e-15);
    }

    #[test]
    fn a_force_beyond_the_bounds_acts_as_the_bound_but_costs_its_own_square() {
        let (inside, beyond) = (step_one([-0.3, 0.01], 1.0), step_one([-0.3, 0.01], 3.0));
        assert!((inside.0[1] - beyond.0[1]).abs() < 1e-8);
        assert!((beyond.1 + 0.9).abs() < 1e-15);
    }

    #[test]
    fn the_goal_has_reward_100_and_the_wall_stops_the_car() {
        let (_, reward, terminated) = step_one([0.44, 0.05], 0.0);
        assert!(terminated && (reward - 100.0).abs() < 1e-12);
        assert_eq!(step_one([-1.19, -0.06], 0.0).0, [MIN_POSITION, 0.0]);
    }
}
