//! Pushes of one transition into a full buffer, batches from it, and updates of priorities.

use std::ops::Range;

use rlox_core::buffer::{
    BatchKind, EnvIndex, InMemoryBuffer, ObsField, OwnedBatch, Prioritized, PrioritizedReplayBuffer,
    ReplayBuffer, SampleRequest, Schema, Transitions, sampler_by_name,
};
use rlox_core::{Dtype, Field, Result};

use crate::inputs::{normal, rare_flags, to_f32, uniform};
use crate::{Kernel, Work};

const CAPACITY: usize = 100_000;
const BATCH: usize = 256;
const REQUEST: SampleRequest = SampleRequest { batch_size: BATCH, n_batches: 1, len: 1, seed: None };
/// Numbers per observation, as in CartPole and HalfCheetah.
const OBS_DIMS: [usize; 2] = [4, 17];
/// Number of different transitions. They are pushed in turn.
const POOL: usize = 1_000;
/// Number of different batches of priorities. They are set in turn.
const N_UPDATES: usize = 64;

pub(crate) fn kernels() -> Vec<Kernel> {
    let [dim, ..] = OBS_DIMS;
    let mut all = vec![Kernel::new(format!("replay/push/f32/1x{dim}"), 1, move || push(dim))];
    for dim in OBS_DIMS {
        let name = format!("replay/sample/f32/{BATCH}x{dim}");
        all.push(Kernel::new(name, BATCH, move || sample(dim)));
    }
    let name = format!("prioritized/sample/f32/{BATCH}x{dim}");
    all.push(Kernel::new(name, BATCH, move || prioritized_sample(dim)));
    let name = format!("prioritized/update/f64/{BATCH}");
    all.push(Kernel::new(name, BATCH, move || prioritized_update(dim)));
    all
}

/// A schema of observations `[dim]`, one action and a reward, all float32.
fn schema(dim: usize) -> Result<Schema> {
    let obs = ObsField { field: Field::new("", Dtype::F32, [dim]), stack: None };
    Schema::new(vec![obs], (Dtype::F32, vec![1]), Dtype::F32, Vec::new())
}

/// A cycle of transitions: the `next_obs` of each is the `obs` of the next, and the first follows the
/// last.
struct TransitionPool {
    /// Bytes of an observation.
    obs_bytes: usize,
    obs: Vec<u8>,
    actions: Vec<u8>,
    rewards: Vec<u8>,
    terminated: Vec<u8>,
    truncated: Vec<u8>,
}

impl TransitionPool {
    fn draw(dim: usize) -> Self {
        let bytes = |name, len| -> Vec<u8> {
            to_f32(&normal(name, len)).into_iter().flat_map(f32::to_ne_bytes).collect()
        };
        let (width, mut obs) = (4 * dim, bytes("obs", POOL * dim));
        obs.extend_from_within(..width);
        Self {
            obs_bytes: width,
            obs,
            actions: bytes("actions", POOL),
            rewards: bytes("rewards", POOL),
            terminated: rare_flags("ends", POOL).into_iter().map(u8::from).collect(),
            truncated: vec![0; POOL],
        }
    }

    /// Passes the transitions in `range` to `push`.
    fn push_range(
        &self,
        range: Range<usize>,
        push: impl FnOnce(Transitions<'_>) -> Result<()>,
    ) -> Result<()> {
        let part = |bytes, width| slice(bytes, range.start * width..range.end * width);
        let next = self.obs.get(self.obs_bytes..).unwrap_or_default();
        push(Transitions {
            n: range.len(),
            obs: &[part(&self.obs, self.obs_bytes)],
            next_obs: Some(&[part(next, self.obs_bytes)]),
            columns: &[part(&self.actions, 4), part(&self.rewards, 4)],
            terminated: part(&self.terminated, 1),
            truncated: part(&self.truncated, 1),
        })
    }
}

fn slice<T>(all: &[T], range: Range<usize>) -> &[T] {
    all.get(range).unwrap_or_default()
}

/// Returns a full buffer and the transitions that fill it.
fn fill_buffer(dim: usize) -> Result<(ReplayBuffer, TransitionPool)> {
    let transitions = TransitionPool::draw(dim);
    let mut buffer = ReplayBuffer::new(schema(dim)?, CAPACITY, 1, 1, sampler_by_name("uniform")?)?;
    while buffer.rows().rings().len() < CAPACITY {
        transitions.push_range(0..POOL, |rows| buffer.push(EnvIndex::One(0), rows, None))?;
    }
    Ok((buffer, transitions))
}

/// Returns a full buffer with priorities in [0, 1).
fn fill_prioritized(dim: usize) -> Result<PrioritizedReplayBuffer> {
    let (transitions, priorities) = (TransitionPool::draw(dim), uniform("priorities", CAPACITY));
    let rule = Prioritized::new(CAPACITY, 0.6, 0.4, true)?;
    let mut buffer = PrioritizedReplayBuffer::new(schema(dim)?, CAPACITY, 1, 1, rule)?;
    for priorities in priorities.chunks(POOL) {
        let push = |rows: Transitions<'_>| buffer.push(EnvIndex::One(0), rows, Some(priorities));
        transitions.push_range(0..priorities.len(), push)?;
    }
    Ok(buffer)
}

fn push(dim: usize) -> Result<Work> {
    let (mut buffer, transitions) = fill_buffer(dim)?;
    let mut turn = 0;
    Ok(Box::new(move || {
        let index = turn % POOL;
        turn += 1;
        transitions.push_range(index..index + 1, |rows| buffer.push(EnvIndex::One(0), rows, None))
    }))
}

fn sample(dim: usize) -> Result<Work> {
    let (buffer, _) = fill_buffer(dim)?;
    let mut batch = OwnedBatch::new(buffer.rows().schema(), BatchKind::Transitions, BATCH);
    Ok(Box::new(move || {
        let sampled_batch = buffer.sample(REQUEST)?;
        batch.fill(|batch| buffer.gather(&sampled_batch.rows, None, batch))
    }))
}

fn prioritized_sample(dim: usize) -> Result<Work> {
    let buffer = fill_prioritized(dim)?;
    let mut batch = OwnedBatch::new(buffer.rows().schema(), BatchKind::Transitions, BATCH);
    Ok(Box::new(move || {
        let sampled_batch = buffer.sample(REQUEST)?;
        batch.fill(|batch| buffer.gather(&sampled_batch.rows, None, batch))
    }))
}

/// Sets new priorities for rows that were drawn before, as a learner does.
fn prioritized_update(dim: usize) -> Result<Work> {
    let mut buffer = fill_prioritized(dim)?;
    let request = SampleRequest { n_batches: N_UPDATES, ..REQUEST };
    let sampled_batch = buffer.sample(request)?;
    let rings = buffer.rows().rings();
    let indices: Vec<u64> = sampled_batch.rows.into_iter().map(|row| rings.index(row)).collect();
    let (priorities, mut turn) = (uniform("new priorities", N_UPDATES * BATCH), 0);
    Ok(Box::new(move || {
        let first = turn % N_UPDATES * BATCH;
        let batch = first..first + BATCH;
        turn += 1;
        let (indices, priorities) = (slice(&indices, batch.clone()), slice(&priorities, batch));
        buffer.update_priorities(indices, priorities).map(|_| ())
    }))
}
