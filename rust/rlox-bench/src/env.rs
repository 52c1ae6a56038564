//! One step of n environments with autoreset.

use rlox_core::Result;
use rlox_core::env::{Actions, Precision, Seeding, StepOut, Tiling, VecEnv, registry};
use rlox_core::space::ActionSpace;

use crate::inputs::{to_f32, uniform};
use crate::{Kernel, Work};

const SIZES: [usize; 4] = [1, 16, 256, 2_048];
/// Number of steps with different actions. They are played in turn.
const POOL: usize = 64;

pub(crate) fn kernels() -> Vec<Kernel> {
    let mut all = Vec::new();
    for id in registry::ids() {
        for precision in [Precision::F64, Precision::F32] {
            for n in SIZES {
                let name = format!("env/{id}/{}/{n}", precision.name());
                all.push(Kernel::new(name, n, move || step(id, precision, n)));
            }
        }
    }
    all
}

/// Random actions of `POOL` steps.
enum ActionPool {
    Discrete(Vec<i64>),
    Box(Vec<f32>),
}

impl ActionPool {
    fn draw(space: &ActionSpace, n: usize) -> Self {
        let numbers = uniform("actions", POOL * n * space.dim());
        match space {
            ActionSpace::Discrete { n: choices } => {
                Self::Discrete(numbers.iter().map(|&u| choose(u, *choices)).collect())
            }
            ActionSpace::Box(_) => {
                Self::Box(to_f32(&numbers.iter().map(|u| 2.0 * u - 1.0).collect::<Vec<_>>()))
            }
        }
    }

    /// Returns the `len` action values of step `turn`.
    fn actions_at(&self, turn: usize, len: usize) -> Actions<'_> {
        let rows = turn % POOL * len..(turn % POOL + 1) * len;
        match self {
            Self::Discrete(all) => Actions::Discrete(all.get(rows).unwrap_or_default()),
            Self::Box(all) => Actions::Box(all.get(rows).unwrap_or_default()),
        }
    }
}

/// Maps a uniform number in [0, 1) to one of `choices` actions.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "a handful of actions")]
fn choose(u: f64, choices: usize) -> i64 {
    (u * choices as f64) as i64
}

fn step(id: &str, precision: Precision, n: usize) -> Result<Work> {
    let mut envs = VecEnv::with_tiling(id, n, Seeding::Run(1), precision, Tiling::default())?;
    let space = &envs.spec().action;
    let (pool, len, mut turn) = (ActionPool::draw(space, n), n * space.dim(), 0);
    let mut obs = vec![0.0; n * envs.obs_dim()];
    let (mut rewards, mut terminated, mut truncated) = (vec![0.0; n], vec![false; n], vec![false; n]);
    Ok(Box::new(move || {
        turn += 1;
        let out = StepOut {
            obs: &mut obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        envs.step_into(pool.actions_at(turn, len), out)
    }))
}
