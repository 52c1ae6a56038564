//! Rolls back long pushes that fail.

use super::chunks::ChunkQueue;
use super::memory::{Blocks, MemoryRows, block_rows};
use super::obs::Observations;
use super::rings::EnvRing;
use crate::error::Result;

/// The state to which rows are rolled back.
struct Before {
    rings: Vec<EnvRing>,
    /// The number after the newest item and frame of each column and environment.
    ends: Vec<u64>,
}

impl MemoryRows {
    /// Does `work`. If it is a long push and fails, its writes are rolled back.
    ///
    /// No observation is released in the meantime, which takes memory for the new ones.
    ///
    /// # Errors
    /// The errors of `work`. Unless it is a long push, it must not write before it fails.
    pub(in crate::buffer) fn all_or_nothing<T>(
        &mut self,
        long: bool,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if !long {
            return work(self);
        }
        let queues = self.obs.iter().flatten().flat_map(Observations::queues);
        let ends = queues.map(ChunkQueue::end).collect();
        let before = Before { rings: self.rings.rings.clone(), ends };
        self.undo = Some(Blocks::new());
        let done = work(self);
        let old = self.undo.take().unwrap_or_default();
        if done.is_err() {
            self.take_back(before, &old);
        } else {
            (0..self.rings.n_envs()).for_each(|env| self.release(env));
        }
        done
    }

    fn take_back(&mut self, before: Before, old: &Blocks) {
        let each = block_rows(self.layout.stride) * self.layout.stride;
        for (block, bytes) in old {
            let records = self.records.get_mut(block * each..block * each + bytes.len());
            records.unwrap_or_default().copy_from_slice(bytes);
        }
        let queues = self.obs.iter_mut().flatten().flat_map(Observations::queues_mut);
        queues.zip(before.ends).for_each(|(queue, end)| queue.truncate(end));
        self.rings.rings = before.rings;
    }

    /// Called before a write to `count` slots from `slot` on. Copies their blocks if a save in
    /// progress or a change that may be rolled back needs them.
    #[inline]
    pub(super) fn keep(&mut self, slot: usize, count: usize) {
        if self.held.is_some() || self.undo.is_some() {
            self.copy_kept(slot, count);
        }
    }

    #[cold]
    fn copy_kept(&mut self, slot: usize, count: usize) {
        let (stride, each) = (self.layout.stride, block_rows(self.layout.stride));
        for kept in [&mut self.held, &mut self.undo].into_iter().flatten() {
            for block in slot / each..(slot + count).div_ceil(each) {
                kept.entry(block).or_insert_with(|| {
                    let end = ((block + 1) * each * stride).min(self.records.len());
                    self.records.get(block * each * stride..end).unwrap_or_default().to_vec()
                });
            }
        }
    }
}
