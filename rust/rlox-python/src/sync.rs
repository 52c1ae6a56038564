//! The locks of what is tested under every order of threads: a test puts loom's in this place.

pub(crate) use std::sync::{Mutex, PoisonError};
