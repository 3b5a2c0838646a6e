//! `validator.log` in the ledger directory: what scripts made for `solana-test-validator` look for there.
//!
//! Bounds: it is written anew at each start, and not after that: less than 2 KB. The log of what happens
//! goes to standard error (`--log`).

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::banner::Banner;

/// Writes the facts of a node that has started, in lines as Agave's log has them.
pub(crate) fn write(dir: &Path, banner: &Banner<'_>) -> Result<()> {
    let path = dir.join(localnet::LOG_FILE);
    std::fs::write(&path, text(banner)).with_context(|| format!("write {}", path.display()))
}

fn text(banner: &Banner<'_>) -> String {
    let cluster = banner.cluster;
    let version = rpc::api_version();
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
        ("solana_core::validator", format!("vote account pubkey: {}", cluster.vote_account)),
        ("solana_core::validator", format!("genesis hash: {}", cluster.genesis_hash)),
        ("solana_core::validator", format!("shred version: {}", cluster.shred_version)),
        ("solana_rpc::rpc_service", format!("rpc bound to {}", banner.rpc)),
        ("solana_rpc::rpc_pubsub_service", format!("rpc_pubsub bound to {}", banner.pubsub)),
        ("solana_core::tpu", format!("tpu_quic bound to {}", banner.tpu)),
    ];
    let time = now();
    let mut text = String::new();
    for (target, line) in lines {
        // A String always takes it.
        let _ = writeln!(text, "[{time} INFO  {target}] {line}");
    }
    text
}

/// The time as logs have it.
fn now() -> String {
    let mut text = String::new();
    // A String always takes it.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}
