#![doc = include_str!("../README.md")]

mod actor_critic;
mod deterministic;
mod error;
mod loss;
mod net;
mod q_network;

pub use actor_critic::CandleActorCritic;
pub use deterministic::CandleDeterministic;
pub use q_network::CandleQNetwork;
