//! Running statistics.

mod moments;

pub use moments::Moments;
