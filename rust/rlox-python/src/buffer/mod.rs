//! Experience buffers for Python.

mod arrays;
mod buffer_ref;
mod columns;
mod dataset_arrays;
mod goals;
mod incoming;
mod methods;
mod mmap;
mod offline;
mod prioritized;
mod replay;
mod sequence;
mod settings;
mod shared;
mod state;

pub(crate) use buffer_ref::ReplayBufferRef;
pub(crate) use goals::PyHindsightConfig;
pub(crate) use mmap::{PyMmapReplayBuffer, prune_replay};
pub(crate) use offline::PyOfflineDatasetBuffer;
pub(crate) use prioritized::PyPrioritizedReplayBuffer;
pub(crate) use replay::PyReplayBuffer;
pub(crate) use sequence::PySequenceReplayBuffer;
