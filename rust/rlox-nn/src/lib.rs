#![doc = include_str!("../README.md")]

pub mod cpu;
pub mod exported;
pub mod traits;
