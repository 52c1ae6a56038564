//! Elementary functions without branches, so that loops over them vectorise.

mod exp;

pub(crate) use exp::{Exponential, Parts, parts};
pub use exp::{exp, exp_f32};
