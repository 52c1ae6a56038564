//! A buffer's lock, see [`crate::detach`].

pub(super) use crate::detach::{reading, writing};
