//! Learning without torch: engines over vectors of parameters that belong to Python.

mod engine;
mod incoming;
mod outgoing;
mod policy;
mod q_engine;
mod state;

pub(crate) use engine::PyOnPolicyEngine;
pub(crate) use policy::PyRolloutPolicy;
pub(crate) use q_engine::PyDqnEngine;
