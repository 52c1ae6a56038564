//! Passes bytes to `rlox_fuzz::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlox_fuzz::snapshot(data));
