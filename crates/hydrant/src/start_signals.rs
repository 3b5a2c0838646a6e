//! Signals of a node that starts, and of every command that is process 1 of a container.
//!
//! The kernel gives process 1 no default action (pid_namespaces(7)): without a handler SIGTERM is lost, and a container
//! that loads a snapshot for an hour can only be killed. So a thread handles signals from the first instruction, and
//! ends the process.
//! Invariant: from the first instruction to the last one there is a handler, because [`StartSignals::into_end_signals`]
//! installs the next ones first.
//! Not here: the end of a node that serves ([`EndSignals`]).

use std::process::exit;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::{oneshot, watch};

use crate::signals::{EndRequest, EndSignals, Ignorable};

/// Time limit for work to remove its unfinished files.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(1);
/// Exit code of a command that a signal ended, plus the signal's number: the code that a shell reports.
const SIGNAL_EXIT_CODE: i32 = 128;

/// Ends the process at a signal, until it is dropped.
#[derive(Default)]
pub(crate) struct StartSignals {
    thread: Option<SignalThread>,
}

struct SignalThread {
    /// Ends the thread when it is dropped.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// True once a signal has come. Work that must clean up first holds a receiver.
    is_ending: Arc<watch::Sender<bool>>,
}

/// Whether the command runs a node, which ends with 0 at a signal.
#[derive(Clone, Copy)]
struct IsNode(bool);

impl StartSignals {
    /// Handles signals if this is process 1. In any other process they have their default action.
    pub(crate) fn for_process_1() -> Result<Self> {
        let is_first = std::process::id() == 1;
        let start = || SignalThread::start(Ignorable::Terminal, IsNode(false));
        let thread = is_first.then(start).transpose()?;
        Ok(Self { thread })
    }

    /// Handles the signals of a node that starts. The earlier handlers end when the new ones are installed.
    pub(crate) fn for_node(self, ignorable: Ignorable) -> Result<Self> {
        let thread = SignalThread::start(ignorable, IsNode(true))?;
        drop(self);
        Ok(Self { thread: Some(thread) })
    }

    /// Hands the signals over to a node that has started.
    pub(crate) fn into_end_signals(
        self,
        ignorable: Ignorable,
        request: EndRequest,
    ) -> Result<EndSignals> {
        // Before the thread ends. A signal in between is for both, and ends the process here.
        let signals = EndSignals::listen(ignorable, request)?;
        drop(self);
        Ok(signals)
    }

    /// Runs `work`, which is dropped before a signal ends the process.
    pub(crate) async fn dropped_at_end<T>(&self, work: impl Future<Output = T>) -> T {
        let Some(thread) = &self.thread else { return work.await };
        let mut is_ending = thread.is_ending.subscribe();
        let done = {
            tokio::pin!(work);
            tokio::select! {
                done = &mut work => Some(done),
                _ = is_ending.wait_for(|is_ending| *is_ending) => None,
            }
        };
        // The thread ends the process once no receiver is left.
        drop(is_ending);
        match done {
            Some(done) => done,
            None => std::future::pending().await,
        }
    }
}

impl SignalThread {
    /// Returns when the handlers are installed.
    fn start(ignorable: Ignorable, is_node: IsNode) -> Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (installed, is_installed) = std::sync::mpsc::sync_channel(1);
        let is_ending = Arc::new(watch::Sender::new(false));
        let own = Arc::clone(&is_ending);
        let thread = std::thread::Builder::new().name("signals".into());
        let thread = thread.spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime.context("listen for signals") {
                Ok(runtime) => runtime,
                Err(err) => return drop(installed.send(Err(err))),
            };
            runtime.block_on(async move {
                let signals = EndSignals::listen(ignorable, EndRequest::default());
                let (signals, result) = match signals {
                    Ok(signals) => (Some(signals), Ok(())),
                    Err(err) => (None, Err(err)),
                };
                // The other side waits for it.
                let _ = installed.send(result);
                if let Some(signals) = signals {
                    end_at_signal(signals, stopped, &own, is_node).await;
                }
            });
        });
        let thread = thread.context("start the thread that listens for signals")?;
        is_installed.recv().context("listen for signals")??;
        Ok(Self { stop: Some(stop), thread: Some(thread), is_ending })
    }
}

/// Ends the process at the next signal, unless the thread is stopped before.
async fn end_at_signal(
    mut signals: EndSignals,
    stopped: oneshot::Receiver<()>,
    is_ending: &watch::Sender<bool>,
    IsNode(is_node): IsNode,
) {
    let number = tokio::select! {
        number = signals.next_number() => number,
        // It is dropped, and never sent.
        _ = stopped => return,
    };
    is_ending.send_replace(true);
    // Whatever does not clean up in time stays.
    let _ = tokio::time::timeout(CLEANUP_TIMEOUT, is_ending.closed()).await;
    exit(if is_node { 0 } else { SIGNAL_EXIT_CODE + number });
}

impl Drop for SignalThread {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has logged a panic already.
            let _ = thread.join();
        }
    }
}
