//! Reads policies that `rlox export` wrote, without Python.
//!
//! A file is a safetensors file: the network's layers by name, the moments of observations, the
//! bounds of actions, golden vectors, and a JSON description under `rlox` in its header.
//! docs/export.md of the repository describes all of it.
//!
//! ```no_run
//! use rlox_nn::exported::Policy;
//!
//! let mut policy = Policy::read("policy.safetensors")?; // checked by its golden vectors
//! let mut action = policy.action(); // room for an action, used again and again
//! let observation = vec![0.0; policy.obs_dim()];
//! policy.act(&observation, &mut action)?; // allocates nothing
//! # Ok::<(), rlox_core::Error>(())
//! ```

mod description;
mod file;
mod golden;
mod network;
mod player;
mod policy;

pub use player::Action;
pub use policy::Policy;
