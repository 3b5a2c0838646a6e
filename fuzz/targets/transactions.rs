//! libFuzzer over transactions.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::transaction(bytes));
