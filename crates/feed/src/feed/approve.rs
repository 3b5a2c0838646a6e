//! What the caller says of a bank before it may be confirmed or become the root.
//!
//! In: banks that the caller approves or retracts, and the highest slot that may be a root. Out: the statuses that waited
//! for it; or the bank's removal, and a gap, so that a new session sends the bank again.

use ledger::{BlockId, Slot};

use super::Feed;
use crate::event::{DropReason, GapReason};

impl<A, T, M> Feed<A, T, M> {
    /// A bank, and with it its ancestors, may be confirmed and become the root
    /// ([`FeedConfig::needs_approval`](crate::FeedConfig::needs_approval)).
    pub fn approve(&mut self, bank: BlockId) {
        let banks = self.tree.above(self.tree.root(), bank);
        if self.approval.insert(banks) {
            self.apply_statuses();
        }
    }

    /// Banks above this slot do not become the root. Without a limit the sources' roots decide alone.
    pub fn set_root_max(&mut self, root_max: Option<Slot>) {
        if self.approval.set_root_max(root_max) {
            self.apply_statuses();
        }
    }

    /// Takes back a bank that is wrong, with its descendants: they are removed, and every session ends with a gap. The
    /// next session may report the bank again. Nothing happens if the bank is not above the root, or is confirmed.
    pub fn retract(&mut self, bank: BlockId) {
        if !self.is_droppable(bank) {
            return;
        }
        for bank in self.tree.subtree(bank) {
            self.drop_bank(bank, DropReason::Replaced);
            self.tree.forget_end(bank.slot);
        }
        let sources: Vec<_> = self.sessions.keys().copied().collect();
        for source in sources {
            self.end_session(source, bank.slot, GapReason::Retracted);
        }
        self.move_tip();
    }

    fn apply_statuses(&mut self) {
        while self.apply_one_status() {}
        self.move_tip();
    }
}
