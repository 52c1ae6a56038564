//! Passes bytes to `rlox_fuzz::state`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlox_fuzz::state(data));
