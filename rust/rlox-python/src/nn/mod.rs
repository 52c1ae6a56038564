//! Learning without torch: engines that work on parameter vectors of Python.

mod cloning_engine;
mod engine;
mod explorer;
mod incoming;
mod iql_engine;
mod iteration;
mod outgoing;
mod policy;
mod precision;
mod q_engine;
mod replay_iteration;
mod replayed;
mod rollout_out;
mod sac_engine;
mod state;
mod stretch_out;
mod td3_engine;
mod vectors;

pub(crate) use cloning_engine::PyCloningEngine;
pub(crate) use engine::PyOnPolicyEngine;
pub(crate) use explorer::PyExplorer;
pub(crate) use iql_engine::PyIqlEngine;
pub(crate) use iteration::PyIteration;
pub(crate) use policy::PyRolloutPolicy;
pub(crate) use q_engine::PyDqnEngine;
pub(crate) use replay_iteration::PyReplayIteration;
pub(crate) use sac_engine::PySacEngine;
pub(crate) use td3_engine::PyTd3Engine;
