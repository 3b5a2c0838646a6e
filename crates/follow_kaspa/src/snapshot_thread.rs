//! The thread that writes the snapshot file at an interval, while the ledger is served.
//!
//! Bounds: one view of the newest final block is held while its file is written.
//! A file is written only if the final block is another one than at the last write. A write that fails is reported and
//! tried again after the interval. A stop ends a write at once, and leaves the file of before.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

use chain_kaspa::ChainReader;
use http_client::describe_error;
use kaspa::{Hash, Network};
use ledger::Commitment;

use crate::config::SnapshotConfig;
use crate::snapshot_file::write_snapshot;
use crate::status::FollowStatus;

/// The handle of the thread.
pub(crate) struct SnapshotThread {
    /// The thread ends when this is dropped.
    stop: SyncSender<()>,
    thread: JoinHandle<()>,
}

struct SnapshotWriter {
    config: SnapshotConfig,
    network: Network,
    reader: ChainReader,
    status: Arc<FollowStatus>,
    /// The block of the last file.
    written: Option<Hash>,
}

impl SnapshotThread {
    pub(crate) fn start(
        config: SnapshotConfig,
        network: Network,
        reader: ChainReader,
        status: Arc<FollowStatus>,
    ) -> io::Result<Self> {
        let (stop, stopped) = sync_channel(0);
        let writer = SnapshotWriter { config, network, reader, status, written: None };
        let thread = std::thread::Builder::new().name("kaspa-snapshot".into());
        let thread = thread.spawn(move || writer.run(&stopped))?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread. A write that has not finished is discarded.
    pub(crate) fn stop(self) {
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
    }

    fn write_if_changed(&mut self, stopped: &Receiver<()>) {
        let view = self.reader.utxos.view(Commitment::Finalized);
        let info = view.meta();
        if self.written == Some(info.hash) {
            return;
        }
        let is_stopped = || stopped.try_recv() == Err(TryRecvError::Disconnected);
        match write_snapshot(&self.config.path, self.network, &view, &is_stopped) {
            Ok(()) => {
                self.written = Some(info.hash);
                self.status.record_snapshot(info.daa_score);
                tracing::info!(block = %info.hash, utxos = info.supply.utxos, "wrote the snapshot file");
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted && is_stopped() => {}
            Err(error) => {
                let error = format!("{}: {}", self.config.path.display(), describe_error(&error));
                tracing::error!("the snapshot file was not written: {error}");
                self.status.set_snapshot_error(error);
            }
        }
    }
}
