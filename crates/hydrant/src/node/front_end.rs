//! The output of a node's process: the lines at its start, and the status line.

use std::sync::Arc;

use anyhow::Result;
use rpc_solana::SolanaServer;
use rpc_solana::pubsub::SolanaPubSub;

use crate::node::NodeAddresses;

/// The output of a node's process.
pub(crate) trait FrontEnd: Send {
    /// Shows that the node is ready.
    fn show_ready(&mut self, node: &ReadyNode<'_>) -> Result<()>;

    /// Ends the output, such as the status line.
    fn stop(&mut self) {}
}

/// The parts of a ready node that a front end shows.
pub(crate) struct ReadyNode<'a> {
    pub(crate) addresses: &'a NodeAddresses,
    pub(crate) server: &'a Arc<SolanaServer>,
    pub(crate) pubsub: &'a Arc<SolanaPubSub>,
}
