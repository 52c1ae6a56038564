//! Advantages and returns for Python.

mod ends;
mod gae;
mod gae_call;
mod returns;
mod rollout;
mod vtrace;

pub(crate) use gae::{compute_gae, compute_gae_batched, compute_gae_batched_f32, compute_gae_time_major};
pub(crate) use returns::{compute_lambda_returns, compute_n_step_returns};
pub(crate) use vtrace::compute_vtrace;
