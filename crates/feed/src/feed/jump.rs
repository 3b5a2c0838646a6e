//! A root that no source sent: the state of an archive, which closes a gap.
//!
//! Input: detached sessions, which start above the root and have waiting banks; the block of an archive. Output: the
//! banks above the root are confirmed or removed, the root is that block, and the banks that waited for it follow.
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

    /// Makes a block the root that no source sent. The confirmed bank, its parent here, becomes the root before it, and
    /// all other banks are removed. Sessions that do not have the block's meta end with a gap. `None`, and nothing
    /// happens, if the block is not above the confirmed bank.
    pub fn jump(&mut self, slot: Slot, blockhash: Hash, now: Instant) -> Option<BlockId> {
        let from = self.confirmed;
        if slot <= from.slot {
            return None;
        }
        self.set_root(from);
        for bank in self.tree.subtree(from).into_iter().filter(|bank| *bank != from) {
            self.drop_bank(bank, DropReason::Abandoned);
        }
        let to = self.tree.reserve(slot);
        self.tree.add(to, from, blockhash);
        (self.confirmed, self.tip) = (to, to);
        self.events.push_back(Event::Jumped { from, to });
        self.tree.set_root(to);
        self.votes.prune(slot);
        self.approval.prune(to);
        let mut ended = Vec::new();
        for (source, session) in &mut self.sessions {
            if session.has_meta(slot, &blockhash) {
                self.stats.unreported_banks += session.prune(slot);
                session.attach();
            } else {
                ended.push(*source);
            }
        }
        for source in ended {
            self.end_session(source, slot, GapReason::Jumped { slot });
        }
        self.settle(now);
        Some(to)
    }
}
