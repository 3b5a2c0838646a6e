//! The running follower as the ledger of a node: its health, its end, its memory.

use std::fmt;
use std::sync::Arc;

use anyhow::Result;
use chain_kaspa::ChainReader;
use follow_kaspa::{FollowHandle, FollowStatus};
use indicatif::{HumanBytes, HumanCount};
use jsonrpc::{Health, Status};
use ledger::{Commitment, Slot};
use metrics::{Collector, Exposition, MetricKind};
use process_usage::Process;
use query::LedgerMemory;
use store::Directory;

use crate::node::composed::RunningLedger;
use crate::process_memory::MeasuredLedger;

/// A followed chain, whose follower is running.
pub(super) struct FollowedKaspa {
    pub(super) handle: FollowHandle,
    pub(super) status: Arc<FollowStatus>,
    /// The directory of the snapshot file. `None`: the UTXO set is not stored.
    pub(super) ledger_lock: Option<Directory>,
}

impl RunningLedger for FollowedKaspa {
    fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// A follower without a source is alive: a restart would not bring the source back.
    fn poll_health(&mut self, health: &Health) -> bool {
        let problem = self.status.problem();
        health.set(if problem.is_none() { Status::Ok } else { Status::Unknown });
        health.set_reason(problem);
        true
    }

    fn stop(self: Box<Self>) -> Result<()> {
        let Self { handle, ledger_lock, .. } = *self;
        let stopped = handle.stop();
        // Only now: the end writes the snapshot file, or renames it.
        drop(ledger_lock);
        Ok(stopped?)
    }
}

/// The UTXO set of a node, for metrics and reports.
pub(super) struct UtxoLedger {
    pub(super) reader: ChainReader,
    pub(super) health: Arc<Health>,
}

/// The memory of the UTXO set and of the history at one point in time.
pub(super) struct UtxoMemory {
    /// Addresses of the ledger: scripts, and UTXOs outside of their script's record.
    addresses: usize,
    records: usize,
    ledger: LedgerMemory,
    history_bytes: usize,
}

impl UtxoLedger {
    /// Measures the memory. Cost: O(bytes / 1,024), so not for a thread that polls sockets.
    pub(super) fn measure(&self) -> UtxoMemory {
        UtxoMemory {
            addresses: self.reader.utxos.addresses().len(),
            records: self.reader.utxos.view(Commitment::Processed).len(),
            ledger: self.reader.utxos.bytes(),
            history_bytes: self.reader.history().bytes(),
        }
    }
}

impl Collector for UtxoLedger {
    fn write(&self, exposition: &mut Exposition) {
        let is_ready = self.health.status() == Status::Ok && !self.health.has_announced_end();
        let help = "1 if /ready reports that the node can serve requests, otherwise 0.";
        exposition.single("hydrant_ready", MetricKind::Gauge, help, u8::from(is_ready));
        let addresses = self.reader.utxos.addresses().len();
        exposition.single("hydrant_addresses", MetricKind::Gauge, "Known addresses.", addresses);
        let records = self.reader.utxos.view(Commitment::Processed).len();
        let help = "Records of scripts, and of UTXOs outside of their script's record.";
        exposition.single("hydrant_kaspa_records", MetricKind::Gauge, help, records);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        // The history is a part of the follower's status.
        let bytes = self.reader.utxos.bytes();
        vec![
            ("addresses", bytes.addresses as u64),
            ("indices", bytes.indices as u64),
            ("packed", bytes.packed as u64),
            ("unpacked_records", bytes.unpacked as u64),
            ("ranks", bytes.ranks as u64),
        ]
    }
}

impl MeasuredLedger for UtxoLedger {
    fn root(&self) -> Slot {
        self.reader.utxos.version_and_block(Commitment::Finalized).1.slot
    }

    fn log_memory(&self) {
        let memory = self.measure();
        tracing::info!(
            addresses_bytes = memory.ledger.addresses,
            indices_bytes = memory.ledger.indices,
            packed_bytes = memory.ledger.packed,
            unpacked_bytes = memory.ledger.unpacked,
            history_bytes = memory.history_bytes,
            resident_bytes = Process::current().resident_bytes().ok(),
            "memory: {memory}"
        );
    }
}

impl fmt::Display for UtxoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |bytes: usize| HumanBytes(bytes as u64);
        write!(
            f,
            "addresses {} ({}), indices {}, records {} packed and {} unpacked ({}), history {}",
            bytes(self.ledger.addresses),
            HumanCount(self.addresses as u64),
            bytes(self.ledger.indices),
            bytes(self.ledger.packed),
            bytes(self.ledger.unpacked),
            HumanCount(self.records as u64),
            bytes(self.history_bytes),
        )
    }
}
