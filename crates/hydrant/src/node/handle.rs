//! A node that serves, for the program that started it.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use crate::node::NodeAddresses;
use crate::signals::EndRequest;

/// Stack of a thread that opens a ledger: that of a main thread.
pub(crate) const STACK_BYTES: usize = 8 << 20;

/// A node could not start, or has failed. The sources of the error say why.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct NodeError(#[from] anyhow::Error);

/// The running thread of a node, and the request that ends it.
pub(super) struct NodeThread {
    thread: JoinHandle<Result<()>>,
    end: EndRequest,
    /// Whether the handle was dropped, so that the thread logs an error itself.
    is_detached: Arc<AtomicBool>,
}

impl NodeThread {
    /// Starts a thread that runs a node until its end is requested.
    pub(super) fn start(
        run: impl FnOnce(EndRequest) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let end = EndRequest::default();
        let is_detached = Arc::new(AtomicBool::new(false));
        let builder = std::thread::Builder::new().name("node".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn({
            let end = end.clone();
            let is_detached = Arc::clone(&is_detached);
            move || {
                let result = run(end);
                if let Err(err) = &result
                    && is_detached.load(Ordering::Acquire)
                {
                    tracing::error!(err = %format_args!("{err:#}"), "a dropped node failed");
                }
                result
            }
        });
        Ok(Self { thread: thread.context("start the thread of the node")?, end, is_detached })
    }

    /// Waits for the result. A panic of the thread continues here.
    pub(super) fn join(self) -> Result<()> {
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

/// A node that serves. Dropping it ends the node in the background, where an error is only logged;
/// [`stop`](Self::stop) waits for the end.
pub struct NodeHandle {
    addresses: NodeAddresses,
    /// `None`: the end of the node is waited for.
    thread: Option<NodeThread>,
}

impl NodeHandle {
    pub(super) fn new(addresses: NodeAddresses, thread: NodeThread) -> Self {
        Self { addresses, thread: Some(thread) }
    }

    /// Returns the addresses of the node.
    pub fn addresses(&self) -> &NodeAddresses {
        &self.addresses
    }

    /// Returns whether the node has ended. [`wait`](Self::wait) then returns at once, with the reason if it failed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| thread.thread.is_finished())
    }

    /// Waits until the node ends: by a signal if it has the process for itself, by its administration, or because its
    /// ledger has ended.
    ///
    /// # Errors
    ///
    /// The ledger has failed, or a part could not be stopped.
    pub fn wait(mut self) -> Result<(), NodeError> {
        self.thread.take().map_or(Ok(()), |thread| Ok(thread.join()?))
    }

    /// Ends the node and waits for it: requests that run may finish within its drain, and the ledger is stored.
    ///
    /// # Errors
    ///
    /// The ledger has failed, or a part could not be stopped.
    pub fn stop(self) -> Result<(), NodeError> {
        if let Some(thread) = &self.thread {
            thread.end.send();
        }
        self.wait()
    }
}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.is_detached.store(true, Ordering::Release);
            thread.end.send();
        }
    }
}
