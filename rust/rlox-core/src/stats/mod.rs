//! Statistics of training data: running moments, and how well values predict returns.

mod explained;
mod moments;

pub use explained::explained_variance;
pub use moments::Moments;
