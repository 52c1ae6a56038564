//! Rows of transitions, in memory or on disk: stored once, found by index, copied into batches.

mod block;
mod chunks;
mod disk;
mod gather;
mod layout;
mod memory;
mod n_step;
mod obs;
mod push;
mod rings;
mod source;
mod stacks;
mod tiered;
mod undo;
mod width;

pub(super) use chunks::ChunkQueue;
pub(super) use disk::DiskRows;
pub(super) use layout::number_at;
pub(super) use memory::check_frames;
pub use memory::{MAX_CAPACITY, MAX_ENVS, MemoryRows};
pub use n_step::NStep;
pub use obs::ObsOf;
pub(super) use obs::Observations;
pub use push::{EnvIndex, Transitions};
pub(super) use rings::EnvRing;
pub use rings::{PADDING, Rings};
pub(super) use source::{
    Source, describe, layout_of, own_sources, queues_mut, sources, sources_of_each,
};
pub(super) use tiered::TieredRows;

use super::batch::Batch;
use super::schema::Schema;
use crate::error::Result;

/// A row that is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRef {
    /// Its position: the rows of its environment that were pushed before it.
    pub(super) position: u64,
    /// Its place in a ring in memory, counted over all environments.
    pub(super) slot: u32,
    /// Its environment.
    pub(super) env: u32,
}

/// Rows that can be found and copied out, wherever they are.
pub trait Rows {
    /// The columns.
    fn schema(&self) -> &Schema;

    /// Where the rows of each environment stand.
    fn rings(&self) -> &Rings;

    /// Copies rows into the arrays that `out` has: observation, columns and index of each of `rows`,
    /// next observation and flags of each of `ends`, which are as many.
    ///
    /// # Errors
    /// [`Error::Damaged`](crate::Error::Damaged) or [`Error::Storage`](crate::Error::Storage) for a
    /// row that cannot be read, [`Error::Interrupted`](crate::Error::Interrupted). What `out` holds is
    /// unspecified then.
    fn gather(&self, rows: &[RowRef], ends: &[RowRef], out: &mut Batch<'_, '_>) -> Result<()>;

    /// Tells `each` the reward and flags of the rows from `first` on, those before position `end` of
    /// the same environment, until it returns false.
    ///
    /// # Errors
    /// As [`Rows::gather`].
    fn rewards(
        &self,
        first: RowRef,
        end: u64,
        each: &mut dyn FnMut(RowRef, f64, u8) -> bool,
    ) -> Result<()>;
}
