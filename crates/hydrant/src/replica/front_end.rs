//! The output of a process with a replica: its banner, and the status line.

use std::time::Instant;

use anyhow::Result;
use rpc_solana::NodeMemory;

use crate::banner::OutputStyle;
use crate::console::{now, print_line};
use crate::memory_report::MemoryLine;
use crate::node::solana::front_end::{ReadyNode, SolanaFrontEnd};
use crate::status_line::{StatusLine, StatusSource};

/// The output of a process with a replica.
pub(super) struct ReplicaFrontEnd {
    pub(super) has_output: bool,
    pub(super) started: Instant,
    pub(super) cluster: String,
    /// `None` before the node is ready, and if the output is not a terminal.
    pub(super) line: Option<StatusLine>,
}

impl SolanaFrontEnd for ReplicaFrontEnd {
    fn show_ready(&mut self, node: &ReadyNode<'_>) -> Result<()> {
        if !self.has_output {
            return Ok(());
        }
        let api = &node.server.api;
        let info = &api.cluster_info;
        let usage = NodeMemory::new(&api.reader, &api.history);
        let line = |name: &str, value: String| format!("\n  {name:<10} {value}");
        let mut text = format!(
            "Hydrant {}, a replica of {} from slot {} after {:?}",
            env!("CARGO_PKG_VERSION"),
            self.cluster,
            info.first_slot,
            now() - self.started
        );
        text += &line("JSON-RPC", node.addresses.rpc_url());
        text += &line("WebSocket", node.addresses.pubsub_url());
        if let Some(tpu) = node.addresses.tpu {
            text += &line("TPU", format!("{tpu} (QUIC)"));
        }
        if let Some(grpc) = node.addresses.grpc_url() {
            text += &line("gRPC", format!("{grpc} (Yellowstone)"));
        }
        text += &line("Memory", MemoryLine(usage).to_string());
        text += &line("Genesis", info.genesis_hash.to_string());
        text += &line("Identity", info.identity.to_string());
        print_line(&text);
        self.line = StatusLine::start(StatusSource {
            style: OutputStyle::Hydrant,
            started: self.started,
            identity: info.identity,
            reader: api.reader.clone(),
            pubsub: node.pubsub.clone(),
            snapshots: None,
            health: api.health.clone(),
        })?;
        Ok(())
    }

    fn stop(&mut self) {
        self.line.take().into_iter().for_each(StatusLine::stop);
    }
}
