//! A replay buffer of float observations, and the list of transitions that it should hold.
#![allow(dead_code, clippy::indexing_slicing, clippy::unwrap_used, missing_docs)]

use rlox_core::buffer::{
    BatchKind, BatchPart, EnvIndex, InMemoryBuffer, ObsField, OwnedBatch, ReplayBuffer, RowRef, Schema,
    Transitions, sampler_by_name,
};
use rlox_core::{Dtype, Field};

pub(crate) fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks().0.iter().map(|&value| f32::from_ne_bytes(value)).collect()
}

/// Returns a schema of float observations `[dim]`, one float action, float rewards and an int64 `tag`.
pub(crate) fn schema(dim: usize) -> Schema {
    let obs = ObsField { field: Field::new("", Dtype::F32, [dim]), stack: None };
    let tag = Field::new("tag", Dtype::I64, []);
    Schema::new(vec![obs], (Dtype::F32, vec![1]), Dtype::F32, vec![tag]).unwrap()
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) obs: Vec<f32>,
    pub(crate) next_obs: Vec<f32>,
    pub(crate) action: f32,
    pub(crate) reward: f32,
    pub(crate) terminated: bool,
    pub(crate) truncated: bool,
    pub(crate) tag: i64,
}

pub(crate) fn push(buffer: &mut ReplayBuffer, to: EnvIndex<'_>, steps: &[Step], with_next: bool) {
    let concat = |part: &dyn Fn(&Step) -> Vec<u8>| -> Vec<u8> { steps.iter().flat_map(part).collect() };
    let obs = concat(&|step| bytes(&step.obs));
    let next_obs = concat(&|step| bytes(&step.next_obs));
    let action = concat(&|step| bytes(&[step.action]));
    let reward = concat(&|step| bytes(&[step.reward]));
    let tag = concat(&|step| step.tag.to_ne_bytes().to_vec());
    let terminated: Vec<u8> = steps.iter().map(|step| u8::from(step.terminated)).collect();
    let truncated: Vec<u8> = steps.iter().map(|step| u8::from(step.truncated)).collect();
    let next_columns = [next_obs.as_slice()];
    let rows = Transitions {
        n: steps.len(),
        obs: &[&obs],
        next_obs: with_next.then_some(&next_columns),
        columns: &[&action, &reward, &tag],
        terminated: &terminated,
        truncated: &truncated,
    };
    buffer.push(to, rows, None).unwrap();
}

/// Makes an empty buffer of [`schema`] that samples uniformly.
pub(crate) fn buffer(dim: usize, capacity: usize, n_envs: usize) -> ReplayBuffer {
    ReplayBuffer::new(schema(dim), capacity, n_envs, 7, sampler_by_name("uniform").unwrap()).unwrap()
}

pub(crate) fn read(buffer: &ReplayBuffer, row: RowRef) -> Step {
    let mut arrays = OwnedBatch::new(buffer.rows().schema(), BatchKind::Transitions, 1);
    arrays.fill(|batch| buffer.gather(&[row], None, batch)).unwrap();
    Step {
        obs: floats(arrays.bytes(BatchPart::Obs(0))),
        next_obs: floats(arrays.bytes(BatchPart::NextObs(0))),
        action: arrays.f32(BatchPart::Column(0))[0],
        reward: arrays.f32(BatchPart::Column(1))[0],
        terminated: arrays.bytes(BatchPart::Terminated) == [1],
        truncated: arrays.bytes(BatchPart::Truncated) == [1],
        tag: i64::from_ne_bytes(arrays.bytes(BatchPart::Column(2)).try_into().unwrap()),
    }
}

/// Makes `n` steps of one environment. `flags` maps a step number to `(terminated, truncated)`.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_wrap)]
pub(crate) fn episodes(n: usize, env: usize, dim: usize, flags: impl Fn(usize) -> (bool, bool)) -> Vec<Step> {
    let mut clock = 0_f32;
    let obs_at = |clock: f32| (0..dim).map(|d| clock + 0.001 * d as f32 + 1_000.0 * env as f32).collect();
    let step = |t: usize| {
        let (terminated, truncated) = flags(t);
        let (obs, next_obs) = (obs_at(clock), obs_at(clock + 1.0));
        clock += if terminated || truncated { 2.0 } else { 1.0 };
        let tag = (env * 1_000_000 + t) as i64;
        Step { obs, next_obs, action: t as f32, reward: 0.5 * t as f32, terminated, truncated, tag }
    };
    (0..n).map(step).collect()
}
