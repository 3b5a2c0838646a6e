//! libFuzzer over the messages of a replicated log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::log_messages(bytes));
