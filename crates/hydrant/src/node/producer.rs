//! The producer of a node, and the opened node: the interface between a chain's composition and every node.
//!
//! Shape: [`NodeProducer::open`] binds the ports and opens the ledger, which may take minutes. [`OpenedNode::compose`]
//! composes the servers of the chain and starts the ledger.
//! Not here: the compositions (`solana`, `kaspa`), and the running node (`running`).

use std::time::Instant;

use anyhow::Result;
use tokio::runtime::Runtime;

use crate::node::NodeConfig;
use crate::node::composed::ComposedNode;
use crate::start_signals::StartSignals;

/// A node whose ports are not bound and whose ledger is not open.
pub(crate) trait NodeProducer: Send {
    /// Bytes of a request's body that this ledger needs. `None`: the limit of Agave.
    fn body_bytes_max(&self) -> Option<usize> {
        None
    }

    /// Binds the ports and opens the ledger. It blocks, for minutes if an archive is loaded.
    fn open(self: Box<Self>, context: &OpenContext<'_>) -> Result<Box<dyn OpenedNode>>;
}

/// The node's values that a ledger needs to open.
pub(crate) struct OpenContext<'a> {
    pub(crate) config: &'a NodeConfig,
    /// The runtime of the servers, which have not started.
    pub(crate) runtime: &'a Runtime,
    pub(crate) signals: &'a StartSignals,
    /// Whether lines about ignored flags and faulty programs are printed. An embedded node does not report them.
    pub(crate) has_output: bool,
}

/// A node with bound ports and an open ledger.
pub(crate) trait OpenedNode: Send {
    /// Composes the servers and starts the ledger. It must be called in the runtime of the servers.
    ///
    /// `process_start` is the start of a process that has the node for itself; an embedded node has no output.
    fn compose(
        self: Box<Self>,
        config: &NodeConfig,
        process_start: Option<Instant>,
    ) -> Result<ComposedNode>;
}
