//! Primitives of language-model post-training: group advantages, token-level KL divergence,
//! sequence packing, preference pairs.
//!
//! Kernels take float32 or float64. Every sum is in float64, in a fixed order that depends only on
//! the number of terms, so results are the same on any number of threads.

pub mod group;
pub mod kl;
pub mod packing;
pub mod preference;
mod terms;
