//! The metrics of a Solana ledger: its slots, health, history and memory.

use std::sync::Arc;

use ::metrics::{Collector, Exposition, MetricKind};
use chain_solana::{History, Reader, Verification};
use cpu_pool::Pool;
use jsonrpc::{Health, Status};

use crate::NodeMemory;

/// Collects the metrics of a ledger. Memory is measured by a walk over the ledger.
pub(crate) struct LedgerMetrics {
    pub(crate) reader: Reader,
    pub(crate) history: Arc<History>,
    pub(crate) verification: Arc<dyn Verification>,
    pub(crate) health: Arc<Health>,
    /// The pool, which shares its clock with `health`.
    pub(crate) pool: Arc<Pool>,
}

impl Collector for LedgerMetrics {
    fn write(&self, exposition: &mut Exposition) {
        let views = self.reader.views();
        let levels = [
            ("processed", &views.processed),
            ("confirmed", &views.confirmed),
            ("finalized", &views.finalized),
        ];
        let mut family = exposition.family(
            "hydrant_slot",
            MetricKind::Gauge,
            "Slot of the state, by commitment.",
        );
        for (level, view) in levels {
            family.put(&[("commitment", level)], view.block().slot);
        }
        let help = "Blocks since genesis.";
        let mut family = exposition.family("hydrant_block_height", MetricKind::Gauge, help);
        for (level, view) in levels {
            family.put(&[("commitment", level)], view.meta().block_height);
        }
        let help = "Transactions since genesis.";
        let mut family = exposition.family("hydrant_transactions_total", MetricKind::Counter, help);
        for (level, view) in levels {
            family.put(&[("commitment", level)], view.meta().transaction_count);
        }
        let help = "Time since the slot last changed.";
        let mut family = exposition.family("hydrant_slot_age_seconds", MetricKind::Gauge, help);
        let ages = self.health.slot_ages(self.pool.now());
        for ((level, _), age) in levels.into_iter().zip(ages.into_iter().flatten()) {
            family.put(&[("commitment", level)], age.as_secs_f64());
        }
        let status = self.health.status();
        let help = "1 if /ready reports that the node can serve requests, otherwise 0.";
        let is_ready = status == Status::Ok && !self.health.has_announced_end();
        exposition.single("hydrant_ready", MetricKind::Gauge, help, u8::from(is_ready));
        let behind = match status {
            Status::Ok => 0.0,
            Status::Behind { slots } => slots as f64,
            Status::Unknown => f64::NAN,
        };
        let help = "Slots by which the state is behind; NaN if unknown.";
        exposition.single("hydrant_slots_behind", MetricKind::Gauge, help, behind);
        let verification = self.verification.summary();
        if let (Some(slot), Some(level)) = (verification.verified_slot, verification.required) {
            let help =
                "The newest slot whose bank hash has the required level, which the label names.";
            let name = "hydrant_verified_slot";
            let mut family = exposition.family(name, MetricKind::Gauge, help);
            family.put(&[("level", level.name())], slot);
        }
        let help = "Banks whose hash is not the reported one, after a repair.";
        let mismatches = verification.mismatched_banks;
        let name = "hydrant_mismatched_banks_total";
        exposition.single(name, MetricKind::Counter, help, mismatches);
        let history = self.history.snapshot();
        if let Some(first) = history.first_slot() {
            let help = "First slot of the retained history.";
            exposition.single("hydrant_history_first_slot", MetricKind::Gauge, help, first);
        }
        let addresses = self.reader.addresses().len();
        exposition.single("hydrant_addresses", MetricKind::Gauge, "Known addresses.", addresses);
        let accounts = views.processed.len();
        let help = "Accounts in the state.";
        exposition.single("hydrant_accounts", MetricKind::Gauge, help, accounts);
    }

    fn memory(&self) -> Vec<(&'static str, u64)> {
        let usage = NodeMemory::new(&self.reader, &self.history);
        let bytes = usage.ledger;
        vec![
            ("addresses", bytes.addresses as u64),
            ("indices", bytes.indices as u64),
            ("packed", bytes.packed as u64),
            ("unpacked_records", bytes.unpacked as u64),
            ("ranks", bytes.ranks as u64),
            ("history", usage.history_bytes),
        ]
    }
}
