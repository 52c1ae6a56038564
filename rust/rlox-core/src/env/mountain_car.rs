//! `MountainCar-v0`: the equations of Gymnasium 1.4.0's `mountain_car.py`.

#![expect(clippy::inline_always, reason = "must become part of each CPU-specific loop")]

use super::actions::map_choices;
use super::angles::SinCos;
use super::{Actions, BLOCK, Env, Float, Spec, columns, columns_mut};
use crate::seed::Stream;
use crate::space::{ActionSpace, BoxSpace};

const MIN_POSITION: f64 = -1.2;
const MAX_POSITION: f64 = 0.6;
const MAX_SPEED: f64 = 0.07;
const GOAL_POSITION: f64 = 0.5;
const FORCE: f64 = 0.001;
const GRAVITY: f64 = 0.0025;
/// Episodes start at rest between these positions.
const START_RANGE: (f64, f64) = (-0.6, -0.4);

const SPEC: Spec = Spec {
    id: "MountainCar-v0",
    max_episode_steps: 200,
    state_dim: 2,
    observation: BoxSpace { low: &[-1.2, -0.07], high: &[0.6, 0.07] },
    action: ActionSpace::Discrete { n: 3 },
    nanoseconds_per_step: 4,
};

/// State columns: position, velocity. Actions 0, 1 and 2 push left, not at all, and right. The reward
/// is -1 at every step.
///
/// After one step from the same state the float32 and float64 kernels differ by at most 3e-7 in both
/// state variables.
pub(super) struct MountainCar;

impl<F: Float> Env<F> for MountainCar {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [F]) {
        for (value, start) in state.iter_mut().zip([stream.uniform_in(START_RANGE.0, START_RANGE.1), 0.0]) {
            *value = F::from_f64(start);
        }
    }

    #[inline(always)]
    fn step(&self, state: &mut [F], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        let columns = columns_mut(state, rewards.len());
        rewards.fill(-1.0);
        let push = |action| match action {
            0 => F::from_f64(-FORCE),
            2 => F::from_f64(FORCE),
            _ => F::default(),
        };
        let pushes = &map_choices(actions.discrete(), push);
        drive(columns, pushes, terminated);
    }

    #[inline(always)]
    fn observe(&self, state: &[F], rows: usize, obs: &mut [f32]) {
        let [position, velocity] = columns(state, rows);
        let rows = position.iter().zip(velocity).zip(obs.as_chunks_mut().0);
        for ((position, velocity), obs) in rows {
            *obs = [position.to_f32(), velocity.to_f32()];
        }
    }
}

/// Takes one step of a block.
#[inline(always)]
fn drive<F: Float>([position, velocity]: [&mut [F]; 2], pushes: &[F], terminated: &mut [bool]) {
    let (float, zero) = (F::from_f64, F::default());
    let mut angles = [zero; BLOCK];
    for (angle, &position) in angles.iter_mut().zip(&*position) {
        *angle = float(3.0) * position;
    }
    let cosines = SinCos::of(&angles).cos;
    let rows = position.iter_mut().zip(velocity).zip(terminated);
    for (((position, velocity), terminated), (&push, &cos)) in rows.zip(pushes.iter().zip(&cosines)) {
        let speed = (*velocity + (push + cos * float(-GRAVITY))).clip(float(-MAX_SPEED), float(MAX_SPEED));
        *position = (*position + speed).clip(float(MIN_POSITION), float(MAX_POSITION));
        // The wall on the left stops the car.
        let stopped = (*position == float(MIN_POSITION)) && (speed < zero);
        *velocity = if stopped { zero } else { speed };
        *terminated = (*position >= float(GOAL_POSITION)) && (*velocity >= zero);
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "these numbers are exact")]
mod tests {
    use super::*;

    fn step_one(state: [f64; 2], action: i64) -> ([f64; 2], f64, bool) {
        let (mut next, mut reward, mut terminated) = (state, [0.0], [false]);
        MountainCar.step(&mut next, Actions::Discrete(&[action]), &mut reward, &mut terminated);
        (next, reward[0], terminated[0])
    }

    #[test]
    fn pushes_and_slope_add_up_by_hand() {
        // At position 0 the slope's cosine is 1: v = 0.001 (action - 1) - 0.0025.
        for (action, expected) in [(0, -0.0035), (1, -0.0025), (2, -0.0015)] {
            let ([position, velocity], reward, terminated) = step_one([0.0, 0.0], action);
            assert!((velocity - expected).abs() < 1e-17, "{action}");
            assert_eq!((position - velocity, reward, terminated), (0.0, -1.0, false));
        }
    }

    #[test]
    fn the_wall_on_the_left_stops_the_car() {
        assert_eq!(step_one([-1.19, -0.06], 0).0, [MIN_POSITION, 0.0]);
    }

    #[test]
    fn the_goal_counts_only_when_it_is_not_passed_backwards() {
        assert!(step_one([0.49, 0.05], 2).2);
        assert!(!step_one([0.55, -0.01], 0).2);
    }
}
