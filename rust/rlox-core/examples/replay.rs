//! Replay without Python: transitions of a native environment, batches, priorities, n-step windows,
//! and a save on disk.
//!
//! ```sh
//! cargo run --release -p rlox-core --example replay
//! ```
//!
//! Eight CartPoles are stepped with random actions. Their transitions are pushed to a prioritized
//! buffer, and batches are sampled from it. The TD errors of a value function that is always 0 become
//! the new priorities. Then the buffer is saved and loaded into another one, and both draw the same
//! batch.

use rlox_core::buffer::{
    BatchKind, BatchPart, EnvIndex, InMemoryBuffer, NStep, ObsField, OwnedBatch, Prioritized,
    PrioritizedReplayBuffer, SampleRequest, Schema, Transitions,
};
use rlox_core::env::{Actions, Seeding, StepOut, VecEnv};
use rlox_core::seed::Stream;
use rlox_core::{Dtype, Field, Result};

const ENVS: usize = 8;
const STEPS: usize = 2_000;
const CAPACITY: usize = 10_000;
const BATCH: usize = 64;
const OBS: usize = 4;

fn main() -> Result<()> {
    let mut buffer = empty()?;
    let ended = fill(&mut buffer)?;
    println!("{} transitions held of {}, {ended} episodes", held(&buffer), ENVS * STEPS);

    // The rewards of three steps, R = r + 0.99 r' + 0.99^2 r'', and the discount of the value after.
    let n_step = NStep::new(3, 0.99)?;
    let mut batch = OwnedBatch::new(buffer.rows().schema(), BatchKind::WeightedNStep, BATCH);
    for update in 0..3 {
        let drawn = buffer.sample(request(None))?;
        batch.fill(|batch| buffer.gather(&drawn.rows, Some(n_step), batch))?;
        let td_errors: Vec<f64> =
            batch.f32(BatchPart::Column(Schema::REWARDS)).into_iter().map(f64::from).collect();
        let indices: Vec<u64> = drawn.rows.iter().map(|&row| buffer.rows().rings().index(row)).collect();
        buffer.update_priorities(&indices, &td_errors)?;
        let mean = td_errors.iter().sum::<f64>() / 64.0;
        let least = drawn.weights.iter().copied().fold(1.0, f64::min);
        println!("update {update}: mean 3-step return {mean:.3}, smallest weight {least:.3}");
    }

    let folder = std::env::temp_dir().join(format!("rlox-example-replay-{}", std::process::id()));
    let saved = buffer.save(&folder, "last")?;
    let mut other = empty()?;
    other.load(&folder, "last")?;
    let same = buffer.sample(request(Some(1)))? == other.sample(request(Some(1)))?;
    println!("saved {} bytes; the loaded buffer draws the same batch: {same}", saved.new_bytes);
    // The result is ignored: files that remain in a temporary folder do no harm.
    drop(std::fs::remove_dir_all(&folder));
    Ok(())
}

/// Makes a buffer of float32 observations `[4]`, int64 actions `[1]` and float32 rewards.
fn empty() -> Result<PrioritizedReplayBuffer> {
    let obs = ObsField { field: Field::new("", Dtype::F32, [OBS]), stack: None };
    let schema = Schema::new(vec![obs], (Dtype::I64, vec![1]), Dtype::F32, Vec::new())?;
    let rule = Prioritized::new(CAPACITY, 0.6, 0.4, true)?;
    PrioritizedReplayBuffer::new(schema, CAPACITY, ENVS, 0, rule)
}

fn held(buffer: &PrioritizedReplayBuffer) -> usize {
    buffer.rows().rings().len()
}

fn request(seed: Option<u64>) -> SampleRequest {
    SampleRequest { batch_size: BATCH, n_batches: 1, len: 1, seed }
}

/// Steps the environments with random actions and pushes each step; returns how many episodes ended.
fn fill(buffer: &mut PrioritizedReplayBuffer) -> Result<usize> {
    let mut envs = VecEnv::new("CartPole-v1", ENVS, Seeding::Run(0))?;
    let mut random = Stream::new(0, "action", 0);
    let (mut obs, mut next) = (vec![0.0; ENVS * OBS], vec![0.0; ENVS * OBS]);
    let (mut rewards, mut ended) = (vec![0.0; ENVS], 0);
    let (mut terminated, mut truncated) = (vec![false; ENVS], vec![false; ENVS]);
    envs.observe_into(&mut obs)?;
    for _ in 0..STEPS {
        let actions: Vec<i64> = (0..ENVS).map(|_| i64::from(random.uniform() < 0.5)).collect();
        let out = StepOut {
            obs: &mut next,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        envs.step_into(Actions::Discrete(&actions), out)?;
        // Where an episode ended, `next` has the first observation of the next episode. The buffer
        // gets the last one of the ended episode.
        let mut reached = next.clone();
        let finals = envs.episode_ends();
        for (&env, last) in finals.indices.iter().zip(finals.obs.chunks_exact(OBS)) {
            if let Some(row) = reached.chunks_exact_mut(OBS).nth(env) {
                row.copy_from_slice(last);
            }
        }
        ended += finals.indices.len();
        push(buffer, (&obs, &reached), &actions, &rewards, (&terminated, &truncated))?;
        std::mem::swap(&mut obs, &mut next);
    }
    Ok(ended)
}

/// Pushes one transition of each environment.
fn push(
    buffer: &mut PrioritizedReplayBuffer,
    (obs, reached): (&[f32], &[f32]),
    actions: &[i64],
    rewards: &[f64],
    (terminated, truncated): (&[bool], &[bool]),
) -> Result<()> {
    let bytes = |numbers: &[f32]| -> Vec<u8> { numbers.iter().flat_map(|x| x.to_ne_bytes()).collect() };
    let flags = |flags: &[bool]| -> Vec<u8> { flags.iter().map(|&flag| u8::from(flag)).collect() };
    let actions: Vec<u8> = actions.iter().flat_map(|action| action.to_ne_bytes()).collect();
    #[expect(clippy::cast_possible_truncation, reason = "rewards are stored as float32")]
    let rewards: Vec<f32> = rewards.iter().map(|&reward| reward as f32).collect();
    let rows = Transitions {
        n: ENVS,
        obs: &[&bytes(obs)],
        next_obs: Some(&[&bytes(reached)]),
        columns: &[&actions, &bytes(&rewards)],
        terminated: &flags(terminated),
        truncated: &flags(truncated),
    };
    buffer.push(EnvIndex::Each, rows, None)
}
