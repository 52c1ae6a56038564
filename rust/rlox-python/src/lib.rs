#![doc = include_str!("../README.md")]

mod advantage;
mod buffer;
mod convert;
mod detach;
mod env;
mod errors;
mod interpreter;
mod llm;
mod memory;
mod nn;
mod seed;
mod stats;
mod sync;
mod threads;

pub use env::{PyNativeEnv, PySingleEnv, PyVecEnv, native_env_ids, register};

/// The compiled half of rlox: native environments, advantage kernels, primitives of
/// language-model post-training, random streams.
///
/// Array arguments may be NumPy arrays of any real dtype and layout, lists, or detached CPU
/// tensors. Errors are subclasses of `rlox.errors.RloxError`.
#[pyo3::pymodule(gil_used = true)]
mod _core {
    #[pymodule_export]
    use crate::advantage::{
        compute_gae, compute_gae_batched, compute_gae_batched_f32, compute_gae_time_major,
        compute_lambda_returns, compute_n_step_returns, compute_vtrace,
    };
    #[pymodule_export]
    use crate::buffer::{
        PyHindsightConfig, PyMmapReplayBuffer, PyOfflineDatasetBuffer, PyPrioritizedReplayBuffer,
        PyReplayBuffer, PySequenceReplayBuffer, prune_replay,
    };
    #[pymodule_export]
    use crate::env::{
        PyAcrobot, PyCartPole, PyMountainCar, PyMountainCarContinuous, PyNativeEnv, PyPendulum, PySingleEnv,
        PyVecEnv, native_env_ids,
    };
    #[pymodule_export]
    use crate::llm::{
        PyDpoPair, compute_batch_group_advantages, compute_batch_token_kl, compute_batch_token_kl_schulman,
        compute_group_advantages, compute_token_kl, compute_token_kl_schulman, pack_sequences, pack_tokens,
        unpack_sequences,
    };
    #[pymodule_export]
    use crate::nn::{
        PyExplorer, PyIteration, PyOffPolicyEngine, PyOnPolicyEngine, PyReplayIteration, PyRolloutPolicy,
    };
    #[pymodule_export]
    use crate::seed::{PyStream, stream_seed};
    #[pymodule_export]
    use crate::stats::{PyRunningStats, PyRunningStatsVec, explained_variance};
    #[pymodule_export]
    use crate::threads::{num_threads, set_num_threads};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::prepare(module.py())
    }
}
