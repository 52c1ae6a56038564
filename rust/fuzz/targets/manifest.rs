//! Passes bytes to `rlox_fuzz::manifest`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlox_fuzz::manifest(data));
