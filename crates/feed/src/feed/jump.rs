//! A block that no source sent: the state of an archive, which closes a gap.
//!
//! Input: detached sessions, which start above the root and have waiting banks; the block of an archive. Output: the
//! block is the tip, on the confirmed bank, and the banks that waited for it follow. It is confirmed and final once it
//! is approved: these banks may show that it is not of their chain, and then it is retracted.
//! Invariant: a bank is reported only if the session has all of it. A child of a block is made after the block's meta,
//! so a session that has the meta has all children.

use std::time::Instant;

use ledger::{BlockId, Slot};
use solana_hash::Hash;

use super::Feed;
use crate::event::{DropReason, Event, GapReason};
use crate::session::Session;

impl<A: Clone, T, M> Feed<A, T, M> {
    pub(super) fn joinable_from(&self) -> Option<Slot> {
        let detached = self.sessions.values().filter(|session| session.is_detached);
        detached.filter_map(Session::first_meta).min()
    }

    /// Adds a block that no source sent, as a child of the confirmed bank. All banks that do not lead to it are removed,
    /// and it becomes the tip. It is confirmed and the root once it is approved, as any bank, but needs no status of a
    /// source: an archive is made of final blocks. Sessions that have the block's meta continue from it, all others end
    /// with a gap. `None`, and nothing happens, if the block is not above the confirmed bank.
    pub fn jump(&mut self, slot: Slot, blockhash: Hash, now: Instant) -> Option<BlockId> {
        let from = self.confirmed;
        if slot <= from.slot {
            return None;
        }
        let left = self.tree.subtree(from).into_iter().filter(|bank| *bank != from);
        for bank in left.chain(self.tree.on_other_forks(from)) {
            self.drop_bank(bank, DropReason::Abandoned);
        }
        let to = self.tree.reserve(slot);
        self.tree.add(to, from, blockhash);
        self.tip = to;
        self.jumped = Some(to);
        self.events.extend([Event::Jumped { from, to }, Event::Tip(to)]);
        let mut ended = Vec::new();
        for (source, session) in &mut self.sessions {
            if session.has_meta(slot, &blockhash) {
                self.stats.unreported_banks += session.prune(slot);
                session.join(slot);
            } else {
                ended.push(*source);
            }
        }
        for source in ended {
            self.end_session(source, slot, GapReason::Jumped { slot });
        }
        while self.apply_jump() {}
        self.settle(now);
        Some(to)
    }

    /// Confirms the block of an archive, or makes it the root, once that is approved. Returns false if neither is.
    pub(super) fn apply_jump(&mut self) -> bool {
        let Some(jumped) = self.jumped else { return false };
        if !self.tree.contains(jumped) {
            self.jumped = None;
            return false;
        }
        let is_confirmed = self.tree.is_on_chain(jumped, self.confirmed);
        if !is_confirmed && self.tree.is_on_chain(self.confirmed, jumped) {
            let is_approved = self.approval.allows(jumped, false);
            if is_approved {
                self.confirm(jumped);
            }
            return is_approved;
        }
        let is_final = is_confirmed && self.approval.allows(jumped, true);
        if is_final {
            self.jumped = None;
            self.set_root(jumped);
        }
        is_final
    }
}
