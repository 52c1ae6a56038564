#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod advantage;
pub mod env;
pub mod error;
pub mod llm;
pub mod math;
pub mod seed;
pub mod space;
pub mod stats;

pub use error::{Error, Result};
