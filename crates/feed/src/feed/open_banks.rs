//! What is there of open banks, for a caller that prepares them before they are whole.
//!
//! In: the name of an open bank. Out: accounts that were not written for a while, and transactions without a gap.
//! Invariant: an open bank may end at any time without an event, or turn out to have another parent. The caller asks
//! [`Feed::is_open`] after each call, and discards what it has prepared of a bank that is neither open nor reported.
//! Bounds: those of the session. Nothing is copied here that the open bank does not hold.

use ledger::BlockId;
use solana_pubkey::Pubkey;

use super::Feed;
use crate::account_writes::LastWrite;
use crate::assembly::Assembly;
use crate::bank::OpenId;
use crate::config::FeedConfig;

impl<A, T, M> Feed<A, T, M> {
    /// The open banks that the sources have created, by source and slot. Those of a source that began above the root are
    /// not among them.
    ///
    /// Cost: O(slots above the root).
    pub fn open_banks(&self) -> impl Iterator<Item = OpenId> {
        let sessions = self.sessions.iter().filter(|(_, session)| !session.is_detached);
        sessions.flat_map(|(source, session)| {
            session.slots.iter().flat_map(move |(slot, entry)| {
                let created = entry.open.iter().filter(|bank| bank.is_created);
                let (source, slot) = (*source, *slot);
                created.map(move |bank| OpenId { source, slot, number: bank.number })
            })
        })
    }

    /// Whether a bank is open, or is whole and waits for its parent.
    pub fn is_open(&self, open: OpenId) -> bool {
        self.assembly(open).is_some()
    }

    /// Reserves the id that an open bank will be reported with, and makes all of its accounts pending again. Returns the
    /// same id for each call.
    pub fn reserve_block(&mut self, open: OpenId) -> Option<BlockId> {
        let reserved = self.assembly(open)?.reserved;
        let id = reserved.unwrap_or_else(|| self.tree.reserve(open.slot));
        let bank = self.assembly_mut(open)?;
        bank.reserved = Some(id);
        bank.reset_drained();
        Some(id)
    }

    /// An account as an open bank wrote it last.
    pub fn open_account(&self, open: OpenId, pubkey: &Pubkey) -> Option<&A> {
        Some(&self.assembly(open)?.accounts.get(pubkey)?.write.account)
    }

    /// Removes and returns the accounts that an open bank has first written since the last call.
    pub fn drain_first_writes(&mut self, open: OpenId) -> Vec<Pubkey> {
        self.assembly_mut(open).map(Assembly::drain_first_writes).unwrap_or_default()
    }

    /// Removes and returns the accounts that an open bank has not written for [`FeedConfig::quiescent_after`] writes, or for
    /// `more_after` if that is more. An account that is written after it was drained is drained again, or is pending in
    /// the whole bank.
    pub fn drain_quiescent(&mut self, open: OpenId, more_after: u64) -> Vec<LastWrite<A>>
    where
        A: Clone,
    {
        let FeedConfig { quiescent_after, hot_quiescent_after, .. } = self.config;
        let [quiescent_after, again_after] = match quiescent_after {
            0 => [0, 0],
            _ => [quiescent_after, hot_quiescent_after].map(|after| after.max(more_after)),
        };
        let Some(bank) = self.assembly_mut(open) else { return Vec::new() };
        let quiescent = bank.drain_quiescent(quiescent_after, again_after);
        let last_write = |pubkey: &Pubkey| Some(bank.accounts.get(pubkey)?.write.clone());
        quiescent.iter().filter_map(last_write).collect()
    }

    /// The transactions of an open bank from an index on, up to the first that is missing.
    pub fn open_transactions(&mut self, open: OpenId, first: u64) -> impl Iterator<Item = &mut T> {
        self.assembly_mut(open).into_iter().flat_map(move |bank| bank.transactions_from(first))
    }

    fn assembly(&self, open: OpenId) -> Option<&Assembly<A, T, M>> {
        let entry = self.sessions.get(&open.source)?.slots.get(&open.slot)?;
        entry.open.iter().find(|bank| bank.number == open.number)
    }

    fn assembly_mut(&mut self, open: OpenId) -> Option<&mut Assembly<A, T, M>> {
        let entry = self.sessions.get_mut(&open.source)?.slots.get_mut(&open.slot)?;
        entry.open.iter_mut().find(|bank| bank.number == open.number)
    }
}
