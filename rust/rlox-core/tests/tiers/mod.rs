//! Buffers with rows in memory and on disk, and buffers in memory to compare them with.

use std::path::Path;

use rlox_core::buffer::{BatchKind, MmapConfig, MmapReplayBuffer, ReplayBuffer, sampler_by_name};

use super::rows::{Outputs, collect_outputs, push, request, schema};

pub(crate) const fn make_tiers(memory_capacity: usize, total: usize, path: &Path) -> MmapConfig<'_> {
    MmapConfig { hot_capacity: memory_capacity, total_capacity: total, path, reopen: true }
}

pub(crate) fn make_tiered(memory_capacity: usize, total: usize, n: usize, path: &Path) -> MmapReplayBuffer {
    MmapReplayBuffer::new(schema(), &make_tiers(memory_capacity, total, path), n, 7).unwrap()
}

pub(crate) fn in_memory(total: usize, n: usize) -> ReplayBuffer {
    ReplayBuffer::new(schema(), total, n, 7, sampler_by_name("uniform").unwrap()).unwrap()
}

pub(crate) fn fill(buffer: &mut MmapReplayBuffer, steps: std::ops::Range<u64>, n: usize) {
    for t in steps {
        push(t, n, |to, rows| buffer.push(to, rows).unwrap());
    }
}

pub(crate) fn fill_model(buffer: &mut ReplayBuffer, steps: std::ops::Range<u64>, n: usize) {
    for t in steps {
        push(t, n, |to, rows| buffer.push(to, rows, None).unwrap());
    }
}

pub(crate) fn sample(buffer: &MmapReplayBuffer, rows: usize, seed: Option<u64>) -> Outputs {
    let sampled_batch = buffer.sample(request(rows, seed)).unwrap();
    collect_outputs(rows, BatchKind::Transitions, |batch| buffer.gather(&sampled_batch.rows, None, batch))
}

pub(crate) fn sample_in_memory(buffer: &ReplayBuffer, rows: usize, seed: Option<u64>) -> Outputs {
    let sampled_batch = buffer.sample(request(rows, seed)).unwrap();
    collect_outputs(rows, BatchKind::Transitions, |batch| buffer.gather(&sampled_batch.rows, None, batch))
}
