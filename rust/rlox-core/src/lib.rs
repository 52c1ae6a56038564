#![doc = include_str!("../README.md")]

pub mod advantage;
pub mod env;
pub mod error;
pub mod math;
pub mod seed;
pub mod space;

pub use error::{Error, Result};
