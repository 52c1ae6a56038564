//! Rows of transitions, in memory or on disk. Each is stored once, found by index and copied into
//! batches.

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
pub(super) use layout::lower_half_at;
pub(super) use memory::check_frame_numbers;
pub use memory::{MAX_CAPACITY, MAX_ENVS, MemoryRows};
pub use n_step::NStep;
pub use obs::ObsKind;
pub(super) use obs::Observations;
pub use push::{EnvIndex, Transitions};
pub(super) use rings::EnvRing;
pub use rings::{PADDING, Rings};
pub(super) use source::{
    Source, describe_buffer, describe_columns, env_sources, queues_mut, sources, sources_per_env,
};
pub(super) use tiered::TieredRows;

use super::batch::Batch;
use super::schema::Schema;
use crate::error::Result;

/// A reference to a row of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowRef {
    /// Position of the row: the number of rows of its environment that were pushed before it.
    pub(super) position: u64,
    /// Slot of the row in a ring in memory, counted over all environments.
    pub(super) slot: u32,
    /// Environment of the row.
    pub(super) env: u32,
}

/// Rows in memory or on disk that can be found and copied.
pub trait Rows {
    /// Returns the columns.
    fn schema(&self) -> &Schema;

    /// Returns the rings of the environments.
    fn rings(&self) -> &Rings;

    /// Copies rows into the arrays that `out` has.
    ///
    /// The observation, the columns and the index come from `rows`. The next observation and the
    /// flags come from `ends`, which has the same length.
    ///
    /// # Errors
    /// The content of `out` is unspecified if there is an error.
    /// - [`Error::Damaged`](crate::Error::Damaged) or [`Error::Storage`](crate::Error::Storage) if
    ///   a row cannot be read.
    /// - [`Error::Interrupted`](crate::Error::Interrupted).
    fn gather(&self, rows: &[RowRef], ends: &[RowRef], out: &mut Batch<'_, '_>) -> Result<()>;

    /// Calls `visit` with the reward and flags of each row from `first` on, before position `end` of
    /// the same environment, until it returns false.
    ///
    /// # Errors
    /// Same as [`Rows::gather`].
    fn visit_rewards(
        &self,
        first: RowRef,
        end: u64,
        visit: &mut dyn FnMut(RowRef, f64, u8) -> bool,
    ) -> Result<()>;
}
