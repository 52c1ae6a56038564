//! Passes bytes to `rlox_fuzz::description`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlox_fuzz::description(data));
