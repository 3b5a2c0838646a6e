//! libFuzzer over requests of gRPC's `Subscribe`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::subscribe(bytes));
