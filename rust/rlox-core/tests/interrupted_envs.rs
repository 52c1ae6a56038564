//! Long work on environments stops when it is interrupted, and leaves them unchanged.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use rlox_core::Error;
use rlox_core::env::registry::{self, Entry};
use rlox_core::env::{Actions, Env, Precision, Seeding, Spec, StepOut, Tiling, VecEnv, columns_mut};
use rlox_core::interrupt::interruptible;
use rlox_core::seed::Stream;
use rlox_core::space::{ActionSpace, BoxSpace};

/// Number of slow environments that makes a call long work.
const N: usize = 1 << 13;
const TILING: Tiling = Tiling { shard_size: 128, parallel_from: usize::MAX };

/// A random walk that terminates now and then. Its spec declares it slow, so that a batch of it is
/// long work.
struct RandomWalk;

const SPEC: Spec = Spec {
    id: "Drunk-v0",
    max_episode_steps: 3,
    state_dim: 2,
    observation: BoxSpace { low: &[-9.0], high: &[9.0] },
    action: ActionSpace::Discrete { n: 2 },
    nanoseconds_per_step: 5_000,
};

/// Makes every 64th start and every block of a step a millisecond longer.
static IS_SLOW: AtomicBool = AtomicBool::new(false);
static STARTS: AtomicUsize = AtomicUsize::new(0);
static BLOCKS: AtomicUsize = AtomicUsize::new(0);

fn sleep_if_slow(count: &AtomicUsize, every: usize) {
    let count = count.fetch_add(1, Ordering::Relaxed);
    if IS_SLOW.load(Ordering::Relaxed) && count.is_multiple_of(every) {
        thread::sleep(Duration::from_millis(1));
    }
}

impl Env for RandomWalk {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn start(&self, stream: &mut Stream, state: &mut [f64]) {
        sleep_if_slow(&STARTS, 64);
        state[0] = stream.uniform_in(-1.0, 1.0);
        state[1] = stream.uniform();
    }

    fn step(&self, state: &mut [f64], actions: Actions<'_>, rewards: &mut [f64], terminated: &mut [bool]) {
        sleep_if_slow(&BLOCKS, 1);
        let [position, speed] = columns_mut(state, rewards.len());
        for (row, &action) in actions.discrete().iter().enumerate() {
            position[row] += if action == 1 { speed[row] } else { -speed[row] };
            rewards[row] = position[row];
            terminated[row] = position[row].abs() > 1.5;
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "observations are float32")]
    fn observe(&self, state: &[f64], rows: usize, obs: &mut [f32]) {
        for (obs, position) in obs.iter_mut().zip(&state[..rows]) {
            *obs = *position as f32;
        }
    }
}

fn make_envs() -> Result<VecEnv, Error> {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| registry::register(Entry::new(&RandomWalk)).unwrap());
    VecEnv::with_tiling("Drunk-v0", N, Seeding::Run(5), Precision::F64, TILING)
}

fn step(envs: &mut VecEnv) -> Result<Vec<f32>, Error> {
    let (mut obs, mut rewards) = (vec![0.0; N], vec![0.0; N]);
    let (mut terminated, mut truncated) = (vec![false; N], vec![false; N]);
    let out = StepOut {
        obs: &mut obs,
        rewards: &mut rewards,
        terminated: &mut terminated,
        truncated: &mut truncated,
    };
    let actions: Vec<i64> = (0..N).map(|env| i64::from(env % 3 == 0)).collect();
    envs.step_into(Actions::Discrete(&actions), out).map(|()| obs)
}

/// Runs `work` slowly. Interrupts it when it asks for the second time whether to stop, after 40 ms.
fn run_interrupted<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    static N_CHECKS: AtomicUsize = AtomicUsize::new(0);
    // The counters and the slow mode are global, so tests that use them take turns.
    static LOCK: Mutex<()> = Mutex::new(());
    let _guard = LOCK.lock().unwrap();
    for count in [&N_CHECKS, &STARTS, &BLOCKS] {
        count.store(0, Ordering::Relaxed);
    }
    IS_SLOW.store(true, Ordering::Relaxed);
    let outcome = interruptible(|| N_CHECKS.fetch_add(1, Ordering::Relaxed) > 0, work);
    IS_SLOW.store(false, Ordering::Relaxed);
    let (starts, blocks) = (STARTS.load(Ordering::Relaxed), BLOCKS.load(Ordering::Relaxed));
    assert!(starts < N && blocks < N / TILING.shard_size, "all of the work was done");
    outcome
}

/// Interrupts `work` on environments in mid-episode. Checks that they are unchanged and that they
/// continue like their twin.
fn check(work: impl Fn(&mut VecEnv) -> Result<(), Error>) {
    let (mut envs, mut twin) = (make_envs().unwrap(), make_envs().unwrap());
    for envs in [&mut envs, &mut twin] {
        step(envs).unwrap();
        step(envs).unwrap();
    }
    let before = envs.snapshot().unwrap();
    let ended_envs = envs.episode_ends().indices.to_vec();
    assert_eq!(run_interrupted(|| work(&mut envs)), Err(Error::Interrupted));
    let after = envs.snapshot().unwrap();
    assert!(after == before, "the snapshot has changed");
    assert_eq!(envs.episode_ends().indices, ended_envs);
    for _ in 0..4 {
        assert!(step(&mut envs).unwrap() == step(&mut twin).unwrap());
    }
    assert!(envs.snapshot().unwrap() == twin.snapshot().unwrap());
    // Two more interruptions do not undo the steps since the first one.
    assert_eq!(run_interrupted(|| work(&mut envs)), Err(Error::Interrupted));
    assert_eq!(run_interrupted(|| work(&mut envs)), Err(Error::Interrupted));
    assert!(envs.snapshot().unwrap() == twin.snapshot().unwrap());
    work(&mut envs).unwrap();
    work(&mut twin).unwrap();
    assert!(envs.snapshot().unwrap() == twin.snapshot().unwrap());
}

#[test]
fn an_interrupted_step_leaves_every_environment_as_it_was() {
    check(|envs| step(envs).map(drop));
}

#[test]
fn an_interrupted_reset_leaves_every_environment_as_it_was() {
    check(VecEnv::reset_all);
}

#[test]
fn an_interrupted_restore_leaves_every_environment_as_it_was() {
    let make = |seed| VecEnv::new("CartPole-v1", 1 << 17, Seeding::Run(seed)).unwrap();
    let (mut envs, other_snapshot) = (make(1), make(2).snapshot().unwrap());
    let before = envs.snapshot().unwrap();
    // Restores repeat until one of them is interrupted, however fast the machine is.
    let result = run_interrupted(|| {
        loop {
            envs.restore(&other_snapshot)?;
            envs.restore(&before)?;
        }
    });
    assert_eq!(result, Err::<(), _>(Error::Interrupted));
    let after = envs.snapshot().unwrap();
    assert!(after == before || after == other_snapshot, "neither as before nor as after");
}

#[test]
fn making_environments_stops_when_it_is_interrupted() {
    assert_eq!(run_interrupted(make_envs).err(), Some(Error::Interrupted));
    let starts = STARTS.load(Ordering::Relaxed);
    assert!(make_envs().is_ok() && starts < N, "{starts} episodes were started");
}
