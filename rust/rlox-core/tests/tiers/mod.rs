//! Buffers with rows in memory and on disk, and buffers in memory to compare them with.

use std::path::Path;

use rlox_core::buffer::{Kind, MmapReplayBuffer, ReplayBuffer, Tiers, named};

use super::rows::{Outputs, filled, push, request, schema};

pub(crate) const fn tiers(hot: usize, total: usize, path: &Path) -> Tiers<'_> {
    Tiers { hot_capacity: hot, total_capacity: total, path, reopen: true }
}

pub(crate) fn tiered(hot: usize, total: usize, n: usize, path: &Path) -> MmapReplayBuffer {
    MmapReplayBuffer::new(schema(), &tiers(hot, total, path), n, 7).unwrap()
}

pub(crate) fn in_memory(total: usize, n: usize) -> ReplayBuffer {
    ReplayBuffer::new(schema(), total, n, 7, named("uniform").unwrap()).unwrap()
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
    let drawn = buffer.sample(request(rows, seed)).unwrap();
    filled(rows, Kind::Transitions, |batch| buffer.gather(&drawn.rows, None, batch))
}

pub(crate) fn model(buffer: &ReplayBuffer, rows: usize, seed: Option<u64>) -> Outputs {
    let drawn = buffer.sample(request(rows, seed)).unwrap();
    filled(rows, Kind::Transitions, |batch| buffer.gather(&drawn.rows, None, batch))
}
