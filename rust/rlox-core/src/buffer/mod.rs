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

pub use batch::{Arrays, Batch, Kind, Part};
pub use dataset::OfflineDataset;
pub use episodes::{Episode, ReturnStats};
pub use mmap::{MmapReplayBuffer, Tiers};
pub use persist::{Columns, InMemory, Saveable, Saved, State, prune};
pub use replay::{Buffer, PrioritizedReplayBuffer, ReplayBuffer, SequenceReplayBuffer};
pub use rows::{
    EnvIndex, MAX_CAPACITY, MAX_ENVS, MemoryRows, NStep, ObsOf, PADDING, Rings, RowRef, Rows,
    Transitions,
};
pub use sampling::{
    Drawn, EpisodeBalanced, GoalStrategy, Hindsight, MAX_BATCH, Priorities, Prioritized, Relabel,
    Request, STREAM, SampleRng, Sampler, SamplerState, Sequences, SumTree, Trajectories, Uniform,
    Want, named,
};
pub use schema::{FrameStack, ObsField, Schema, StackAxis};
pub use standardizer::Standardizer;
