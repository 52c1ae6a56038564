//! Elementary functions without branches, so that loops over them vectorise.

mod exp;

pub use exp::{exp, exp_f32};
