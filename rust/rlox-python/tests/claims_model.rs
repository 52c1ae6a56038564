//! Runs the test in `src/memory/claims.rs`, which compares the claims to NumPy's memory with a list
//! of them. This file also runs under miri; the crate itself is built for Python only.
#![allow(clippy::indexing_slicing, clippy::unwrap_used, missing_docs, dead_code)]

#[path = "../src/memory/claims.rs"]
mod claims;
