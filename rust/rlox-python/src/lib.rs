#![doc = include_str!("../README.md")]

mod actions;
mod arg;
mod buffer;
mod claims;
mod coerce;
mod detach;
mod ends;
mod errors;
mod gae;
mod gae_call;
mod llm_group;
mod llm_kl;
mod llm_pack;
mod llm_pair;
mod llm_rows;
mod llm_tokens;
mod native_env;
mod paths;
mod pool;
mod returns;
mod rollout;
mod saved;
mod shelf;
mod single;
mod snapshot;
mod stats;
mod step;
mod stream;
mod sync;
mod threads;
mod vec_env;
mod views;
mod vtrace;

pub use native_env::{PyNativeEnv, register};
pub use single::PySingleEnv;
pub use step::native_env_ids;
pub use vec_env::PyVecEnv;

/// The compiled half of rlox: native environments, advantage kernels, primitives of
/// language-model post-training, random streams.
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
    use crate::llm_group::{compute_batch_group_advantages, compute_group_advantages};
    #[pymodule_export]
    use crate::llm_kl::{
        compute_batch_token_kl, compute_batch_token_kl_schulman, compute_token_kl,
        compute_token_kl_schulman,
    };
    #[pymodule_export]
    use crate::llm_pack::{pack_sequences, pack_tokens, unpack_sequences};
    #[pymodule_export]
    use crate::llm_pair::PyDpoPair;
    #[pymodule_export]
    use crate::native_env::PyNativeEnv;
    #[pymodule_export]
    use crate::returns::{compute_lambda_returns, compute_n_step_returns};
    #[pymodule_export]
    use crate::single::{
        PyAcrobot, PyCartPole, PyMountainCar, PyMountainCarContinuous, PyPendulum, PySingleEnv,
    };
    #[pymodule_export]
    use crate::stats::{PyRunningStats, PyRunningStatsVec};
    #[pymodule_export]
    use crate::step::native_env_ids;
    #[pymodule_export]
    use crate::stream::{PyStream, stream_seed};
    #[pymodule_export]
    use crate::threads::{num_threads, set_num_threads};
    #[pymodule_export]
    use crate::vec_env::PyVecEnv;
    #[pymodule_export]
    use crate::vtrace::compute_vtrace;
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::views::prepare(module.py())
    }
}
