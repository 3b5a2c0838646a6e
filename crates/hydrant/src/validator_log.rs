//! `validator.log` in the ledger directory, for scripts that read it after a start of `solana-test-validator`.
//!
//! Bounds: less than 2 KB. It is written at each start and not after that. The log of events goes to standard error
//! (`--log`).

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::banner::Banner;

/// Writes the facts of a node that has started, in the format of Agave's log.
pub(crate) fn write(dir: &Path, banner: &Banner<'_>) -> Result<()> {
    let path = dir.join(localnet::LOG_FILE);
    std::fs::write(&path, text(banner)).with_context(|| format!("write {}", path.display()))
}

fn text(banner: &Banner<'_>) -> String {
    let cluster = banner.cluster_info;
    let version = rpc_solana::api_version();
    let lines = [
        (
            "solana_test_validator",
            format!(
                "solana-test-validator {version} (src:hydrant-{}; feat:{}, client:Hydrant)",
                env!("CARGO_PKG_VERSION"),
                cluster.feature_set
            ),
        ),
        ("solana_core::validator", format!("identity pubkey: {}", cluster.identity)),
        ("solana_core::validator", format!("vote account pubkey: {}", banner.vote_account)),
        ("solana_core::validator", format!("genesis hash: {}", cluster.genesis_hash)),
        ("solana_core::validator", format!("shred version: {}", cluster.shred_version)),
        ("solana_rpc::rpc_service", format!("rpc bound to {}", banner.rpc)),
        ("solana_rpc::rpc_pubsub_service", format!("rpc_pubsub bound to {}", banner.pubsub)),
        ("solana_core::tpu", format!("tpu_quic bound to {}", banner.tpu)),
    ];
    let time = now();
    let mut text = String::new();
    for (target, line) in lines {
        // Writing to a String does not fail.
        let _ = writeln!(text, "[{time} INFO  {target}] {line}");
    }
    text
}

/// The time in the format of logs.
fn now() -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}
