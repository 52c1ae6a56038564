//! Pushes of one transition into a full buffer, batches from it, and updates of priorities.

use std::ops::Range;

use rlox_core::buffer::{
    Arrays, EnvIndex, InMemory, Kind, ObsField, Prioritized, PrioritizedReplayBuffer, ReplayBuffer,
    Request, Schema, Transitions, named,
};
use rlox_core::{Dtype, Field, Result};

use crate::inputs::{normal, rare, single, uniform};
use crate::{Kernel, Work};

const CAPACITY: usize = 100_000;
const BATCH: usize = 256;
const REQUEST: Request = Request { batch_size: BATCH, n_batches: 1, len: 1, seed: None };
/// Numbers per observation, as in CartPole and HalfCheetah.
const DIMS: [usize; 2] = [4, 17];
/// Number of transitions, which are pushed in turn.
const POOL: usize = 1_000;
/// Number of batches of priorities, which are set in turn.
const UPDATES: usize = 64;

pub(crate) fn kernels() -> Vec<Kernel> {
    let [dim, ..] = DIMS;
    let mut all = vec![Kernel::new(format!("replay/push/f32/1x{dim}"), 1, move || push(dim))];
    for dim in DIMS {
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

/// Transitions whose `next_obs` is the `obs` of the following one; the first one follows the last.
struct Made {
    /// Bytes of an observation.
    width: usize,
    obs: Vec<u8>,
    actions: Vec<u8>,
    rewards: Vec<u8>,
    terminated: Vec<u8>,
    truncated: Vec<u8>,
}

impl Made {
    fn draw(dim: usize) -> Self {
        let bytes = |name, len| -> Vec<u8> {
            single(&normal(name, len)).into_iter().flat_map(f32::to_ne_bytes).collect()
        };
        let (width, mut obs) = (4 * dim, bytes("obs", POOL * dim));
        obs.extend_from_within(..width);
        Self {
            width,
            obs,
            actions: bytes("actions", POOL),
            rewards: bytes("rewards", POOL),
            terminated: rare("ends", POOL).into_iter().map(u8::from).collect(),
            truncated: vec![0; POOL],
        }
    }

    /// Passes the transitions in `range` to `push`.
    fn give(
        &self,
        range: Range<usize>,
        push: impl FnOnce(Transitions<'_>) -> Result<()>,
    ) -> Result<()> {
        let part = |bytes, width| slice(bytes, range.start * width..range.end * width);
        let next = self.obs.get(self.width..).unwrap_or_default();
        push(Transitions {
            n: range.len(),
            obs: &[part(&self.obs, self.width)],
            next_obs: Some(&[part(next, self.width)]),
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
fn full(dim: usize) -> Result<(ReplayBuffer, Made)> {
    let transitions = Made::draw(dim);
    let mut buffer = ReplayBuffer::new(schema(dim)?, CAPACITY, 1, 1, named("uniform")?)?;
    while buffer.rows().rings().len() < CAPACITY {
        transitions.give(0..POOL, |rows| buffer.push(EnvIndex::One(0), rows, None))?;
    }
    Ok((buffer, transitions))
}

/// Returns a full buffer with priorities in [0, 1).
fn full_prioritized(dim: usize) -> Result<PrioritizedReplayBuffer> {
    let (transitions, priorities) = (Made::draw(dim), uniform("priorities", CAPACITY));
    let rule = Prioritized::new(CAPACITY, 0.6, 0.4, true)?;
    let mut buffer = PrioritizedReplayBuffer::new(schema(dim)?, CAPACITY, 1, 1, rule)?;
    for priorities in priorities.chunks(POOL) {
        let push = |rows: Transitions<'_>| buffer.push(EnvIndex::One(0), rows, Some(priorities));
        transitions.give(0..priorities.len(), push)?;
    }
    Ok(buffer)
}

fn push(dim: usize) -> Result<Work> {
    let (mut buffer, transitions) = full(dim)?;
    let mut turn = 0;
    Ok(Box::new(move || {
        let at = turn % POOL;
        turn += 1;
        transitions.give(at..at + 1, |rows| buffer.push(EnvIndex::One(0), rows, None))
    }))
}

fn sample(dim: usize) -> Result<Work> {
    let (buffer, _) = full(dim)?;
    let mut batch = Arrays::new(buffer.rows().schema(), Kind::Transitions, BATCH);
    Ok(Box::new(move || {
        let drawn = buffer.sample(REQUEST)?;
        batch.fill(|batch| buffer.gather(&drawn.rows, None, batch))
    }))
}

fn prioritized_sample(dim: usize) -> Result<Work> {
    let buffer = full_prioritized(dim)?;
    let mut batch = Arrays::new(buffer.rows().schema(), Kind::Transitions, BATCH);
    Ok(Box::new(move || {
        let drawn = buffer.sample(REQUEST)?;
        batch.fill(|batch| buffer.gather(&drawn.rows, None, batch))
    }))
}

/// Sets new priorities for rows that were drawn before, as a learner does.
fn prioritized_update(dim: usize) -> Result<Work> {
    let mut buffer = full_prioritized(dim)?;
    let request = Request { n_batches: UPDATES, ..REQUEST };
    let drawn = buffer.sample(request)?;
    let rings = buffer.rows().rings();
    let indices: Vec<u64> = drawn.rows.into_iter().map(|row| rings.index(row)).collect();
    let (priorities, mut turn) = (uniform("new priorities", UPDATES * BATCH), 0);
    Ok(Box::new(move || {
        let first = turn % UPDATES * BATCH;
        let batch = first..first + BATCH;
        turn += 1;
        let (indices, priorities) = (slice(&indices, batch.clone()), slice(&priorities, batch));
        buffer.update_priorities(indices, priorities).map(|_| ())
    }))
}
