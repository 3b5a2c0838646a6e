//! A running replica, and the times at which its blocks became visible.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chain_solana::{EventSink, HistoryLimits, LedgerEvent, Reader};
use depot::Depot;
use ledger::Slot;
use parking_lot::Mutex;
use replica::{Replica, ReplicaConfig, ReplicaHandle, ReplicaStatus};
use replicated_log::LogSpace;
use testkit::clock::now;

use crate::log_writer::{CLUSTER, ledger_config};

/// Time limit of a replica to reach a block.
const TIMEOUT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The times at which blocks became the tip.
#[derive(Clone, Default)]
struct TipTimes(Arc<Mutex<HashMap<Slot, Instant>>>);

impl EventSink for TipTimes {
    fn send(&mut self, event: &LedgerEvent) {
        if let LedgerEvent::TipMoved { block } = event {
            self.0.lock().insert(block.slot, now());
        }
    }
}

/// A replica of the log.
pub(crate) struct Follower {
    handle: ReplicaHandle,
    status: Arc<ReplicaStatus>,
    pub(crate) reader: Reader,
    times: TipTimes,
}

impl Follower {
    /// Loads the snapshot, and follows the log.
    pub(crate) async fn start(space: Arc<dyn LogSpace>, depot: Depot) -> Result<Self> {
        let history = HistoryLimits { blocks_max: 10_000, bytes_max: 1 << 30 };
        let config = ReplicaConfig::new(CLUSTER, ledger_config(), history);
        let replica = Replica::load(config, space, depot).await?;
        let status = Arc::clone(replica.status());
        let reader = replica.reader().clone();
        let times = TipTimes::default();
        let handle = replica.start(vec![Box::new(times.clone())])?;
        Ok(Self { handle, status, reader, times })
    }

    /// Waits until a block is visible.
    pub(crate) async fn wait_for(&self, slot: Slot) -> Result<()> {
        let began = now();
        while self.status.processed_slot() < slot {
            ensure!(!self.handle.is_finished(), "the replica ended");
            let fault = self.status.last_fault();
            ensure!(began.elapsed() < TIMEOUT, "slot {slot} is not shown: {fault:?}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns when a block became visible.
    pub(crate) fn shown_at(&self, slot: Slot) -> Option<Instant> {
        self.times.0.lock().get(&slot).copied()
    }

    pub(crate) fn stop(self) -> Result<()> {
        Ok(self.handle.stop()?)
    }
}
