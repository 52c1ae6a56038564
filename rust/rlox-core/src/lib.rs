#![doc = include_str!("../README.md")]

pub mod advantage;
pub mod buffer;
pub mod env;
pub mod error;
pub mod llm;
pub mod math;
mod row_copy;
pub mod seed;
pub mod space;
pub mod stats;
pub mod store;

pub use error::{Error, Result};
