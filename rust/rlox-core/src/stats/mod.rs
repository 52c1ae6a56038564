//! Statistics of what is learned from: running ones, and what values say of returns.

mod explained;
mod moments;

pub use explained::explained_variance;
pub use moments::Moments;
