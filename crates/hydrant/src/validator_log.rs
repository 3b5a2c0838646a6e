//! `validator.log` in the ledger directory, for scripts that read it after a start of `solana-test-validator`.
//!
//! Bounds: less than 2 KB. It is written at each start and not after that. The log of events goes to standard error
//! (`--log`).

use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use chain_solana::ClusterInfo;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::banner::Banner;
use crate::test_validator;

/// Writes the facts of a node that has started, in the format of Agave's log.
pub(crate) fn write(dir: &Path, banner: &Banner<'_>) -> Result<()> {
    let path = dir.join(localnet::LOG_FILE);
    std::fs::write(&path, text(banner)).with_context(|| format!("write {}", path.display()))
}

fn text(banner: &Banner<'_>) -> String {
    let cluster = banner.cluster_info;
    let shred_version = cluster.shred_version;
    // A local ledger has a port for transactions; without one its sockets are those of JSON-RPC.
    let addresses = banner.addresses;
    let tpu = addresses.tpu.unwrap_or(addresses.rpc);
    let lines = [
        ("solana_test_validator", format!("agave-validator {}", *test_validator::VERSION)),
        ("hydrant", format!("hydrant {}", env!("CARGO_PKG_VERSION"))),
        ("solana_core::validator", format!("identity pubkey: {}", cluster.identity)),
        ("solana_core::validator", format!("vote account pubkey: {}", banner.vote_account)),
        ("solana_core::validator", format!("genesis hash: {}", cluster.genesis_hash)),
        (
            "solana_core::validator",
            format!("shred version: {shred_version}, hard forks: HardForks {{ hard_forks: [] }}"),
        ),
        ("solana_core::validator", contact_info(banner, tpu.ip())),
        // The node has no gossip: this is its UDP socket.
        ("solana_core::validator", format!("local gossip address: {tpu}")),
        ("solana_rpc::rpc_service", format!("rpc bound to {}", addresses.rpc)),
        ("solana_rpc::rpc_pubsub_service", format!("rpc_pubsub bound to {}", addresses.pubsub)),
        ("solana_core::tpu", format!("tpu_quic bound to {tpu}")),
    ];
    let time = now();
    let mut text = String::new();
    for (target, line) in lines {
        // Writing to a String does not fail.
        let _ = writeln!(text, "[{time} INFO  {target}] {line}");
    }
    text
}

/// The node as gossip would describe it. The lines below have its sockets.
fn contact_info(banner: &Banner<'_>, ip: IpAddr) -> String {
    let ClusterInfo { identity, shred_version, feature_set, .. } = banner.cluster_info;
    let version = rpc_solana::api_version();
    let mut numbers = version.splitn(3, '.');
    let major = numbers.next().unwrap_or_default();
    let minor = numbers.next().unwrap_or_default();
    let patch = numbers.next().unwrap_or_default();
    format!(
        "ContactInfo {{ pubkey: {identity}, shred_version: {shred_version}, version: Version {{ major: {major}, \
         minor: {minor}, patch: {patch}, commit: 0, feature_set: {feature_set}, client: Hydrant, prerelease: Stable }}, \
         addrs: [{ip}], sockets: [], extensions: [] }}"
    )
}

/// The time in the format of logs.
fn now() -> String {
    let mut text = String::new();
    // Writing to a String does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut text));
    text
}
