//! Snapshots of environments.

use rlox_core::env::{Actions, Seeding, Snapshot, StepOut, Tiling, VecEnv, registry};
use rlox_core::space::ActionSpace;

/// Largest number of environments that are made for a snapshot.
const MAX_ENVS: usize = 8;

/// Returns a snapshot of each native environment, without its checksum.
#[must_use]
pub fn valid_snapshots() -> Vec<Vec<u8>> {
    let bytes = |id| {
        let envs = VecEnv::new(id, 2, Seeding::Run(3)).expect("a native environment");
        let mut bytes = envs.snapshot().expect("a snapshot").to_bytes();
        bytes.truncate(bytes.len() - 4);
        bytes
    };
    registry::ids().into_iter().map(bytes).collect()
}

/// Appends the checksum to the bytes of a snapshot, restores environments from it, and steps them.
pub(crate) fn restore(content: &[u8]) {
    let mut bytes = content.to_vec();
    bytes.extend(crc32fast::hash(content).to_le_bytes());
    let Ok(snapshot) = Snapshot::from_bytes(&bytes) else { return };
    assert!(snapshot.to_bytes() == bytes, "the snapshot is written with other bytes");
    let (n, precision) = (snapshot.seeds.len().clamp(1, MAX_ENVS), snapshot.precision);
    let result = VecEnv::with_tiling(&snapshot.env_id, n, Seeding::Run(0), precision, Tiling::default());
    let Ok(mut envs) = result else { return };
    if envs.restore(&snapshot).is_ok() {
        step(&mut envs, n);
    }
}

fn step(envs: &mut VecEnv, n: usize) {
    let mut obs = vec![0.0; n * envs.obs_dim()];
    let (mut rewards, mut terminated, mut truncated) = (vec![0.0; n], vec![false; n], vec![false; n]);
    let (choices, vectors) = (vec![0; n], vec![0.5; n * envs.spec().action.dim()]);
    let is_discrete = matches!(envs.spec().action, ActionSpace::Discrete { .. });
    for _ in 0..3 {
        let actions = if is_discrete { Actions::Discrete(&choices) } else { Actions::Box(&vectors) };
        let out = StepOut {
            obs: &mut obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        drop(envs.step_into(actions, out));
    }
    drop(envs.snapshot());
}
