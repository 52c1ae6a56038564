//! Learning without torch: engines that work on parameter vectors of Python.

mod acting_out;
mod explorer;
mod iteration;
mod off_policy_engine;
mod on_policy_engine;
mod policy;
mod precision;
mod replay_iteration;
mod rollout_args;
mod rollout_out;
mod state;
mod steps_out;
mod transition_args;

pub(crate) use explorer::PyExplorer;
pub(crate) use iteration::PyIteration;
pub(crate) use off_policy_engine::PyOffPolicyEngine;
pub(crate) use on_policy_engine::PyOnPolicyEngine;
pub(crate) use policy::PyRolloutPolicy;
pub(crate) use replay_iteration::PyReplayIteration;
