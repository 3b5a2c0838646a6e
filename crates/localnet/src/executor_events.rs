//! Publishes the changes of the open block to readers, and sends events to the sinks.
//!
//! Invariant: readers see a change before its event is sent.
//! Not here: the events of a completed block (`executor_blocks`).

use std::sync::Arc;

use chain_solana::{AccountUpdate, Block, BlockInfo, ExecutedTransaction, LedgerEvent};
use ledger::BlockId;

use crate::executor::{Executor, now, unix_time};
use crate::executor_metrics::Phase;

impl Executor {
    /// Publishes the executed transactions to readers, then sends their events.
    pub(crate) fn publish(&mut self) {
        let started_at = now();
        self.ledger.publish();
        self.account_bytes.set_bytes(self.ledger.record_bytes());
        let executed = std::mem::take(&mut self.unpublished);
        if !executed.is_empty() {
            self.history.record_transactions(self.builder.id(), &executed);
            self.history.publish();
        }
        if let Some(vote) = self.unpublished_vote.take() {
            self.emit(&LedgerEvent::Voted([vote].into()));
        }
        if let Some(updates) = self.unpublished_updates.as_mut().filter(|all| !all.is_empty()) {
            let mut updates = std::mem::take(updates);
            set_executed(&mut updates, &executed);
            let block = self.builder.id();
            let updates = updates.into();
            self.emit(&LedgerEvent::AccountsWritten { block, updates });
        }
        if !executed.is_empty() {
            self.emit(&LedgerEvent::Executed(executed.into()));
            self.builder.record_entries();
        }
        for (reply, slot) in self.unpublished_bundles.drain(..) {
            reply.send(Ok(slot));
        }
        self.metrics.add(Phase::Publish, now() - started_at);
    }

    /// Publishes the opening of a block, and sends its event.
    pub(crate) fn publish_opening(&mut self, parent: BlockId) {
        self.ledger.publish();
        let block = self.builder.bank.block;
        let root = self.finalized_slot;
        let timestamp_ms = unix_time().as_millis() as u64;
        self.emit(&LedgerEvent::BankCreated { block, parent, root, timestamp_ms });
        self.publish();
    }

    pub(crate) fn emit(&mut self, event: &LedgerEvent) {
        let is_update = matches!(event, LedgerEvent::AccountsWritten { .. });
        for sink in &mut self.sinks {
            if !is_update || sink.needs_account_updates() {
                sink.send(event);
            }
        }
    }

    /// Sends the event of a block whose writes have ended.
    pub(crate) fn emit_frozen(&mut self, block: &Arc<Block>, bank: BlockInfo) {
        let timestamp_ms = unix_time().as_millis() as u64;
        let info = Arc::new(bank);
        self.emit(&LedgerEvent::Frozen { block: Arc::clone(block), info, timestamp_ms });
    }
}

/// Sets the transactions of writes. Both are in the order of execution.
fn set_executed(updates: &mut [AccountUpdate], executed: &[Arc<ExecutedTransaction>]) {
    let mut executed = executed.iter().peekable();
    for update in updates {
        let Some(signature) = update.signature else { continue };
        while executed.next_if(|it| it.signature() != signature).is_some() {}
        update.executed = executed.peek().map(|it| Arc::clone(it));
    }
}
