//! The parts of a node that serve its ledger. Each starts, adds its metrics and is stopped through one list.
//!
//! Shape: [`Parts::add`] takes a started part and adds its metrics; [`Parts::announce_end`] and [`Parts::stop`] reach all of
//! them. Tasks that only watch or log are aborted before the parts stop.
//! Invariant: a part that cannot be stopped does not prevent the others from being stopped.
//! Not here: what each part does (`tpu`, `faucet_server`, `solana`, `kaspa`, and the files of this directory).

mod http;

use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use jsonrpc::{Metrics, ServerContext};
use tokio::task::{JoinHandle, JoinSet};

pub(crate) use self::http::HttpPart;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A started part of a node, such as gRPC or the faucet.
pub(crate) trait Part: Send + Sync {
    /// Adds the metrics of the part to those of the node.
    fn add_metrics(&self, _: &Metrics) {}

    /// Tells clients that the node ends, while it still serves.
    fn announce_end(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Stops the part, within the drain of the node.
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>>;
}

/// The started parts of a node.
pub(crate) struct Parts {
    context: Arc<ServerContext>,
    started: Vec<Box<dyn Part>>,
    tasks: Vec<JoinHandle<()>>,
}

impl Parts {
    pub(crate) fn new(context: Arc<ServerContext>) -> Self {
        Self { context, started: Vec::new(), tasks: Vec::new() }
    }

    /// Adds a part that has started.
    pub(crate) fn add(&mut self, part: impl Part + 'static) {
        part.add_metrics(&self.context.metrics);
        self.started.push(Box::new(part));
    }

    /// Runs a task until the node ends.
    pub(crate) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(task));
    }

    /// Tells the clients of every part that the node ends.
    pub(crate) async fn announce_end(&self) {
        self.context.health.announce_end();
        for part in &self.started {
            part.announce_end().await;
        }
    }

    /// Aborts the tasks of `spawn`.
    pub(crate) fn abort_tasks(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }

    /// Stops all parts concurrently. Returns the first error once all have ended. A part that panics does
    /// not prevent the others, or the ledger, from being stopped.
    pub(crate) async fn stop(self) -> Result<()> {
        let mut stops = JoinSet::new();
        for part in self.started {
            stops.spawn(async move { part.stop().await });
        }
        let mut result = Ok(());
        while let Some(stopped) = stops.join_next().await {
            let stopped = stopped.context("a part of the node").flatten();
            result = result.and(stopped);
        }
        result
    }
}
