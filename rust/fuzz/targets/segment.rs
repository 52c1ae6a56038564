//! Passes bytes to `rlox_fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlox_fuzz::segment(data));
