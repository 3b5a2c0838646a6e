//! A composed node: the servers of a chain over a ledger that runs. Nothing is served yet.
//!
//! Not here: who composes it (`solana`, `kaspa`), and how it serves and ends (`running`).

use std::sync::Arc;

use anyhow::Result;
use jsonrpc::{Health, ServerContext};
use serde_json::Value;

use crate::api_key_file::ApiKeyFile;
use crate::node::NodeAddresses;
use crate::node::front_end::FrontEnd;
use crate::node::parts::{BoxFuture, Parts};
use crate::process_memory::MeasuredLedger;

/// The servers of a node and its ledger.
pub(crate) struct ComposedNode {
    /// The state that all servers share.
    pub(crate) context: Arc<ServerContext>,
    pub(crate) parts: Parts,
    pub(crate) ledger: Box<dyn RunningLedger>,
    /// Tasks that run from the time at which the node is ready until it ends.
    pub(crate) ledger_tasks: Vec<BoxFuture<'static, ()>>,
    pub(crate) measured_ledger: Arc<dyn MeasuredLedger>,
    /// The HTTP servers of the bound ports. Each serves from its first poll to the drain of the context.
    pub(crate) http_servers: Vec<BoxFuture<'static, ()>>,
    /// `None`: the node is embedded in a program.
    pub(crate) front_end: Option<Box<dyn FrontEnd>>,
    pub(crate) api_keys: Option<ApiKeyFile>,
    /// Reports of the administration that only this chain has.
    pub(crate) reports: Vec<NodeReport>,
    pub(crate) addresses: NodeAddresses,
}

/// A report of the administration.
pub(crate) struct NodeReport {
    pub(crate) name: &'static str,
    /// Returns the newest state of the report.
    pub(crate) make: Box<dyn Fn() -> Value + Send + Sync>,
}

/// A ledger whose thread is running.
pub(crate) trait RunningLedger: Send {
    /// Whether the thread that writes it has ended without a stop.
    fn is_finished(&self) -> bool;

    /// Reports the health of the node. Called at a regular interval. Returns whether the node is alive: a service manager
    /// restarts one that is not.
    fn poll_health(&mut self, health: &Health) -> bool;

    /// Stops the ledger. It blocks until everything is stored.
    fn stop(self: Box<Self>) -> Result<()>;
}
