//! Rolls back long pushes that fail.

use super::chunks::ChunkQueue;
use super::memory::{BlockCopies, MemoryRows, block_rows};
use super::obs::Observations;
use super::rings::EnvRing;
use crate::error::Result;

/// The state to which rows are rolled back.
struct UndoState {
    rings: Vec<EnvRing>,
    /// The end of every observation queue: the number that its next row would have got.
    ends: Vec<u64>,
}

impl MemoryRows {
    /// Does `work`. With `is_long`, its writes are rolled back if it fails.
    ///
    /// No observation is released in the meantime, so the new ones take additional memory.
    ///
    /// # Errors
    /// The errors of `work`. Without `is_long`, it must not write before it fails.
    pub(in crate::buffer) fn all_or_nothing<T>(
        &mut self,
        is_long: bool,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if !is_long {
            return work(self);
        }
        let queues = self.obs.iter().flatten().flat_map(Observations::queues);
        let ends = queues.map(ChunkQueue::end).collect();
        let undo_state = UndoState { rings: self.rings.by_env.clone(), ends };
        self.undo = Some(BlockCopies::new());
        let result = work(self);
        let copies = self.undo.take().unwrap_or_default();
        if result.is_err() {
            self.roll_back(undo_state, &copies);
        } else {
            (0..self.rings.n_envs()).for_each(|env| self.release(env));
        }
        result
    }

    fn roll_back(&mut self, undo_state: UndoState, copies: &BlockCopies) {
        let block_bytes = block_rows(self.layout.stride) * self.layout.stride;
        for (block, bytes) in copies {
            let records = self.records.get_mut(block * block_bytes..block * block_bytes + bytes.len());
            records.unwrap_or_default().copy_from_slice(bytes);
        }
        let queues = self.obs.iter_mut().flatten().flat_map(Observations::queues_mut);
        queues.zip(undo_state.ends).for_each(|(queue, end)| queue.truncate(end));
        self.rings.by_env = undo_state.rings;
    }

    /// Called before a write to `count` slots from `slot` on. Copies their blocks if a save in
    /// progress or a change that may be rolled back needs them.
    #[inline]
    pub(super) fn copy_on_write(&mut self, slot: usize, count: usize) {
        if self.snapshot.is_some() || self.undo.is_some() {
            self.copy_blocks(slot, count);
        }
    }

    #[cold]
    fn copy_blocks(&mut self, slot: usize, count: usize) {
        let (stride, rows_per_block) = (self.layout.stride, block_rows(self.layout.stride));
        for copies in [&mut self.snapshot, &mut self.undo].into_iter().flatten() {
            for block in slot / rows_per_block..(slot + count).div_ceil(rows_per_block) {
                copies.entry(block).or_insert_with(|| {
                    let end = ((block + 1) * rows_per_block * stride).min(self.records.len());
                    self.records.get(block * rows_per_block * stride..end).unwrap_or_default().to_vec()
                });
            }
        }
    }
}
