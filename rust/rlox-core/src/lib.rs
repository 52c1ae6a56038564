#![doc = include_str!("../README.md")]

pub mod advantage;
pub mod buffer;
mod dtype;
pub mod env;
pub mod error;
mod field;
pub mod interrupt;
mod layout;
pub mod llm;
pub mod math;
mod orthogonal;
mod params;
pub mod policy;
pub mod rollout;
mod row_copy;
pub mod seed;
mod shared;
pub mod space;
pub mod stats;
pub mod store;
mod tensor;
pub mod threads;

pub use dtype::Dtype;
pub use env::vector_env::{EnvSpec, VectorEnv};
pub use error::{Error, Result};
pub use field::Field;
pub use layout::Layout;
pub use orthogonal::orthogonal;
pub use params::Parameters;
pub use shared::{PoisonOnPanic, Shared};
pub use store::after_fork_in_child;
pub use tensor::TensorView;
