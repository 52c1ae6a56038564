#![doc = include_str!("../README.md")]

mod actor_critic;
mod deterministic;
mod error;
mod loss;
mod net;
mod q_network;

pub use actor_critic::BurnActorCritic;
pub use deterministic::BurnDeterministic;
pub use q_network::BurnQNetwork;
