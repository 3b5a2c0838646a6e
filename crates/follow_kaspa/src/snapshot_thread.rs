//! The thread that writes the snapshot file at an interval, while the ledger is served, and once more at its end.
//!
//! Bounds: one view of the newest final block is held while its file is written.
//! A file is written only if the final block is another one than at the last write, or than the one that the chain started
//! at. A write that fails is reported and tried again after the interval. A write that a stop waits for longer than
//! [`LAST_WRITE_MAX`] is discarded, and the file of before stays. Nothing is written while no source continues the
//! chain: its final block may have been reverted, and the chain may start again from a file (`restart`).

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use chain_kaspa::ChainReader;
use http_client::describe_error;
use kaspa::{Hash, Network};
use ledger::Commitment;

use crate::config::SnapshotConfig;
use crate::snapshot_file::write_snapshot;
use crate::status::FollowStatus;

/// Time that a stop waits for the last file. Service managers kill a process some 90 s after its signal.
const LAST_WRITE_MAX: Duration = Duration::from_secs(10);

#[expect(clippy::disallowed_methods, reason = "a stop is bounded in time")]
fn now() -> Instant {
    Instant::now()
}

/// The thread that writes the snapshot file.
pub(crate) struct SnapshotThread {
    /// The thread ends when this is dropped.
    stop: SyncSender<()>,
    /// The end of the last write. It is set before `stop` is dropped, if there is to be one.
    last_write_end: Arc<OnceLock<Instant>>,
    thread: JoinHandle<()>,
}

struct SnapshotWriter {
    config: SnapshotConfig,
    network: Network,
    reader: ChainReader,
    status: Arc<FollowStatus>,
    /// The block of the last file, or of the file that the chain was loaded from.
    written: Option<Hash>,
    last_write_end: Arc<OnceLock<Instant>>,
}

impl SnapshotThread {
    pub(crate) fn start(
        config: SnapshotConfig,
        network: Network,
        reader: ChainReader,
        status: Arc<FollowStatus>,
    ) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        // A chain starts from its file if that exists.
        let written = config.path.exists().then(|| reader.status().root.hash);
        let last_write_end = Arc::new(OnceLock::new());
        let end = Arc::clone(&last_write_end);
        let writer =
            SnapshotWriter { config, network, reader, status, written, last_write_end: end };
        let thread = std::thread::Builder::new().name("kaspa-snapshot".into());
        let thread = thread.spawn(move || writer.run(&stopped))?;
        Ok(Self { stop, last_write_end, thread })
    }

    /// Ends the thread. With `is_last_written` the file of the newest final block is written before, within
    /// [`LAST_WRITE_MAX`]. Otherwise a write that has not finished is discarded.
    pub(crate) fn stop(self, is_last_written: bool) {
        if is_last_written {
            // Nothing else sets it.
            let _ = self.last_write_end.set(now() + LAST_WRITE_MAX);
        }
        drop(self.stop);
        // A panic was reported by its thread; the file of before is still there.
        let _ = self.thread.join();
    }
}

impl SnapshotWriter {
    fn run(mut self, stopped: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(self.config.interval) {
            self.write_if_changed(stopped);
        }
        if self.last_write_end.get().is_some() {
            self.write_if_changed(stopped);
        }
    }

    fn write_if_changed(&mut self, stopped: &Receiver<()>) {
        let view = self.reader.utxos.view(Commitment::Finalized);
        let info = view.meta();
        if self.written == Some(info.hash) || self.status.is_halted() {
            return;
        }
        let is_node_stopped = || {
            stopped.try_recv() == Err(TryRecvError::Disconnected)
                && self.last_write_end.get().is_none_or(|end| now() >= *end)
        };
        let is_stopped = || self.status.is_halted() || is_node_stopped();
        match write_snapshot(&self.config.path, self.network, &view, &is_stopped) {
            Ok(()) => {
                self.written = Some(info.hash);
                self.status.record_snapshot(info.daa_score);
                tracing::info!(block = %info.hash, utxos = info.supply.utxos, "wrote the snapshot file");
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted && is_stopped() => {
                tracing::warn!(
                    "the snapshot file is not written: the node ends, or no source continues \
                     the chain"
                );
            }
            Err(error) => {
                let error = format!("{}: {}", self.config.path.display(), describe_error(&error));
                tracing::error!("the snapshot file was not written: {error}");
                self.status.set_snapshot_error(error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chain_kaspa::ChainConfig;

    use super::*;
    use crate::base::start_at_genesis;
    use crate::config::ConnectionConfig;
    use crate::writer_queue::QueueUsage;

    #[test]
    fn nothing_is_written_while_no_source_continues_the_chain() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("utxos");
        let chain = start_at_genesis(Network::Simnet, ChainConfig::new(100)).expect("a chain");
        let reader = chain.reader();
        let queue = Arc::new(QueueUsage::new(&ConnectionConfig::default()));
        let status = Arc::new(FollowStatus::new(reader.clone(), queue));
        let mut writer = SnapshotWriter {
            config: SnapshotConfig::new(&path),
            network: Network::Simnet,
            reader,
            status: Arc::clone(&status),
            written: None,
            last_write_end: Arc::default(),
        };
        let (_stop, stopped) = sync_channel(0);
        status.set_halt("the source left our chain".to_owned());
        writer.write_if_changed(&stopped);
        assert!(!path.exists());
        status.set_caught_up();
        writer.write_if_changed(&stopped);
        assert!(path.exists());
    }
}
