//! Learning without torch: engines that work on parameter vectors of Python.

mod acting_out;
mod actor_critics;
mod cloning_engine;
mod dqn_engine;
mod explorer;
mod iql_engine;
mod iteration;
mod on_policy_engine;
mod policy;
mod precision;
mod replay_iteration;
mod rollout_args;
mod rollout_out;
mod sac_engine;
mod state;
mod steps_out;
mod td3_engine;
mod transition_args;

pub(crate) use cloning_engine::PyCloningEngine;
pub(crate) use dqn_engine::PyDqnEngine;
pub(crate) use explorer::PyExplorer;
pub(crate) use iql_engine::PyIqlEngine;
pub(crate) use iteration::PyIteration;
pub(crate) use on_policy_engine::PyOnPolicyEngine;
pub(crate) use policy::PyRolloutPolicy;
pub(crate) use replay_iteration::PyReplayIteration;
pub(crate) use sac_engine::PySacEngine;
pub(crate) use td3_engine::PyTd3Engine;
