//! The output of a process with a replica: its banner, and the status line.

use std::time::Instant;

use anyhow::Result;

use crate::banner::{OutputStyle, node_lines};
use crate::console::{now, print_line};
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
        let first = format!(
            "Hydrant {}, a replica of {} from slot {} after {:?}",
            env!("CARGO_PKG_VERSION"),
            self.cluster,
            info.first_slot,
            now() - self.started
        );
        print_line(&(first + &node_lines(node)));
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
