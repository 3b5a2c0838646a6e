//! Banks that became the tip are queued for their execution, with the state of their parents.
//!
//! The threads read accounts from a published view, which is that of the newest of these banks. So each bank takes the
//! states with it that it and the banks after it replaced.
//! Cost: a lookup for each account that an admitted bank wrote, while no reader waits (`run_deferred`).

use std::collections::BTreeSet;
use std::sync::Arc;

use ledger::{BlockId, Commitment};

use super::Writer;
use crate::execution::{BankToExecute, StatesBefore};
use crate::execution_status::BankResult;

impl Writer {
    /// Queues those banks that are to be executed, the oldest first. A bank on a fork that was left is not executed.
    pub(super) fn queue_executions(&mut self, banks: Vec<BlockId>) {
        let Some(execution) = self.execution.as_mut().filter(|_| !banks.is_empty()) else { return };
        let mut awaited = BTreeSet::new();
        for id in banks {
            let Some(frozen) = self.banks.get(&id) else {
                execution.skip(BankResult::LeftFork);
                continue;
            };
            if execution.admits(frozen.block.transactions.len(), self.now) {
                awaited.insert(id);
            }
        }
        if awaited.is_empty() {
            return;
        }
        let view = Arc::new(self.reader.view(Commitment::Processed));
        let mut at = view.block();
        // The states that the banks from `at` up to the view's replaced, the newest bank first.
        let mut replaced = Vec::new();
        let mut queued = Vec::new();
        while !awaited.is_empty() {
            let Some(frozen) = self.banks.get(&at) else { break };
            // The ledger has no states below its root.
            let Some(parent) = self.banks.get(&frozen.block.parent) else { break };
            replaced.push(Arc::new(StatesBefore::read(&self.ledger, &frozen.block)));
            if awaited.remove(&at) {
                queued.push(BankToExecute {
                    block: Arc::clone(&frozen.block),
                    parent: Arc::clone(&parent.info),
                    before: replaced.iter().rev().map(Arc::clone).collect(),
                    view: Arc::clone(&view),
                });
            }
            at = frozen.block.parent;
        }
        queued.into_iter().rev().for_each(|bank| execution.push(bank));
        awaited.iter().for_each(|_| execution.skip(BankResult::LeftFork));
    }
}
