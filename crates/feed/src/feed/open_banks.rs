//! Open banks, for a caller that prepares them before they are whole.
//!
//! Input: the end of each batch of updates, and the caller's decisions to prepare banks. Output: [`Event::Opened`],
//! [`Event::FirstWrites`], [`Event::Quiescent`] and [`Event::Ended`].
//! Invariant: each opened bank has one end: [`Event::Bank`] with its id, or [`Event::Ended`]. The accounts of the
//! quiescent events and [`Bank::pending`](crate::Bank::pending) are all accounts of a prepared bank.
//! Bounds: those of the sessions. Events copy the accounts that they name, and no transactions.

use std::collections::BTreeMap;

use ledger::BlockId;
use solana_sdk_ids::sysvar;

use super::Feed;
use crate::assembly::Assembly;
use crate::bank::OpenBank;
use crate::config::FeedConfig;
use crate::event::Event;
use crate::opened_banks::OpenedBank;
use crate::session::Session;
use crate::update::SourceId;

/// A batch of at least this many updates means that the source catches up. An account is then quiescent only once
/// [`QUIESCENT_BATCHES`] such batches have not written it, so that it is reported less often.
const LARGE_BATCH_LEN: u64 = 128;
const QUIESCENT_BATCHES: u64 = 3;

impl<A: Clone, T, M> Feed<A, T, M> {
    /// Reports open banks: those that ended, those that are new, and the accounts of those that the caller prepares.
    /// Call it after each batch of updates, with their number.
    ///
    /// Cost: O(slots above the root + accounts in the events).
    pub fn handle_batch_end(&mut self, batch_len: u64) {
        self.opened.batch_len = batch_len;
        self.report_ended();
        self.report_opened();
        let prepared = self.opened.banks.iter().filter(|(_, opened)| opened.is_prepared);
        let prepared: Vec<_> = prepared.map(|(bank, _)| *bank).collect();
        prepared.into_iter().for_each(|bank| self.report_accounts(bank));
    }

    /// Returns the transactions of an opened bank from an index on, up to the first that is missing.
    pub fn open_transactions(&mut self, bank: BlockId, first: u64) -> impl Iterator<Item = &mut T> {
        let opened = self.opened.banks.get(&bank);
        let assembly = opened.and_then(|opened| find_open(&mut self.sessions, opened.source, bank));
        assembly.into_iter().flat_map(move |assembly| assembly.transactions_from(first))
    }

    /// Starts to report the accounts of an opened bank, from its first write on.
    pub(super) fn prepare(&mut self, bank: BlockId) {
        let Some(opened) = self.opened.banks.get_mut(&bank) else { return };
        opened.is_prepared = true;
        if let Some(assembly) = find_open(&mut self.sessions, opened.source, bank) {
            assembly.reset_drained();
        }
        self.report_accounts(bank);
    }

    /// Stops to report the accounts of an opened bank.
    pub(super) fn stop_preparing(&mut self, bank: BlockId) {
        if let Some(opened) = self.opened.banks.get_mut(&bank) {
            opened.is_prepared = false;
        }
    }

    fn report_ended(&mut self) {
        let Self { sessions, events, opened, .. } = self;
        opened.banks.retain(|bank, opened| {
            let is_open = find_open(sessions, opened.source, *bank).is_some();
            if !is_open {
                events.push_back(Event::Ended(*bank));
            }
            is_open
        });
    }

    /// Reports the new banks of sources that started after the root.
    fn report_opened(&mut self) {
        for (source, session) in self.sessions.iter().filter(|(_, session)| !session.is_detached) {
            let open = session.slots.values().flat_map(|entry| &entry.open);
            for assembly in open.filter(|assembly| assembly.is_created) {
                let id = assembly.id;
                if self.opened.banks.contains_key(&id) {
                    continue;
                }
                let sysvar = |pubkey| assembly.accounts.get(pubkey).map(|last| &last.write.account);
                let Some(slot_hashes) = sysvar(&sysvar::slot_hashes::ID).cloned() else { continue };
                let Some(clock) = sysvar(&sysvar::clock::ID).cloned() else { continue };
                self.events.push_back(Event::Opened(Box::new(OpenBank { id, slot_hashes, clock })));
                let opened = OpenedBank { source: *source, is_prepared: false };
                self.opened.banks.insert(id, opened);
            }
        }
    }

    /// Reports the accounts of a bank that the caller prepares: those that are new, and those that became quiescent.
    fn report_accounts(&mut self, bank: BlockId) {
        let FeedConfig { quiescent_after, hot_quiescent_after, .. } = self.config;
        let batch_len = self.opened.batch_len;
        let catch_up_after =
            if batch_len < LARGE_BATCH_LEN { 0 } else { batch_len * QUIESCENT_BATCHES };
        let [quiescent_after, hot_quiescent_after] = match quiescent_after {
            0 => [0, 0],
            _ => [quiescent_after, hot_quiescent_after].map(|after| after.max(catch_up_after)),
        };
        let Some(opened) = self.opened.banks.get(&bank) else { return };
        let Some(assembly) = find_open(&mut self.sessions, opened.source, bank) else { return };
        let pubkeys = assembly.drain_first_writes();
        if !pubkeys.is_empty() {
            self.events.push_back(Event::FirstWrites { bank, pubkeys });
        }
        let quiescent = assembly.drain_quiescent(quiescent_after, hot_quiescent_after);
        let writes = quiescent.iter().filter_map(|pubkey| assembly.accounts.get(pubkey));
        let accounts: Vec<_> = writes.map(|last| last.write.clone()).collect();
        if !accounts.is_empty() {
            self.events.push_back(Event::Quiescent { bank, accounts });
        }
    }
}

/// Finds an open bank of a source.
fn find_open<A, T, M>(
    sessions: &mut BTreeMap<SourceId, Session<A, T, M>>,
    source: SourceId,
    bank: BlockId,
) -> Option<&mut Assembly<A, T, M>> {
    let entry = sessions.get_mut(&source)?.slots.get_mut(&bank.slot)?;
    entry.open.iter_mut().find(|assembly| assembly.id == bank)
}
