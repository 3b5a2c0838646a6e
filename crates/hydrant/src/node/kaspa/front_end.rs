//! The output of a process with a node of Kaspa: the lines when it is ready.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use chain_kaspa::ChainPoint;
use follow_kaspa::{FollowStatus, SourceConfig};
use kaspa::Network;

use super::running_ledger::UtxoLedger;
use crate::console::{now, print_line};
use crate::node::NodeAddresses;
use crate::node::front_end::FrontEnd;

/// The output of a process with a node of Kaspa.
pub(super) struct KaspaFrontEnd {
    pub(super) has_banner: bool,
    pub(super) started: Instant,
    pub(super) network: Network,
    /// The block that the chain starts at.
    pub(super) start: ChainPoint,
    pub(super) sources: Vec<SourceConfig>,
    /// `None`: the UTXO set is not stored.
    pub(super) snapshot: Option<PathBuf>,
    pub(super) status: Arc<FollowStatus>,
    pub(super) ledger: Arc<UtxoLedger>,
}

impl FrontEnd for KaspaFrontEnd {
    fn show_ready(&mut self, addresses: &NodeAddresses) -> Result<()> {
        if self.has_banner {
            print_line(&self.banner(addresses));
        }
        Ok(())
    }
}

impl KaspaFrontEnd {
    fn banner(&self, addresses: &NodeAddresses) -> String {
        let line = |name: &str, value: String| format!("\n  {name:<10} {value}");
        let mut text = format!(
            "Hydrant {}, follows {} from DAA score {} after {:?}",
            env!("CARGO_PKG_VERSION"),
            self.network,
            self.start.daa_score,
            now() - self.started
        );
        let urls = [
            ("Borsh", addresses.wrpc_borsh_url()),
            ("JSON", addresses.wrpc_json_url()),
            ("JSON-RPC", addresses.kaspa_rpc_url()),
            ("gRPC", addresses.grpc_url()),
        ];
        for (name, url) in urls {
            text += &url.map(|url| line(name, url)).unwrap_or_default();
        }
        for source in &self.sources {
            text += &line("Source", source.server().to_string());
        }
        let snapshot = match &self.snapshot {
            Some(path) => path.display().to_string(),
            None => "none (use --ledger DIR to store one)".to_owned(),
        };
        text += &line("Snapshot", snapshot);
        text += &line("Memory", self.ledger.measure().to_string());
        text += &line("Proven", format!("block {}", self.status.proven().hash));
        text
    }
}
