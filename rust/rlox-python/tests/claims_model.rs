//! The claims to NumPy's memory beside a list of them (`src/memory/claims.rs` has the test), which also runs
//! under miri; the crate itself is built for Python only.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs, dead_code)]

#[path = "../src/memory/claims.rs"]
mod claims;
