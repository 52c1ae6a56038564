//! Passes bytes to `rlox_fuzz::replay`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rlox_fuzz::replay(data));
