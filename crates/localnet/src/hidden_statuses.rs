//! Executed transactions whose status is hidden, until time shows it (`chain_solana::StatusVisibility`).
//!
//! In: transactions in the order of execution, the newest complete slot, and the time. Out: statuses that are shown.
//! A client subscribes and asks some milliseconds after its transaction was executed, so a status is hidden for at
//! least [`HIDDEN_MIN`], and until its block is complete. A block that takes long (a paused clock, long slots) does
//! not hide it for longer than [`HIDDEN_MAX`]. On Agave a status appears with its block, 139 to 992 ms after sending.
//! Bounds: [`COUNT_MAX`] transactions, which history holds as well; beyond it the oldest is shown early.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chain_solana::ExecutedTransaction;
use ledger::Slot;

/// Time after execution in which a status is hidden, even if its block is complete. Shorter, and clients on a busy
/// machine request the status too late; longer, and clients that poll wait for longer.
const HIDDEN_MIN: Duration = Duration::from_millis(100);
/// Time after execution in which a status is hidden while its block is open: a usual slot.
const HIDDEN_MAX: Duration = Duration::from_millis(400);
/// Statuses that become due within this time are shown together.
const SHOWN_TOGETHER: Duration = Duration::from_millis(5);
/// Transactions whose status may be hidden.
const COUNT_MAX: usize = 65_536;

/// The hidden statuses, the oldest first.
#[derive(Default)]
pub(crate) struct HiddenStatuses {
    waiting: VecDeque<HiddenStatus>,
    /// The slot of the newest complete block.
    complete_slot: Slot,
}

struct HiddenStatus {
    executed: Arc<ExecutedTransaction>,
    executed_at: Instant,
}

impl HiddenStatuses {
    /// Hides the status of a transaction that was executed.
    pub(crate) fn push(&mut self, executed: &Arc<ExecutedTransaction>, executed_at: Instant) {
        if self.waiting.len() >= COUNT_MAX {
            self.show_oldest();
        }
        self.waiting.push_back(HiddenStatus { executed: Arc::clone(executed), executed_at });
    }

    /// Sets the slot of the newest complete block.
    pub(crate) fn set_complete(&mut self, slot: Slot) {
        self.complete_slot = slot;
    }

    /// Shows the statuses that are due.
    pub(crate) fn show_due(&mut self, now: Instant) {
        while self.next_due().is_some_and(|due| due <= now + SHOWN_TOGETHER) {
            self.show_oldest();
        }
    }

    pub(crate) fn show_all(&mut self) {
        while !self.waiting.is_empty() {
            self.show_oldest();
        }
    }

    /// Returns when the oldest status is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let HiddenStatus { executed, executed_at } = self.waiting.front()?;
        let is_complete = executed.slot <= self.complete_slot;
        Some(*executed_at + if is_complete { HIDDEN_MIN } else { HIDDEN_MAX })
    }

    fn show_oldest(&mut self) {
        if let Some(HiddenStatus { executed, .. }) = self.waiting.pop_front() {
            executed.show_status();
        }
        if self.waiting.is_empty() {
            self.waiting.shrink_to(1_024); // frees the memory of a burst
        }
    }
}

#[cfg(test)]
mod tests {
    use chain_solana::StatusVisibility;
    use solana_transaction::versioned::VersionedTransaction;
    use solana_transaction_status::TransactionStatusMeta;

    use super::*;

    fn build_executed(slot: Slot) -> Arc<ExecutedTransaction> {
        Arc::new(ExecutedTransaction {
            slot,
            index: 0,
            block_time: 0,
            transaction: VersionedTransaction::default(),
            meta: TransactionStatusMeta::default(),
            account_keys: Vec::new(),
            is_vote: false,
            visibility: StatusVisibility::hidden(),
        })
    }

    fn start() -> Instant {
        crate::executor::now()
    }

    #[test]
    fn a_status_is_hidden_until_its_block_is_complete() {
        let start = start();
        let mut hidden = HiddenStatuses::default();
        let first = build_executed(5);
        let second = build_executed(6);
        hidden.push(&first, start);
        hidden.push(&second, start + HIDDEN_MIN);
        hidden.show_due(start + HIDDEN_MIN * 2);
        assert!(!first.has_status() && !second.has_status());
        hidden.set_complete(5);
        hidden.show_due(start + HIDDEN_MIN * 2);
        assert!(first.has_status() && !second.has_status());
    }

    #[test]
    fn a_status_of_a_complete_block_is_hidden_for_a_moment() {
        let start = start();
        let mut hidden = HiddenStatuses::default();
        let executed = build_executed(5);
        hidden.push(&executed, start);
        hidden.set_complete(5);
        hidden.show_due(start);
        assert!(!executed.has_status());
        assert_eq!(hidden.next_due(), Some(start + HIDDEN_MIN));
        hidden.show_due(start + HIDDEN_MIN);
        assert!(executed.has_status());
        assert_eq!(hidden.next_due(), None);
    }

    #[test]
    fn a_block_that_stays_open_hides_a_status_for_a_slot() {
        let start = start();
        let mut hidden = HiddenStatuses::default();
        let executed = build_executed(5);
        hidden.push(&executed, start);
        assert_eq!(hidden.next_due(), Some(start + HIDDEN_MAX));
        hidden.show_due(start + HIDDEN_MAX);
        assert!(executed.has_status());
    }

    #[test]
    fn one_hidden_status_too_many_shows_the_oldest() {
        let start = start();
        let mut hidden = HiddenStatuses::default();
        let first = build_executed(5);
        let other = build_executed(5);
        hidden.push(&first, start);
        (0..COUNT_MAX).for_each(|_| hidden.push(&other, start));
        assert!(first.has_status() && !other.has_status());
        assert_eq!(hidden.waiting.len(), COUNT_MAX);
        hidden.show_all();
        assert!(other.has_status());
    }
}
