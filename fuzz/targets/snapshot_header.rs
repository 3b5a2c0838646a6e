//! libFuzzer over headers of Kaspa's snapshot files.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::snapshot_header(bytes));
