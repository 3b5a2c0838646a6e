//! libFuzzer over chunks of a UTXO set that a peer of Kaspa sends.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::utxo_chunk(bytes));
