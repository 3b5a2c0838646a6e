//! Open banks: their writes and transactions are applied, hidden, before the banks are whole, so that little is left
//! then.
//!
//! Input: the events of the feed about open banks. Output: for each of them a block of the ledger that no tip leads to,
//! the sums of its hash, and its transactions in history, which hides them.
//! Shape: the SlotHashes of a bank list the hash of its parent. The block's metadata, which comes last, has to name
//! the same one. The feed reports an account when the bank has not written it for a while (`feed.quiescent_after`),
//! longer if it was written again, so that a hot account is hashed once or twice, and few accounts are left at the end.
//! Bounds: [`PREPARED_BANKS_MAX`] banks, and with the feed's open banks its bytes (`feed.bytes_max`). Beyond that
//! nothing is prepared: a whole bank is then written at once.
//! Invariant: a preparation may be discarded at any time, and leaves nothing behind.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use feed::{Decision, LastWrite, OpenBank};
use ledger::BlockId;
use solana_account::ReadableAccount;
use solana_pubkey::Pubkey;
use solana_sdk_ids::sysvar;

use super::Writer;
use super::write_bank::{set_time, unix_timestamp};
use crate::convert::WrittenAccount;
use crate::error::FollowError;
use crate::open_banks::BankStart;
use crate::prepared_bank::{Hashing, PreparedBank};
use crate::status::FollowStatus;
use crate::verification::Verification;

/// Open banks that are prepared at once. Others wait until one of these ends, or until they are whole.
const PREPARED_BANKS_MAX: usize = 4;

/// Large accounts that every bank writes when it freezes. Their states in the parent are removed from the sum when the
/// bank is created, because the bank is awaited when it writes them.
const WRITTEN_LAST: [Pubkey; 2] = [sysvar::recent_blockhashes::ID, sysvar::slot_history::ID];

impl Writer {
    /// Applies the changes of the open banks since the last call. `batch_len` is the number of updates in the last
    /// batch.
    pub(super) fn prepare_banks(&mut self, batch_len: u64) -> Result<(), FollowError> {
        if self.verification.is_stopped() {
            self.open_banks.is_off = true;
        }
        if self.open_banks.is_off {
            self.discard_all()?;
        }
        self.discard_orphans()?;
        self.feed.handle_batch_end(batch_len);
        self.take_events()?;
        if self.open_banks.is_off {
            return Ok(());
        }
        self.prepare_new();
        self.take_events()?;
        if self.deferred.is_within_limits() {
            (0..self.open_banks.prepared.len()).for_each(|at| self.prepare_transactions(at));
        }
        self.enforce_prepared_bytes()
    }

    /// Discards all preparations if they and the feed's open banks have too many bytes.
    fn enforce_prepared_bytes(&mut self) -> Result<(), FollowError> {
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

    /// Records a bank that a source has started to send.
    pub(super) fn record_opened(&mut self, bank: &OpenBank<WrittenAccount>) {
        let slot_hashes = bank.slot_hashes.account.0.data();
        let Some((parent_slot, parent_hash)) = verify::newest_slot_hash(slot_hashes) else {
            return;
        };
        let unix_timestamp = unix_timestamp(&bank.clock.account);
        if parent_slot < bank.id.slot {
            let start = BankStart { parent_slot, parent_hash, unix_timestamp };
            self.open_banks.insert(bank.id, start);
        }
    }

    /// Discards the preparation of a bank that ended before it was whole.
    pub(super) fn end_open(&mut self, bank: BlockId) -> Result<(), FollowError> {
        let ended = self.open_banks.remove(bank);
        ended.map_or(Ok(()), |prepared| self.discard(&prepared))
    }

    /// Removes the parent's states of accounts that a prepared bank has written for the first time from its sum.
    pub(super) fn replace_accounts(&mut self, bank: BlockId, pubkeys: Vec<Pubkey>) {
        let Some(prepared) = self.open_banks.prepared_mut(bank) else { return };
        if let Some(hashing) = hashing_while_open(&self.status, &self.verification) {
            prepared.replace(&self.ledger, pubkeys, hashing);
        }
    }

    /// Writes accounts of a prepared bank that it will probably not write again.
    pub(super) fn write_quiescent(
        &mut self,
        bank: BlockId,
        accounts: Vec<LastWrite<WrittenAccount>>,
    ) -> Result<(), FollowError> {
        let Some(prepared) = self.open_banks.prepared_mut(bank) else { return Ok(()) };
        let hashing = hashing_while_open(&self.status, &self.verification);
        let writes = accounts.into_iter().map(|write| (write.pubkey, write.account.account));
        if prepared.write(&mut self.ledger, writes, hashing).is_err() {
            self.open_banks.is_off = true;
            return self.discard_all();
        }
        Ok(())
    }

    /// Returns the preparation of a bank that is whole. It is discarded if the bank has another parent.
    pub(super) fn take_prepared(
        &mut self,
        bank: BlockId,
        parent: BlockId,
    ) -> Result<Option<PreparedBank>, FollowError> {
        self.open_banks.is_off = false;
        let Some(prepared) = self.open_banks.remove(bank) else { return Ok(None) };
        if prepared.parent == parent && self.ledger.contains_block(prepared.id) {
            return Ok(Some(prepared));
        }
        self.discard(&prepared)?;
        Ok(None)
    }

    /// Removes the preparation of a bank from the ledger and history.
    pub(super) fn discard(&mut self, bank: &PreparedBank) -> Result<(), FollowError> {
        self.history.discard_prepared(bank.id);
        self.verification.stop_checks(bank.id);
        // The ledger has dropped it if it dropped the parent, or rooted a bank of another fork.
        if self.ledger.contains_block(bank.id) {
            let dropped = self.ledger.drop_fork(bank.id);
            dropped.map_err(|err| FollowError::Ledger { bank: bank.id, err })?;
        }
        Ok(())
    }

    /// Discards the preparations of open banks on a parent that was dropped or is below the root.
    fn discard_orphans(&mut self) -> Result<(), FollowError> {
        let is_orphan = |bank: &mut PreparedBank| !self.banks.contains_key(&bank.parent);
        let orphans: Vec<_> = self.open_banks.prepared.extract_if(.., is_orphan).collect();
        self.stop_preparing(&orphans)
    }

    fn discard_all(&mut self) -> Result<(), FollowError> {
        let all = std::mem::take(&mut self.open_banks.prepared);
        self.status.prepared_bytes.store(0, Ordering::Relaxed);
        self.stop_preparing(&all)
    }

    /// Discards the preparations of banks that are still open. They may be prepared again.
    fn stop_preparing(&mut self, banks: &[PreparedBank]) -> Result<(), FollowError> {
        for bank in banks {
            self.feed.apply(Decision::StopPreparing(bank.id));
            self.discard(bank)?;
        }
        Ok(())
    }

    /// Opens blocks for the banks with a known parent, and requests their accounts.
    fn prepare_new(&mut self) {
        let free = PREPARED_BANKS_MAX.saturating_sub(self.open_banks.prepared.len());
        let unprepared = self.open_banks.iter_unprepared();
        let new = unprepared.filter_map(|(bank, start)| Some((bank, self.find_parent(start)?)));
        let new: Vec<_> = new.take(free).collect();
        for (id, parent) in new {
            let Some(frozen) = self.banks.get(&parent) else { continue };
            let info = Arc::clone(&frozen.info);
            let Ok(mut opened) = PreparedBank::open(&mut self.ledger, id, parent, info) else {
                self.open_banks.is_off = true;
                continue;
            };
            if let Some(hashing) = hashing_while_open(&self.status, &self.verification) {
                opened.replace(&self.ledger, WRITTEN_LAST.to_vec(), hashing);
            }
            self.open_banks.prepared.push(opened);
            self.feed.apply(Decision::Prepare(id));
        }
    }

    /// Finds the bank that an open bank lists as its parent. If banks have no hash, it is the only one of the slot.
    fn find_parent(&self, start: &BankStart) -> Option<BlockId> {
        let slot = start.parent_slot;
        let range = BlockId { slot, version: 0 }..=BlockId { slot, version: u64::MAX };
        let mut banks = self.banks.range(range);
        if self.verification.is_on() {
            let hash = start.parent_hash;
            return banks.find(|(_, frozen)| frozen.block.bank_hash == hash).map(|(id, _)| *id);
        }
        let (only, _) = banks.next()?;
        banks.next().is_none().then_some(*only)
    }

    /// Adds the transactions of a prepared bank to history, if it may become the tip next.
    fn prepare_transactions(&mut self, at: usize) {
        let bank = &self.open_banks.prepared[at];
        let id = bank.id;
        let Some(known) = self.history.prepared_len(id, bank.parent) else { return };
        let start = self.open_banks.start(id);
        let Some(block_time) = start.and_then(|start| start.unix_timestamp) else { return };
        let next: Vec<_> = self
            .feed
            .open_transactions(id, known as u64)
            .map(|executed| {
                set_time(executed, block_time);
                Arc::clone(executed)
            })
            .collect();
        self.history.prepare(id, next.iter());
        self.open_banks.prepared[at].landed_votes.read(known, &next);
        self.verification.check_transactions(id, known, &next);
    }
}

/// Returns the hashing of an open bank's accounts, or `None` if banks are not verified.
fn hashing_while_open<'a>(
    status: &'a FollowStatus,
    verification: &Verification,
) -> Option<Hashing<'a>> {
    let hashing = Hashing { nanos: &status.proof.hash_nanos, is_open: true };
    verification.is_on().then_some(hashing)
}
