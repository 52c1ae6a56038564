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

const N_ENVS: usize = 8;
const N_STEPS: usize = 2_000;
const CAPACITY: usize = 10_000;
const BATCH_SIZE: usize = 64;
const OBS_DIM: usize = 4;

fn main() -> Result<()> {
    let mut buffer = make_buffer()?;
    let n_ended = fill(&mut buffer)?;
    println!("{} transitions held of {}, {n_ended} episodes", n_stored(&buffer), N_ENVS * N_STEPS);

    // The batch has R = r + 0.99 r' + 0.99^2 r'', the rewards of three steps, and the discount of the
    // value after them.
    let n_step = NStep::new(3, 0.99)?;
    let mut batch = OwnedBatch::new(buffer.rows().schema(), BatchKind::WeightedNStep, BATCH_SIZE);
    for update in 0..3 {
        let sampled_batch = buffer.sample(request(None))?;
        batch.fill(|batch| buffer.gather(&sampled_batch.rows, Some(n_step), batch))?;
        let td_errors: Vec<f64> =
            batch.f32(BatchPart::Column(Schema::REWARDS)).into_iter().map(f64::from).collect();
        let indices: Vec<u64> =
            sampled_batch.rows.iter().map(|&row| buffer.rows().rings().index(row)).collect();
        buffer.update_priorities(&indices, &td_errors)?;
        let mean = td_errors.iter().sum::<f64>() / 64.0;
        let min_weight = sampled_batch.weights.iter().copied().fold(1.0, f64::min);
        println!("update {update}: mean 3-step return {mean:.3}, smallest weight {min_weight:.3}");
    }

    let folder = std::env::temp_dir().join(format!("rlox-example-replay-{}", std::process::id()));
    let saved = buffer.save(&folder, "last")?;
    let mut other = make_buffer()?;
    other.load(&folder, "last")?;
    let is_same = buffer.sample(request(Some(1)))? == other.sample(request(Some(1)))?;
    println!("saved {} bytes; the loaded buffer draws the same batch: {is_same}", saved.new_bytes);
    // The result is ignored: files that remain in a temporary folder do no harm.
    drop(std::fs::remove_dir_all(&folder));
    Ok(())
}

/// Makes a buffer of float32 observations `[4]`, int64 actions `[1]` and float32 rewards.
fn make_buffer() -> Result<PrioritizedReplayBuffer> {
    let obs = ObsField { field: Field::new("", Dtype::F32, [OBS_DIM]), stack: None };
    let schema = Schema::new(vec![obs], (Dtype::I64, vec![1]), Dtype::F32, Vec::new())?;
    let rule = Prioritized::new(CAPACITY, 0.6, 0.4, true)?;
    PrioritizedReplayBuffer::new(schema, CAPACITY, N_ENVS, 0, rule)
}

fn n_stored(buffer: &PrioritizedReplayBuffer) -> usize {
    buffer.rows().rings().len()
}

fn request(seed: Option<u64>) -> SampleRequest {
    SampleRequest { batch_size: BATCH_SIZE, n_batches: 1, len: 1, seed }
}

/// Steps the environments with random actions and pushes each step; returns how many episodes ended.
fn fill(buffer: &mut PrioritizedReplayBuffer) -> Result<usize> {
    let mut envs = VecEnv::new("CartPole-v1", N_ENVS, Seeding::Run(0))?;
    let mut stream = Stream::new(0, "action", 0);
    let (mut obs, mut next) = (vec![0.0; N_ENVS * OBS_DIM], vec![0.0; N_ENVS * OBS_DIM]);
    let (mut rewards, mut n_ended) = (vec![0.0; N_ENVS], 0);
    let (mut terminated, mut truncated) = (vec![false; N_ENVS], vec![false; N_ENVS]);
    envs.observe_into(&mut obs)?;
    for _ in 0..N_STEPS {
        let actions: Vec<i64> = (0..N_ENVS).map(|_| i64::from(stream.uniform() < 0.5)).collect();
        let out = StepOut {
            obs: &mut next,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        envs.step_into(Actions::Discrete(&actions), out)?;
        // Where an episode ended, `next` has the first observation of the next episode. The buffer
        // gets the last one of the ended episode.
        let mut reached_obs = next.clone();
        let episode_ends = envs.episode_ends();
        for (&env, last) in episode_ends.indices.iter().zip(episode_ends.obs.chunks_exact(OBS_DIM)) {
            if let Some(row) = reached_obs.chunks_exact_mut(OBS_DIM).nth(env) {
                row.copy_from_slice(last);
            }
        }
        n_ended += episode_ends.indices.len();
        push(buffer, (&obs, &reached_obs), &actions, &rewards, (&terminated, &truncated))?;
        std::mem::swap(&mut obs, &mut next);
    }
    Ok(n_ended)
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
        n: N_ENVS,
        obs: &[&bytes(obs)],
        next_obs: Some(&[&bytes(reached)]),
        columns: &[&actions, &bytes(&rewards)],
        terminated: &flags(terminated),
        truncated: &flags(truncated),
    };
    buffer.push(EnvIndex::Each, rows, None)
}
