//! What the fuzz targets do with an input. Tests do the same with the seeds and with inputs made from them.
//!
//! A target fails by panicking. Properties: nothing panics; a request is read as `jsonrpc-core` reads
//! it; every response is JSON of the right envelope; a transaction or a header of Kaspa that is read is written as the
//! same bytes; UTXOs that are stored are read again; a record of a log that is read is written as the same bytes; gRPC's
//! index finds the filters of a request that match, and no others.
//! Not here: libFuzzer (`targets/`), how it is run (`cargo xtask fuzz`, README.md).

#[cfg(test)]
mod generated;
mod kaspa;
mod log_messages;
mod node;
mod requests;
mod subscribe;
mod transactions;

pub use kaspa::{snapshot_header, utxo_chunk};
pub use log_messages::log_messages;
pub use requests::request;
pub use subscribe::subscribe;
pub use transactions::transaction;

/// Number of inputs that a test makes from a target's seeds: a run of some seconds. `HYDRANT_FUZZ_INPUTS` sets
/// another number.
#[cfg(test)]
const INPUTS: u64 = 20_000;

/// Runs `check` on every seed of a target, and on inputs that are made from them.
#[cfg(test)]
fn for_each_input(target: &str, check: impl Fn(&[u8]) + std::panic::RefUnwindSafe) {
    let seeds = seeds(target);
    seeds.iter().for_each(|seed| check(seed));
    let count = std::env::var("HYDRANT_FUZZ_INPUTS")
        .map_or(INPUTS, |text| text.parse().expect("HYDRANT_FUZZ_INPUTS is a number"));
    for number in 0..count {
        let input = generated::input(&seeds, number);
        let outcome = std::panic::catch_unwind(|| check(&input));
        assert!(
            outcome.is_ok(),
            "input {number} of {target} fails; as a seed: {}",
            String::from_utf8_lossy(&input).escape_debug()
        );
    }
}

/// The seeds of a target, in the order of their names.
#[cfg(test)]
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let entries = std::fs::read_dir(folder).expect("the seeds are there");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a seed").path()).collect();
    paths.sort();
    assert!(paths.len() >= 5, "only {} seeds of {target}", paths.len());
    paths.iter().map(|path| std::fs::read(path).expect("a seed can be read")).collect()
}
