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
pub struct NodeError(anyhow::Error);

impl NodeError {
    pub(crate) fn new(err: anyhow::Error) -> Self {
        Self(err)
    }
}

/// The running thread of a node, and the request that ends it.
pub(super) struct NodeThread {
    thread: JoinHandle<Result<()>>,
    end: EndRequest,
    /// Set by the end of the run and by the drop of the handle. The later one of the two logs an error.
    is_ended_or_dropped: Arc<AtomicBool>,
}

impl NodeThread {
    /// Starts a thread that runs a node until its end is requested.
    pub(super) fn start(
        run: impl FnOnce(EndRequest) -> Result<()> + Send + 'static,
    ) -> Result<Self> {
        let end = EndRequest::default();
        let is_ended_or_dropped = Arc::new(AtomicBool::new(false));
        let builder = std::thread::Builder::new().name("node".into()).stack_size(STACK_BYTES);
        let thread = builder.spawn({
            let end = end.clone();
            let is_ended_or_dropped = Arc::clone(&is_ended_or_dropped);
            move || {
                let result = run(end);
                let is_dropped = is_ended_or_dropped.swap(true, Ordering::AcqRel);
                if is_dropped && let Err(err) = &result {
                    log_failure(err);
                }
                result
            }
        });
        let thread = thread.context("start the thread of the node")?;
        Ok(Self { thread, end, is_ended_or_dropped })
    }

    /// Waits for the result. A panic of the thread continues here.
    pub(super) fn join(self) -> Result<()> {
        self.thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Ends the node without waiting for its end. Returns the error of a node that had failed before.
    fn detach(self) -> Result<()> {
        self.end.send();
        let has_ended = self.is_ended_or_dropped.swap(true, Ordering::AcqRel);
        if has_ended { self.thread.join().unwrap_or(Ok(())) } else { Ok(()) }
    }
}

fn log_failure(err: &anyhow::Error) {
    tracing::error!(err = %format_args!("{err:#}"), "a dropped node failed");
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
        self.thread.take().map_or(Ok(()), |thread| thread.join().map_err(NodeError))
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
        if let Some(thread) = self.thread.take()
            && let Err(err) = thread.detach()
        {
            log_failure(&err);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use anyhow::bail;

    use super::*;

    #[test]
    fn a_dropped_handle_gets_the_error_of_a_node_that_had_failed() {
        let thread = NodeThread::start(|_end| bail!("the disk is full")).expect("a thread");
        while !thread.is_ended_or_dropped.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let err = thread.detach().expect_err("it had failed");
        assert_eq!(err.to_string(), "the disk is full");
    }

    #[test]
    fn a_dropped_handle_does_not_wait_for_a_running_node() {
        let (stop, is_stopped) = sync_channel::<()>(0);
        let thread = NodeThread::start(move |_end| Ok(is_stopped.recv()?)).expect("a thread");
        thread.detach().expect("no error yet");
        drop(stop);
    }
}
