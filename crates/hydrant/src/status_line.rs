//! The status line while the node runs: on a terminal one that is redrawn; under the name of `solana-test-validator`
//! also on a pipe or in a file, where each state is a line of its own.
//!
//! Shape: a thread of its own draws it, because a write to a full pipe blocks. Without a reader of its output the node
//! continues to run.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use chain_solana::{Reader, Snapshots, View};
use jsonrpc::{Health, Status};
use ledger::{Address, Commitment};
use rpc_solana::pubsub::SolanaPubSub;
use solana_account::ReadableAccount;
use solana_native_token::Sol;
use solana_pubkey::Pubkey;

use crate::banner::OutputStyle;
use crate::console::{has_terminal, now};

/// Interval between redraws: the default length of a slot.
const REDRAW_INTERVAL: Duration = Duration::from_millis(400);
/// Interval between lines of `solana-test-validator`.
const TEST_VALIDATOR_INTERVAL: Duration = Duration::from_millis(250);
/// Time limit of the last line. A terminal may have been stopped.
const END_TIMEOUT: Duration = Duration::from_millis(200);

/// The values that the line shows.
pub(crate) struct StatusSource {
    pub(crate) style: OutputStyle,
    pub(crate) started: Instant,
    pub(crate) identity: Pubkey,
    pub(crate) reader: Reader,
    pub(crate) pubsub: Arc<SolanaPubSub>,
    pub(crate) snapshots: Option<Arc<dyn Snapshots>>,
    pub(crate) health: Arc<Health>,
}

/// The thread that draws the line.
pub(crate) struct StatusLine {
    stop: SyncSender<()>,
    ended: Receiver<()>,
}

impl StatusLine {
    /// Starts to draw. `None` if this output has no line.
    pub(crate) fn start(source: StatusSource) -> Result<Option<Self>> {
        let is_terminal = has_terminal();
        if !is_terminal && source.style != OutputStyle::TestValidator {
            return Ok(None);
        }
        let (stop, stopped) = sync_channel(1);
        let (end, ended) = sync_channel::<()>(1);
        let draw = move || {
            // Dropped at the end, which the receiver notices.
            let _end = end;
            if is_terminal { source.redraw(&stopped) } else { source.print_lines(&stopped) }
        };
        let thread = std::thread::Builder::new().name("status".into()).spawn(draw);
        thread.context("start the thread of the status line")?;
        Ok(Some(Self { stop, ended }))
    }

    /// Ends the line. Waits for the thread up to [`END_TIMEOUT`].
    pub(crate) fn stop(self) {
        drop(self.stop);
        // It has ended, or its output blocks and it ends with the process.
        let _ = self.ended.recv_timeout(END_TIMEOUT);
    }
}

impl StatusSource {
    /// Draws the line over itself. Longer lines than the terminal's are cut, not wrapped.
    fn redraw(&self, stopped: &Receiver<()>) {
        loop {
            let drawn = write(&format!("\r\x1b[K\x1b[?7l{}\x1b[?7h", self.line()));
            if drawn.is_err() {
                return;
            }
            if is_stopped(stopped, self.interval()) {
                break;
            }
        }
        let _ = write("\n");
    }

    /// Prints a line for each state, until their reader is gone.
    fn print_lines(&self, stopped: &Receiver<()>) {
        while write(&format!("{}\n", self.line())).is_ok() && !is_stopped(stopped, self.interval())
        {
        }
    }

    fn interval(&self) -> Duration {
        match self.style {
            OutputStyle::Hydrant => REDRAW_INTERVAL,
            OutputStyle::TestValidator => TEST_VALIDATOR_INTERVAL,
        }
    }

    fn line(&self) -> String {
        let views = self.reader.views();
        let slots =
            [&views.processed, &views.confirmed, &views.finalized].map(|it| it.block().slot);
        let transactions = views.processed.meta().transaction_count;
        match self.style {
            OutputStyle::Hydrant => {
                let [processed, confirmed, finalized] = slots;
                let stats = self.pubsub.stats();
                format!(
                    "slot {processed} | confirmed {confirmed} | finalized {finalized} | \
                     transactions {transactions} | subscriptions {} of {} clients",
                    stats.subscriptions, stats.connections,
                )
            }
            OutputStyle::TestValidator => {
                let view = self.reader.view(Commitment::Confirmed);
                TestValidatorStatus {
                    uptime: now() - self.started,
                    is_healthy: self.health.status() == Status::Ok,
                    slots,
                    snapshot_slot: self.snapshots.as_ref().and_then(|it| it.newest_slot()),
                    transactions,
                    identity_lamports: lamports(&view, &self.identity),
                }
                .line()
            }
        }
    }
}

/// The state that `solana-test-validator` shows.
struct TestValidatorStatus {
    uptime: Duration,
    is_healthy: bool,
    /// Processed, confirmed, finalized.
    slots: [u64; 3],
    snapshot_slot: Option<u64>,
    transactions: u64,
    identity_lamports: u64,
}

impl TestValidatorStatus {
    /// Returns the line of `solana-test-validator`, byte for byte.
    fn line(&self) -> String {
        let seconds = self.uptime.as_secs();
        let [processed, confirmed, finalized] = self.slots;
        format!(
            "{:02}:{:02}:{:02} {}| Processed Slot: {processed} | Confirmed Slot: {confirmed} | \
             Finalized Slot: {finalized} | Full Snapshot Slot: {} | Incremental Snapshot Slot: - | \
             Transactions: {} | {}",
            seconds / 3_600,
            seconds / 60 % 60,
            seconds % 60,
            if self.is_healthy { "" } else { "| health unknown " },
            self.snapshot_slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string()),
            self.transactions,
            Sol(self.identity_lamports),
        )
    }
}

fn lamports(view: &View, key: &Pubkey) -> u64 {
    view.record(&Address::from(key.to_bytes())).map_or(0, |account| account.0.lamports())
}

/// Waits for the interval; true if the line ends before that.
fn is_stopped(stopped: &Receiver<()>, interval: Duration) -> bool {
    !matches!(stopped.recv_timeout(interval), Err(RecvTimeoutError::Timeout))
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_that_of_test_validator() {
        let status = TestValidatorStatus {
            uptime: Duration::from_millis(29_900),
            is_healthy: true,
            slots: [51, 51, 20],
            snapshot_slot: None,
            transactions: 50,
            identity_lamports: 499_999_750_000,
        };
        // The line of version 4.2.2 on a pipe.
        let line = "00:00:29 | Processed Slot: 51 | Confirmed Slot: 51 | Finalized Slot: 20 | \
                    Full Snapshot Slot: - | Incremental Snapshot Slot: - | Transactions: 50 | ◎499.999750000";
        assert_eq!(status.line(), line);
        let late = TestValidatorStatus {
            uptime: Duration::from_secs(100 * 3_600 + 61),
            is_healthy: false,
            snapshot_slot: Some(7),
            ..status
        };
        let line = late.line();
        assert!(line.starts_with("100:01:01 | health unknown | Processed Slot: 51 | "), "{line}");
        assert!(
            line.contains("| Full Snapshot Slot: 7 | Incremental Snapshot Slot: - |"),
            "{line}"
        );
    }
}
