//! The thread that writes the snapshot file at an interval, while the ledger is served, and once more at its end.
//!
//! Bounds: one view of the newest final block is held while its file is written.
//! A file is written only if the final block is another one than at the last write, or than the one that the chain started
//! at. A write that fails is reported and tried again after the interval.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
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
    /// The block of the last file, or of the file that the chain was loaded from.
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
        // A chain starts from its file if that exists.
        let written = config.path.exists().then(|| reader.status().root.hash);
        let writer = SnapshotWriter { config, network, reader, status, written };
        let thread = std::thread::Builder::new().name("kaspa-snapshot".into());
        let thread = thread.spawn(move || writer.run(&stopped))?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread, after the file of the newest final block is written.
    pub(crate) fn stop(self) {
        drop(self.stop);
        // A panic was reported by its thread; the file of before is still there.
        let _ = self.thread.join();
    }
}

impl SnapshotWriter {
    fn run(mut self, stopped: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(self.config.interval) {
            self.write_if_changed();
        }
        self.write_if_changed();
    }

    fn write_if_changed(&mut self) {
        let view = self.reader.utxos.view(Commitment::Finalized);
        let info = view.meta();
        if self.written == Some(info.hash) {
            return;
        }
        match write_snapshot(&self.config.path, self.network, &view) {
            Ok(()) => {
                self.written = Some(info.hash);
                self.status.record_snapshot(info.daa_score);
                tracing::info!(block = %info.hash, utxos = info.supply.utxos, "wrote the snapshot file");
            }
            Err(error) => {
                let error = format!("{}: {}", self.config.path.display(), describe_error(&error));
                tracing::error!("the snapshot file was not written: {error}");
                self.status.set_snapshot_error(error);
            }
        }
    }
}
