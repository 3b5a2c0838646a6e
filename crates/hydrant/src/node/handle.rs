//! A node that serves, for the program that started it.

use std::panic::resume_unwind;
use std::thread::JoinHandle;

use anyhow::Result;

use crate::node::NodeAddresses;
use crate::signals::EndRequest;

/// A node that serves. Dropping it ends the node in the background; [`stop`](Self::stop) waits for that.
pub struct NodeHandle {
    addresses: NodeAddresses,
    end: EndRequest,
    /// `None`: the end of the node is waited for.
    thread: Option<JoinHandle<Result<()>>>,
}

impl NodeHandle {
    pub(super) fn new(
        addresses: NodeAddresses,
        end: EndRequest,
        thread: JoinHandle<Result<()>>,
    ) -> Self {
        Self { addresses, end, thread: Some(thread) }
    }

    /// Returns the addresses of the node.
    pub fn addresses(&self) -> &NodeAddresses {
        &self.addresses
    }

    /// Waits until the node ends: by a signal if it has the process for itself, by its administration, or because its
    /// ledger has ended.
    ///
    /// # Errors
    ///
    /// The ledger has failed, or a part could not be stopped.
    pub fn wait(mut self) -> Result<()> {
        self.thread.take().map_or(Ok(()), join)
    }

    /// Ends the node and waits for it: requests that run may finish within its drain, and the ledger is stored.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn stop(self) -> Result<()> {
        self.end.send();
        self.wait()
    }
}

impl Drop for NodeHandle {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.end.send();
        }
    }
}

/// The result of the node's thread. A panic of it continues here.
pub(super) fn join(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
