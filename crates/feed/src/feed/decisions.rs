//! Decisions of the caller about banks.
//!
//! Input: banks that the caller approves or retracts, votes, the highest slot that may be a root, and open banks that
//! the caller prepares. Output: the tip that the votes choose, and the statuses that waited for a decision; or the
//! bank's removal, and a gap, so that a new session sends the bank again; or the accounts of the open bank.

use ledger::BlockId;

use super::Feed;
use crate::decision::{Decision, LandedVote};
use crate::event::{DropReason, GapReason};

impl<A: Clone, T, M> Feed<A, T, M> {
    /// Applies a decision. Its effects are events.
    pub fn apply(&mut self, decision: Decision) {
        match decision {
            Decision::Approve(bank) => {
                let banks = self.tree.above(self.tree.root(), bank);
                if self.approval.insert(banks) {
                    self.apply_statuses();
                }
            }
            Decision::Retract(bank) => self.retract(bank),
            Decision::LimitRoot(root_max) => {
                if self.approval.set_root_max(root_max) {
                    self.apply_statuses();
                }
            }
            Decision::CountVotes(votes) => self.count_votes(&votes),
            Decision::Prepare(bank) => self.prepare(bank),
            Decision::StopPreparing(bank) => self.stop_preparing(bank),
        }
    }

    fn retract(&mut self, bank: BlockId) {
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

    fn count_votes(&mut self, votes: &[LandedVote]) {
        let root = self.tree.root().slot;
        let mut is_new = false;
        for vote in votes.iter().filter(|vote| vote.slot > root) {
            is_new |= self.votes.record(vote);
        }
        if is_new {
            self.move_tip();
        }
    }

    fn apply_statuses(&mut self) {
        while self.apply_one_status() {}
        self.move_tip();
    }
}
