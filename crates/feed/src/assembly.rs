//! An open bank: the content that a source has sent, and the parts that are missing.

use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use ledger::BlockId;
use solana::Entry;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;

use crate::account_writes::{LastWrite, OpenWrite};
use crate::event::{GapReason, Missing};
use crate::update::BlockMeta;

/// Sysvars that every bank writes.
const SYSVARS: [(Pubkey, &str); 4] = [
    (sysvar::clock::ID, "Clock"),
    (sysvar::slot_hashes::ID, "SlotHashes"),
    (sysvar::recent_blockhashes::ID, "RecentBlockhashes"),
    (sysvar::slot_history::ID, "SlotHistory"),
];

/// Bytes of the map entries of an account or a transaction.
pub(crate) const ENTRY_BYTES: usize = 64;

/// Bytes of a link of Proof of History.
const LINK_BYTES: usize = size_of::<Entry>() + ENTRY_BYTES;

/// The effect of an update on a bank.
pub(crate) enum Added {
    /// Something new: the bank holds this many bytes more, or fewer.
    New { before: usize, after: usize },
    /// The bank had the content already.
    Duplicate,
}

pub(crate) struct Assembly<A, T, M> {
    /// The id of the bank in events. No other bank of the feed has it.
    pub(crate) id: BlockId,
    pub(crate) bank_id: Option<u64>,
    pub(crate) is_created: bool,
    pub(crate) first_received: Instant,
    /// In order: a whole bank has them so, and nothing is sorted when it is awaited.
    pub(crate) accounts: BTreeMap<Pubkey, OpenWrite<A>>,
    /// Accounts that the bank has written once and that were not drained ([`Self::drain_quiescent`]), with the number
    /// of writes before theirs. One that is written again stays here until it is at the front.
    pending: VecDeque<(Pubkey, u64)>,
    /// Like `pending`, for accounts that the bank has written more than once. Each is in it once.
    pending_hot: VecDeque<(Pubkey, u64)>,
    /// Accounts that were written first since [`Self::drain_first_writes`].
    new: Vec<Pubkey>,
    /// Number of account writes so far.
    writes: u64,
    /// The value of `writes` when SlotHistory was written, which a bank does when it freezes.
    history_at: Option<u64>,
    pub(crate) transactions: BTreeMap<u64, T>,
    pub(crate) entries: BTreeMap<u64, Entry>,
    pub(crate) meta: Option<BlockMeta<M>>,
    pub(crate) bytes: usize,
}

impl<A, T, M> Assembly<A, T, M> {
    pub(crate) fn new(id: BlockId, bank_id: Option<u64>, now: Instant) -> Self {
        Self {
            id,
            bank_id,
            is_created: false,
            first_received: now,
            accounts: BTreeMap::new(),
            pending: VecDeque::new(),
            pending_hot: VecDeque::new(),
            new: Vec::new(),
            writes: 0,
            history_at: None,
            transactions: BTreeMap::new(),
            entries: BTreeMap::new(),
            meta: None,
            bytes: 0,
        }
    }

    /// Whether anything of its content was sent.
    pub(crate) fn has_content(&self) -> bool {
        !self.accounts.is_empty() || !self.transactions.is_empty() || self.meta.is_some()
    }

    /// Adds a write unless the bank has a newer one of the account.
    pub(crate) fn add_account(&mut self, write: LastWrite<A>, bytes: usize) -> Added {
        let bytes = bytes + ENTRY_BYTES;
        let written_at = self.writes;
        let is_history = write.pubkey == sysvar::slot_history::ID;
        let before = match self.accounts.entry(write.pubkey) {
            MapEntry::Occupied(entry) if entry.get().write.write_version >= write.write_version => {
                return Added::Duplicate;
            }
            MapEntry::Occupied(mut entry) => {
                let last = entry.get_mut();
                if !last.is_pending {
                    self.pending_hot.push_back((write.pubkey, written_at));
                }
                let before = last.bytes;
                *last = OpenWrite { write, bytes, written_at, is_pending: true, is_again: true };
                before
            }
            MapEntry::Vacant(entry) => {
                self.new.push(write.pubkey);
                self.pending.push_back((write.pubkey, written_at));
                let is_pending = true;
                let is_again = false;
                entry.insert(OpenWrite { write, bytes, written_at, is_pending, is_again });
                0
            }
        };
        self.writes += 1;
        if is_history {
            self.history_at = Some(self.writes);
        }
        self.resize(before, bytes)
    }

    /// Whether it freezes: it has written SlotHistory, and fewer than `writes_max` accounts since. A source may write
    /// it at some other time, and then nothing follows from it.
    fn is_freezing(&self, writes_max: u64) -> bool {
        self.history_at.is_some_and(|history_at| self.writes - history_at <= writes_max)
    }

    /// Removes and returns accounts that the bank has not written for `quiescent_after` writes (`again_after` if it
    /// wrote them more than once). While the bank freezes, returns all pending accounts. An account that is written
    /// after it was drained is drained again. Cost: O(result), and each account once in that many writes.
    pub(crate) fn drain_quiescent(
        &mut self,
        quiescent_after: u64,
        again_after: u64,
    ) -> Vec<Pubkey> {
        let is_freezing = self.is_freezing(quiescent_after);
        let [quiescent_after, again_after] =
            if is_freezing { [0, 0] } else { [quiescent_after, again_after] };
        let mut quiescent = Vec::new();
        let writes = self.writes;
        let is_old = |written_at: u64, after: u64| writes - written_at > after;
        // Those that were written again since go to the other queue.
        while let Some((pubkey, written_at)) = self.pending.front().copied()
            && is_old(written_at, quiescent_after)
        {
            self.pending.pop_front();
            let Some(last) = self.accounts.get_mut(&pubkey) else { continue };
            if last.is_again {
                self.pending_hot.push_back((pubkey, last.written_at));
            } else {
                last.is_pending = false;
                quiescent.push(pubkey);
            }
        }
        while let Some((pubkey, queued_at)) = self.pending_hot.front().copied()
            && is_old(queued_at, again_after)
        {
            self.pending_hot.pop_front();
            let Some(last) = self.accounts.get_mut(&pubkey) else { continue };
            if is_old(last.written_at, again_after) {
                last.is_pending = false;
                quiescent.push(pubkey);
            } else {
                self.pending_hot.push_back((pubkey, last.written_at));
            }
        }
        quiescent
    }

    /// Removes and returns the accounts that were first written since the last call.
    pub(crate) fn drain_first_writes(&mut self) -> Vec<Pubkey> {
        std::mem::take(&mut self.new)
    }

    /// Makes all accounts pending again.
    pub(crate) fn reset_drained(&mut self) {
        let written = self.accounts.iter().map(|(pubkey, last)| (*pubkey, last.written_at));
        let mut pending: Vec<_> = written.collect();
        pending.sort_unstable_by_key(|(_, written_at)| *written_at);
        self.new = pending.iter().map(|(pubkey, _)| *pubkey).collect();
        self.pending = pending.into();
        self.pending_hot.clear();
        self.accounts.values_mut().for_each(|last| last.is_pending = true);
    }

    /// Removes and returns the accounts that were not drained since their last write.
    pub(crate) fn drain_pending(&mut self) -> Vec<Pubkey> {
        let pending = self.pending.drain(..).chain(self.pending_hot.drain(..));
        pending.map(|(pubkey, _)| pubkey).collect()
    }

    /// The transactions from `first` on, without a gap.
    pub(crate) fn transactions_from(&mut self, first: u64) -> impl Iterator<Item = &mut T> {
        let numbered = self.transactions.range_mut(first..).zip(first..);
        let next = numbered.take_while(|((index, _), expected)| **index == *expected);
        next.map(|((_, transaction), _)| transaction)
    }

    pub(crate) fn add_transaction(
        &mut self,
        index: u64,
        transaction: T,
        bytes: usize,
    ) -> Result<Added, GapReason> {
        if let Some(meta) = &self.meta
            && index >= meta.executed_transaction_count
        {
            let count = meta.executed_transaction_count;
            return Err(GapReason::TransactionIndex { index, count });
        }
        if self.transactions.contains_key(&index) {
            return Ok(Added::Duplicate);
        }
        self.transactions.insert(index, transaction);
        Ok(self.resize(0, bytes + ENTRY_BYTES))
    }

    /// Adds an entry, unless the block does not count it: a validator counts none in a block that it made itself.
    pub(crate) fn add_entry(&mut self, index: u64, entry: Entry) -> Added {
        let is_counted = self.meta.as_ref().is_none_or(|meta| index < meta.entries_count);
        if !is_counted || self.entries.contains_key(&index) {
            return Added::Duplicate;
        }
        self.entries.insert(index, entry);
        self.resize(0, LINK_BYTES)
    }

    /// Stops waiting for entries. Returns the bytes of the removed entries if the bank waited for more.
    pub(crate) fn give_up_entries(&mut self) -> Option<usize> {
        let meta = self.meta.as_mut().filter(|meta| meta.entries_count > 0)?;
        meta.entries_count = 0;
        let bytes = std::mem::take(&mut self.entries).len() * LINK_BYTES;
        self.bytes -= bytes;
        Some(bytes)
    }

    /// Removes and returns the entries. The result is empty if they do not fit the block: state does not depend on
    /// them.
    pub(crate) fn take_entries(&mut self) -> Vec<Entry> {
        let entries: Vec<Entry> = std::mem::take(&mut self.entries).into_values().collect();
        let is_whole = self.meta.as_ref().is_some_and(|meta| {
            Entry::are_whole(&entries, meta.executed_transaction_count, &meta.blockhash)
        });
        if is_whole { entries } else { Vec::new() }
    }

    pub(crate) fn set_meta(
        &mut self,
        meta: BlockMeta<M>,
        bytes: usize,
    ) -> Result<Added, GapReason> {
        if let Some(known) = &self.meta {
            let first = known.blockhash;
            let second = meta.blockhash;
            return if first == second {
                Ok(Added::Duplicate)
            } else {
                Err(GapReason::TwoMetas { first, second })
            };
        }
        let count = meta.executed_transaction_count;
        if let Some((index, _)) = self.transactions.last_key_value()
            && *index >= count
        {
            return Err(GapReason::TransactionIndex { index: *index, count });
        }
        let surplus = self.entries.split_off(&meta.entries_count).len() * LINK_BYTES;
        self.meta = Some(meta);
        Ok(self.resize(surplus, bytes + ENTRY_BYTES))
    }

    fn resize(&mut self, before: usize, after: usize) -> Added {
        self.bytes = self.bytes - before + after;
        Added::New { before, after }
    }

    /// Returns the missing parts. Indices are unique and below the count, so a full number of transactions has no
    /// holes.
    pub(crate) fn missing(&self) -> Missing {
        let count = self.meta.as_ref().map_or(0, |meta| meta.executed_transaction_count);
        let entries_count = self.meta.as_ref().map_or(0, |meta| meta.entries_count);
        let has = |key: &Pubkey| self.accounts.contains_key(key);
        Missing {
            created: !self.is_created,
            meta: self.meta.is_none(),
            transactions: count.saturating_sub(self.transactions.len() as u64),
            entries: entries_count.saturating_sub(self.entries.len() as u64),
            sysvars: SYSVARS.map(|(key, name)| (!has(&key)).then_some(name)),
            parent: None,
        }
    }

    /// Whether the bank is whole. Cheap for a bank without its meta.
    pub(crate) fn is_whole(&self) -> bool {
        self.meta.is_some() && self.missing().is_nothing()
    }
}
