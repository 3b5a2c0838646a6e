//! What the fuzz targets do with an input, so that a test can do the same with the seeds.
//!
//! A target fails by panicking. Properties: nothing panics; a request is read as `jsonrpc-core` reads
//! it; every answer is JSON of the right envelope; a transaction that is read is written as the same
//! bytes.
//! Not here: libFuzzer (`targets/`), how it is run (`cargo xtask fuzz`, README.md).

mod node;
mod requests;
mod transactions;

pub use requests::request;
pub use transactions::transaction;

/// Runs `check` on every seed of a target.
#[cfg(test)]
fn for_each_seed(target: &str, check: impl Fn(&[u8])) {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target);
    let mut seen = 0;
    for seed in std::fs::read_dir(seeds).expect("the seeds are there") {
        let path = seed.expect("a seed").path();
        check(&std::fs::read(&path).expect("a seed can be read"));
        seen += 1;
    }
    assert!(seen >= 5, "only {seen} seeds of {target}");
}
