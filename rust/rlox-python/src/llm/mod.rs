//! Primitives of language-model post-training for Python.

mod group;
mod kl;
mod pack;
mod pair;
mod rows;
mod tokens;

pub(crate) use group::{compute_batch_group_advantages, compute_group_advantages};
pub(crate) use kl::{
    compute_batch_token_kl, compute_batch_token_kl_schulman, compute_token_kl, compute_token_kl_schulman,
};
pub(crate) use pack::{pack_sequences, pack_tokens, unpack_sequences};
pub(crate) use pair::PyDpoPair;
