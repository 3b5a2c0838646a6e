//! The signals that end a node cleanly, and the one that it ignores.
//!
//! SIGTERM, SIGINT, SIGQUIT and SIGHUP (the terminal was closed) end the node in the same way. A node that was
//! started with SIGHUP ignored, as by `nohup`, ignores SIGHUP. SIGUSR2 has no effect: without a handler it would end
//! the process at once. SIGUSR1 is for `memory_report`.

use std::future::poll_fn;
use std::task::Poll;

use anyhow::{Context, Result};
use process_usage::Process;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGHUP in the masks of signals: the lowest bit is signal 1.
const HANGUP_BIT: u64 = 1;

/// Listens for signals until it is dropped.
pub(crate) struct EndSignals {
    ends: Vec<Signal>,
    _ignored: Signal,
}

impl EndSignals {
    /// Installs the handlers: from now on these signals no longer end the process directly.
    pub(crate) fn listen() -> Result<Self> {
        let mut kinds = vec![
            ("SIGTERM", SignalKind::terminate()),
            ("SIGINT", SignalKind::interrupt()),
            ("SIGQUIT", SignalKind::quit()),
        ];
        // Without `/proc` it is not known, and SIGHUP ends the node.
        let ignored = Process::current().signal_mask("SigIgn").unwrap_or_default();
        if !has_hangup(ignored) {
            kinds.push(("SIGHUP", SignalKind::hangup()));
        }
        let ends = kinds
            .into_iter()
            .map(|(name, kind)| signal(kind).with_context(|| format!("listen for {name}")))
            .collect::<Result<Vec<Signal>>>()?;
        let ignored = signal(SignalKind::user_defined2()).context("listen for SIGUSR2")?;
        Ok(Self { ends, _ignored: ignored })
    }

    /// Waits for the next signal that ends the node.
    pub(crate) async fn next(&mut self) {
        poll_fn(|context| {
            // Every signal that is polled before a ready one wakes this task.
            match self.ends.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }
}

/// Whether SIGHUP is in a mask of signals.
fn has_hangup(mask: u64) -> bool {
    mask & HANGUP_BIT != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_recognised_by_the_mask_of_ignored_signals() {
        assert!(has_hangup(0x1001));
        assert!(!has_hangup(0x1000));
        assert!(!has_hangup(0));
    }
}
