//! `Corridor-v0`: leave a corridor by the door that is open.

use rlox_core::env::{Actions, Env, Float, Spec, columns, columns_mut};
use rlox_core::seed::Stream;
use rlox_core::space::{ActionSpace, BoxSpace};

/// The doors are at -1 and 1.
const DOOR_POSITION: f64 = 1.0;
const STRIDE: f64 = 0.1;
/// The cost of every step.
const STEP_COST: f64 = 0.01;

const SPEC: Spec = Spec {
    id: "Corridor-v0",
    max_episode_steps: 50,
    state_dim: 2,
    observation: BoxSpace { low: &[-1.1, -1.0], high: &[1.1, 1.0] },
    action: ActionSpace::Discrete { n: 2 },
    nanoseconds_per_step: 2,
};

/// State and observation are the position, which starts in the middle half of the corridor, and the
/// open door, -1 or 1. An action moves by a tenth to the left or right. The episode ends at a door;
/// the reward is 1 at the open one and -1 at the other. Every step costs 0.01.
pub struct Corridor;

impl<F: Float> Env<F> for Corridor {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [F]) {
        let position = stream.uniform_in(-0.5, 0.5);
        let open = if stream.uniform() < 0.5 { -1.0 } else { 1.0 };
        for (value, start) in state.iter_mut().zip([position, open]) {
            *value = F::from_f64(start);
        }
    }

    fn step(&self, state: &mut [F], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        let [position, open] = columns_mut(state, rewards.len());
        let rows = position.iter_mut().zip(open).zip(actions.discrete());
        for (((position, open), &action), (reward, terminated)) in
            rows.zip(rewards.iter_mut().zip(terminated))
        {
            *position += F::from_f64(if action == 1 { STRIDE } else { -STRIDE });
            *terminated = position.abs() >= F::from_f64(DOOR_POSITION);
            let is_open_door = (*position * *open).to_f64() > 0.0;
            let prize = if is_open_door { 1.0 } else { -1.0 };
            *reward = if *terminated { prize - STEP_COST } else { -STEP_COST };
        }
    }

    fn observe(&self, state: &[F], rows: usize, obs: &mut [f32]) {
        let [position, open] = columns(state, rows);
        for ((position, open), obs) in position.iter().zip(open).zip(obs.as_chunks_mut().0) {
            *obs = [position.to_f32(), open.to_f32()];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_open_door_is_rewarded_and_the_closed_one_penalised() {
        for (action, expected) in [(1, 0.99), (0, -1.01)] {
            let (mut reward, mut terminated) = ([0.0], [false]);
            let mut state = [if action == 1 { 0.95 } else { -0.95 }, 1.0];
            Corridor.step(&mut state, Actions::Discrete(&[action]), &mut reward, &mut terminated);
            assert!((reward[0] - expected).abs() < 1e-12 && terminated[0], "{action}");
        }
    }
}
