#![doc = include_str!("README.md")]

mod batch;
mod dataset;
mod episodes;
mod mmap;
mod persist;
mod replay;
mod rows;
mod sampling;
mod schema;
mod standardizer;

pub use batch::{Batch, BatchKind, BatchPart, OwnedBatch};
pub use dataset::OfflineDataset;
pub use episodes::{Episode, ReturnStats};
pub use mmap::{MmapConfig, MmapReplayBuffer};
pub use persist::{BufferState, BufferStorage, ColumnReader, InMemoryBuffer, SaveReport, prune};
pub use replay::{Buffer, PrioritizedReplayBuffer, ReplayBuffer, SequenceReplayBuffer};
pub use rows::{
    EnvIndex, MAX_CAPACITY, MAX_ENVS, MemoryRows, NStep, ObsKind, PADDING, Rings, RowRef, Rows, Transitions,
};
pub use sampling::{
    BatchShape, Draws, EpisodeBalanced, GoalStrategy, Hindsight, MAX_BATCH, Priorities, Prioritized, Relabel,
    STREAM, SampleRequest, SampleRng, Sampler, SamplerState, Sequences, SumTree, Trajectories, Uniform,
    sampler_by_name,
};
pub use schema::{FrameStack, ObsField, Schema, StackAxis};
pub use standardizer::Standardizer;
