//! The HTTP servers of a node's ports.

use anyhow::{Context, Result};
use tokio::task::JoinHandle;

use super::{BoxFuture, Part};

/// A server of HTTP. It ends by the drain of the node.
pub(crate) struct HttpPart(JoinHandle<()>);

impl HttpPart {
    /// Starts the task of a server, which ends with the drain.
    pub(crate) fn start(server: BoxFuture<'static, ()>) -> Self {
        Self(tokio::spawn(server))
    }
}

impl Part for HttpPart {
    fn stop(self: Box<Self>) -> BoxFuture<'static, Result<()>> {
        Box::pin(async move { self.0.await.context("the servers") })
    }
}
