#![doc = include_str!("../README.md")]

mod actions;
mod buffer;
mod coerce;
mod detach;
mod ends;
mod errors;
mod gae;
mod gae_call;
mod pool;
mod snapshot;
mod step;
mod stream;
mod vec_env;
mod views;

/// The compiled half of rlox: native environments, advantage kernels, random streams.
///
/// Array arguments may be NumPy arrays of any real dtype and layout, lists, or detached CPU
/// tensors. Errors are subclasses of `rlox.errors.RloxError`.
#[pyo3::pymodule]
mod _core {
    #[pymodule_export]
    use crate::buffer::{
        PyHindsightConfig, PyMmapReplayBuffer, PyOfflineDatasetBuffer, PyPrioritizedReplayBuffer,
        PyReplayBuffer, PySequenceReplayBuffer, prune_replay,
    };
    #[pymodule_export]
    use crate::gae::{
        compute_gae, compute_gae_batched, compute_gae_batched_f32, compute_gae_time_major,
    };
    #[pymodule_export]
    use crate::step::native_env_ids;
    #[pymodule_export]
    use crate::stream::{PyStream, stream_seed};
    #[pymodule_export]
    use crate::vec_env::PyVecEnv;
}
