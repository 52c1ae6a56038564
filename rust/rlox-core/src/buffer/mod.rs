//! Experience buffers.

mod priorities;
mod sum_node;
mod sum_tree;

pub use priorities::{Draw, Priorities};
pub use sum_tree::SumTree;
