//! The output of a process with a node of Solana, which shows facts of the server.

use std::sync::Arc;

use anyhow::Result;
use rpc_solana::SolanaServer;
use rpc_solana::pubsub::SolanaPubSub;

use crate::node::NodeAddresses;
use crate::node::front_end::FrontEnd;

/// The output of a process with a node of Solana.
pub(crate) trait SolanaFrontEnd: Send {
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

/// A front end with the servers whose facts it shows.
pub(super) struct ServerFrontEnd {
    pub(super) output: Box<dyn SolanaFrontEnd>,
    pub(super) server: Arc<SolanaServer>,
    pub(super) pubsub: Arc<SolanaPubSub>,
}

impl FrontEnd for ServerFrontEnd {
    fn show_ready(&mut self, addresses: &NodeAddresses) -> Result<()> {
        let Self { output, server, pubsub } = self;
        output.show_ready(&ReadyNode { addresses, server, pubsub })
    }

    fn stop(&mut self) {
        self.output.stop();
    }
}
