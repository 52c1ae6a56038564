//! Learning without torch: engines over vectors of parameters that belong to Python.

mod engine;
mod incoming;
mod state;

pub(crate) use engine::PyOnPolicyEngine;
