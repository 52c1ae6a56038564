//! The CPU engine: multilayer perceptrons over matrix products, with explicit gradients.
//!
//! Every kernel is written once for float32 and float64. No result depends on the number of
//! threads. In this module, `to_x` is the gradient of the loss with respect to x.

mod a2c;
mod acting;
mod activation;
mod actor_critic;
mod cloning;
mod critics;
mod dense;
mod dqn;
mod engine;
mod engines;
mod exploring;
mod gemm;
mod heads;
pub mod init;
mod iql;
mod iteration;
#[cfg(target_arch = "x86_64")]
mod kernel;
pub mod losses;
mod mlp;
mod off_policy;
mod operand;
pub mod optim;
mod ppo;
mod q_network;
mod replayed;
mod rows;
mod sac;
mod td3;
mod values;

pub use a2c::{A2cSettings, A2cUpdate};
pub use acting::ActorCriticPolicy;
pub use activation::Activation;
pub use actor_critic::{ActionKind, ActorCritic, ActorCriticMemory, Architecture};
pub use cloning::{CloningEngine, CloningSettings, CloningUpdate};
pub use critics::{Critics, CriticsArchitecture, CriticsMemory, StateActionPairs, TrainState};
pub use dqn::{DqnEngine, DqnSettings, DqnUpdate};
pub use engine::OnPolicyEngine;
pub use engines::make_off_policy_engine;
pub use exploring::{BoundExplorer, Exploration, Explorer};
pub use gemm::{Addend, Matrix, Number};
pub use heads::{ActionsTaken, Outputs, draw};
pub use iql::{IqlEngine, IqlParameters, IqlSettings, IqlUpdate};
pub use iteration::{Iteration, IterationResult};
pub use mlp::{GradientBuffers, Memory, Mlp, parameter_shapes};
pub use off_policy::{
    Layouts, LearnCall, LearnInputs, Metrics, Networks, OffPolicyEngine, TransitionBatches,
};
pub use ppo::{PpoSettings, PpoUpdate};
pub use q_network::{QArchitecture, QMemory, QNetwork};
pub use replayed::Batches;
pub use rows::RolloutRows;
pub use sac::{SacEngine, SacParameters, SacSettings, SacUpdate, Temperature};
pub use td3::{Td3Engine, Td3Parameters, Td3Settings, Td3Update};
pub use values::{FromValue, Value, Values};
