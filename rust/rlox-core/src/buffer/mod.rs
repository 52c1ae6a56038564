//! What the learners remember: typed rings of transitions, sampled in batches.
//!
//! A buffer holds one ring per environment. Observations are stored once: the `next_obs` of a row
//! is the `obs` of the row after it unless the bytes differ (a reset), and frames of stacks are
//! shared in the same way. Rows are addressed by indices that are never used again, so that a
//! write to an overwritten row is recognised.

mod archive;
mod block;
mod chunks;
mod cold;
mod draw;
mod hindsight;
mod horizon;
mod obs;
mod offline;
mod offline_saved;
mod priorities;
mod prioritized;
mod record;
mod replay;
mod returns;
mod ring;
mod rows;
mod saved;
mod scaling;
mod schema;
mod sequence;
mod source;
mod stacks;
mod state;
mod storage;
mod stream;
mod sum_node;
mod sum_tree;
mod tiered;
mod tiers;
mod width;

pub use archive::{Saved, prune};
pub use draw::STREAM;
pub use hindsight::{GoalStrategy, Hindsight, Relabel};
pub use horizon::Horizon;
pub use offline::{OfflineDataset, Window, WindowArrays};
pub use priorities::{Draw, Priorities};
pub use prioritized::PrioritizedReplayBuffer;
pub use replay::{DrawState, MAX_BATCH, ReplayBuffer, Request};
pub use returns::{Episode, ReturnStats};
pub use ring::{Ring, RingBuffer};
pub use rows::Moment;
pub use scaling::Scaling;
pub use schema::{FrameStack, ObsField, Schema, StackAxis};
pub use sequence::{MAX_WINDOW, PADDING, SequenceReplayBuffer, Windows};
pub use state::{SavedColumn, SavedQueue, SavedStorage, SavedStream};
pub use storage::{MAX_CAPACITY, MAX_STREAMS, Row, Rows, Storage, Target};
pub use sum_tree::SumTree;
pub use tiered::{MmapReplayBuffer, Pick, Tiers};
