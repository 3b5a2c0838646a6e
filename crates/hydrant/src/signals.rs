//! The signals that end a node cleanly, and the one that it ignores.
//!
//! SIGTERM, SIGINT, SIGQUIT and SIGHUP (the terminal was closed) end the node in the same way. A node that was
//! started with SIGHUP ignored, as by `nohup`, ignores SIGHUP. Under the name of `solana-test-validator` this
//! applies to SIGINT and SIGQUIT too: a shell script ignores both for a command with `&`, and kit's script relies on a
//! validator that survives the interrupt of the script. SIGUSR2 has no effect: without a handler it would end
//! the process at once. SIGUSR1 is for `process_memory`.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use anyhow::{Context, Result};
use process_usage::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

/// The signals that a node may have been started to ignore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ignorable {
    /// SIGHUP only, as under `nohup`.
    Hangup,
    /// SIGHUP, SIGINT and SIGQUIT, as in a script's background.
    Terminal,
}

impl Ignorable {
    fn contains(self, kind: SignalKind) -> bool {
        let terminal = [SignalKind::interrupt(), SignalKind::quit()];
        kind == SignalKind::hangup() || (self == Self::Terminal && terminal.contains(&kind))
    }
}

/// Listens for signals until it is dropped.
pub(crate) struct EndSignals {
    ends: Vec<EndSignal>,
    /// SIGUSR1, which requests a report of the memory. `None` once `process_memory` has it.
    memory_request: Option<Signal>,
    /// SIGUSR2, which would end the process without a handler.
    _ignored: Option<Signal>,
    request: EndRequest,
    /// Whether a signal or a request that ends the node has come.
    has_come: bool,
}

/// A signal that ends the node.
struct EndSignal {
    number: i32,
    signal: Signal,
}

/// Ends the node as a first signal does. Clones share it, and only the first request counts.
#[derive(Clone, Default)]
pub(crate) struct EndRequest(Arc<EndRequestState>);

#[derive(Default)]
struct EndRequestState {
    is_sent: AtomicBool,
    sent: Notify,
}

impl EndRequest {
    /// Sends the request. A further one has no effect.
    pub(crate) fn send(&self) {
        if !self.0.is_sent.swap(true, Ordering::Relaxed) {
            self.0.sent.notify_one();
        }
    }
}

impl EndSignals {
    /// Listens to no signal: only a request ends the node.
    pub(crate) fn none(request: EndRequest) -> Self {
        Self { ends: Vec::new(), memory_request: None, _ignored: None, request, has_come: false }
    }

    /// Installs the handlers: from now on these signals no longer end the process directly. A request ends the node, too.
    pub(crate) fn listen(ignorable: Ignorable, request: EndRequest) -> Result<Self> {
        let kinds = [
            ("SIGTERM", SignalKind::terminate()),
            ("SIGINT", SignalKind::interrupt()),
            ("SIGQUIT", SignalKind::quit()),
            ("SIGHUP", SignalKind::hangup()),
        ];
        // Without `/proc` it is not known, and each of them ends the node.
        let ignored = Process::current().signal_mask("SigIgn").unwrap_or_default();
        let ends = kinds
            .into_iter()
            .filter(|(_, kind)| !(ignorable.contains(*kind) && has_signal(ignored, *kind)))
            .map(|(name, kind)| {
                let signal = signal(kind).with_context(|| format!("listen for {name}"))?;
                Ok(EndSignal { number: kind.as_raw_value(), signal })
            })
            .collect::<Result<Vec<EndSignal>>>()?;
        let memory_request = signal(SignalKind::user_defined1()).context("listen for SIGUSR1")?;
        let ignored = signal(SignalKind::user_defined2()).context("listen for SIGUSR2")?;
        let memory_request = Some(memory_request);
        Ok(Self { ends, memory_request, _ignored: Some(ignored), request, has_come: false })
    }

    /// Takes SIGUSR1. `None` if the node listens to no signal.
    pub(crate) fn take_memory_request(&mut self) -> Option<Signal> {
        self.memory_request.take()
    }

    /// Returns the request that ends the node without a signal.
    pub(crate) fn request(&self) -> EndRequest {
        self.request.clone()
    }

    /// Waits for the next signal that ends the node, or for a request that does.
    pub(crate) async fn next(&mut self) {
        let request = Arc::clone(&self.request.0);
        tokio::select! {
            _ = self.next_number() => {}
            () = request.sent.notified() => {}
        }
        self.has_come = true;
    }

    /// Whether [`Self::next`] has returned before.
    pub(crate) fn has_come(&self) -> bool {
        self.has_come
    }

    /// Waits for the next signal that ends the node. Returns its number.
    pub(crate) async fn next_number(&mut self) -> i32 {
        poll_fn(|context| {
            // Every signal that is polled before a ready one wakes this task.
            let mut ends = self.ends.iter_mut();
            let ready =
                ends.find_map(|end| end.signal.poll_recv(context).is_ready().then_some(end.number));
            ready.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Whether a signal is in a mask, whose lowest bit is signal 1.
fn has_signal(mask: u64, kind: SignalKind) -> bool {
    let bit = u32::try_from(kind.as_raw_value() - 1).ok();
    bit.and_then(|bit| mask.checked_shr(bit)).is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_ends_the_node_once() {
        let mut signals =
            EndSignals::listen(Ignorable::Hangup, EndRequest::default()).expect("handlers");
        let request = signals.request();
        request.send();
        request.send();
        signals.next().await;
        let second = tokio::time::timeout(std::time::Duration::from_millis(20), signals.next());
        assert!(second.await.is_err(), "a further request is not a second signal");
    }

    #[test]
    fn nohup_is_recognised_by_the_mask_of_ignored_signals() {
        let hangup = SignalKind::hangup();
        assert!(has_signal(0x1001, hangup));
        assert!(!has_signal(0x1000, hangup) && !has_signal(0, hangup));
        // The signals that a shell script ignores for a command with `&`.
        let background = 0b110;
        let has = |kind| has_signal(background, kind);
        assert!(has(SignalKind::interrupt()) && has(SignalKind::quit()));
        assert!(!has(hangup) && !has(SignalKind::terminate()));
        assert!(!Ignorable::Hangup.contains(SignalKind::interrupt()));
        assert!(!Ignorable::Terminal.contains(SignalKind::terminate()));
    }
}
