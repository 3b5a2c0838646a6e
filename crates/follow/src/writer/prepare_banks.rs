//! Open banks: their writes and transactions are applied as they come, unseen, so that little is left when they are whole.
//!
//! In: what the feed has of open banks. Out: for each of them a block of the ledger that no tip leads to, the sums of its
//! hash, and its transactions in history, which hides them.
//! Shape: a bank's parent is the one whose hash its SlotHashes lists. The block's metadata, which comes last, has to name
//! the same one. An account is written here when the bank has left it alone for a while
//! (`feed.quiescent_after`), longer if it was written again, so that a hot account is hashed once or twice, and few accounts are
//! left at the end.
//! Bounds: [`OPEN_BANKS_MAX`] banks, and with the feed's open banks its bytes (`feed.bytes_max`). Beyond that nothing is
//! prepared: a whole bank is then written at once.
//! Invariant: what is prepared may be discarded at any time, and leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use feed::OpenId;
use ledger::BlockId;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;

use super::Writer;
use super::write_bank::{set_time, unix_timestamp};
use crate::error::FollowError;
use crate::prepared_bank::{Hashing, PreparedBank};

/// Open banks that are prepared at once. Others wait for their turn, or until they are whole.
const OPEN_BANKS_MAX: usize = 4;

/// A node that catches up gets batches of at least this many updates. It hashes less often then: an account is quiescent once
/// [`BATCHES_QUIET`] batches have left it alone.
const BATCH_LARGE: u64 = 128;
const BATCHES_QUIET: u64 = 3;

/// Large accounts that every bank writes when it freezes. Their states in the parent are removed from the sum when the bank
/// is created, because the bank is awaited when it writes them.
const WRITTEN_LAST: [Pubkey; 2] = [sysvar::recent_blockhashes::ID, sysvar::slot_history::ID];

impl Writer {
    /// Applies what the open banks have since the last call. `batch_len` is the number of updates that came last: an account
    /// waits longer for its next write if they come in large batches.
    pub(super) fn prepare_banks(&mut self, batch_len: u64) -> Result<(), FollowError> {
        let quiescent_after = if batch_len < BATCH_LARGE { 0 } else { batch_len * BATCHES_QUIET };
        self.discard_ended()?;
        if self.open_banks.is_off || self.verification.is_stopped() {
            return self.discard_all();
        }
        self.open_new();
        for at in 0..self.open_banks.prepared.len() {
            let (open, bank) = &mut self.open_banks.prepared[at];
            let hashing = Hashing { nanos: &self.status.proof.hash_nanos, is_open: true };
            let hashing = self.verification.is_on().then_some(hashing);
            if let Some(hashing) = hashing {
                bank.replace(&self.ledger, self.feed.drain_first_writes(*open), hashing);
            }
            let quiescent = self.feed.drain_quiescent(*open, quiescent_after);
            let writes = quiescent.into_iter().map(|write| (write.pubkey, write.account.account));
            if bank.write(&mut self.ledger, writes, hashing).is_err() {
                self.open_banks.is_off = true;
                return self.discard_all();
            }
            let (open, id, parent) = (*open, bank.id, bank.parent);
            self.prepare_transactions(open, (id, parent));
        }
        let bytes = self.open_banks.bytes();
        self.status.prepared_bytes.store(bytes as u64, Ordering::Relaxed);
        let feed = self.feed.status();
        let open_bytes = feed.stats.open_bytes + self.deferred.sent_bytes();
        self.status.open_bytes.store(open_bytes as u64, Ordering::Relaxed);
        if bytes + open_bytes > feed.bytes_max {
            self.open_banks.is_off = true;
            return self.discard_all();
        }
        Ok(())
    }

    /// What was prepared of a bank that is whole now. It is discarded if the bank has another parent.
    pub(super) fn take_prepared(
        &mut self,
        open: OpenId,
        parent: BlockId,
    ) -> Result<Option<PreparedBank>, FollowError> {
        self.open_banks.is_off = false;
        let at = self.open_banks.prepared.iter().position(|(known, _)| *known == open);
        let Some(at) = at else { return Ok(None) };
        let (_, prepared) = self.open_banks.prepared.swap_remove(at);
        if prepared.parent == parent && self.ledger.contains_block(prepared.id) {
            return Ok(Some(prepared));
        }
        self.discard(&prepared)?;
        Ok(None)
    }

    /// Removes what was prepared of a bank.
    pub(super) fn discard(&mut self, bank: &PreparedBank) -> Result<(), FollowError> {
        self.history.discard_prepared(bank.id);
        // It went with its parent if that was dropped, and with a root on another fork.
        if self.ledger.contains_block(bank.id) {
            let dropped = self.ledger.drop_fork(bank.id);
            dropped.map_err(|err| FollowError::Ledger { bank: bank.id, err })?;
        }
        Ok(())
    }

    /// Discards the banks that ended before they were whole.
    fn discard_ended(&mut self) -> Result<(), FollowError> {
        let mut at = 0;
        while let Some((open, bank)) = self.open_banks.prepared.get(at) {
            if self.feed.is_open(*open) && self.banks.contains_key(&bank.parent) {
                at += 1;
                continue;
            }
            let (_, ended) = self.open_banks.prepared.swap_remove(at);
            self.discard(&ended)?;
        }
        Ok(())
    }

    fn discard_all(&mut self) -> Result<(), FollowError> {
        for (_, bank) in std::mem::take(&mut self.open_banks.prepared) {
            self.discard(&bank)?;
        }
        self.status.prepared_bytes.store(0, Ordering::Relaxed);
        Ok(())
    }

    /// Opens the banks whose parent is known.
    fn open_new(&mut self) {
        let is_known = |open: &OpenId| self.open_banks.prepared.iter().any(|(it, _)| it == open);
        let free = OPEN_BANKS_MAX.saturating_sub(self.open_banks.prepared.len());
        let new = self.feed.open_banks().filter(|open| !is_known(open));
        let new = new.filter_map(|open| Some((open, self.listed_parent(open)?)));
        let new: Vec<_> = new.take(free).collect();
        for (open, parent) in new {
            let Some(frozen) = self.banks.get(&parent) else { continue };
            let info = Arc::clone(&frozen.info);
            let Some(id) = self.feed.reserve_block(open) else { continue };
            let Ok(mut opened) = PreparedBank::open(&mut self.ledger, id, parent, info) else {
                self.open_banks.is_off = true;
                continue;
            };
            if self.verification.is_on() {
                let hashing = Hashing { nanos: &self.status.proof.hash_nanos, is_open: true };
                opened.replace(&self.ledger, WRITTEN_LAST.to_vec(), hashing);
            }
            self.open_banks.prepared.push((open, opened));
        }
    }

    /// The bank that an open bank lists as its parent. If banks have no hash, it is the only one of the slot.
    fn listed_parent(&self, open: OpenId) -> Option<BlockId> {
        let listed = self.feed.open_account(open, &sysvar::slot_hashes::ID)?;
        let (slot, hash) = verify::newest_slot_hash(listed.account.0.data())?;
        if slot >= open.slot {
            return None;
        }
        let of_slot = BlockId { slot, version: 0 }..=BlockId { slot, version: u64::MAX };
        let mut banks = self.banks.range(of_slot);
        if self.verification.is_on() {
            return banks.find(|(_, frozen)| frozen.block.bank_hash == hash).map(|(id, _)| *id);
        }
        let (only, _) = banks.next()?;
        banks.next().is_none().then_some(*only)
    }

    /// Adds the transactions of an open bank to history, if it may become the tip next.
    fn prepare_transactions(&mut self, open: OpenId, (id, parent): (BlockId, BlockId)) {
        if !self.deferred.is_within_limits() {
            return;
        }
        let clock = self.feed.open_account(open, &sysvar::clock::ID);
        let Some(block_time) = clock.and_then(|clock| unix_timestamp(&clock.account)) else {
            return;
        };
        let Some(known) = self.history.prepared_len(id, parent) else { return };
        let next: Vec<_> = self
            .feed
            .open_transactions(open, known as u64)
            .map(|executed| {
                set_time(executed, block_time);
                Arc::clone(executed)
            })
            .collect();
        self.history.prepare(id, next.iter());
        let mut prepared = self.open_banks.prepared.iter_mut();
        if let Some((_, bank)) = prepared.find(|(it, _)| *it == open) {
            bank.landed_votes.read(known, &next);
        }
    }
}
