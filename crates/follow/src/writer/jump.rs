//! The jump of the ledger to the block of an archive.
//!
//! Input: the changes of the archive. Output: a block with these changes as its writes, which is processed, and the
//! outcome: the block is confirmed and final as any bank is once its hash has the level of the mode, or it is dropped.
//! The banks that waited for it prove it or contradict it.
//! Bounds: one such block at a time, which must be proven in time ([`Jump::proof_wait_max`]).
//! Invariant: the changes are from the confirmed block to the archive's. If the ledger was confirmed further meanwhile,
//! it does not jump. Before the proof nothing of the archive is confirmed, final or stored, and its stakes and its status
//! cache do not count.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chain_solana::{AccountWrite, Block, BlockInfo, LedgerEvent};
use feed::Decision;
use ledger::{Address, BlockId, Change, Commitment, StoredRecord};
use query::LedgerError;
use snapshot_solana::stored_rows::{JumpRow, LatticeRow};
use solana::Account;
use solana_sdk_ids::sysvar;
use tokio::sync::oneshot;

use super::{Frozen, Writer};
use crate::base::new_root_block;
use crate::clock::now;
use crate::error::FollowError;
use crate::jump::{ConfirmedState, Jump, JumpRefusal};
use crate::jumped_block::{DroppedJump, JumpedBlock};
use crate::prepared_bank::removed_keys;
use crate::vote_accounts::VoteAccounts;

impl Writer {
    /// Sends the confirmed state, as it was published last.
    pub(super) fn send_state(&self, sender: oneshot::Sender<ConfirmedState>) {
        let view = self.reader.view(Commitment::Confirmed);
        let lt_hash = self.verification.lt_hash(view.block());
        // The receiver may have ended.
        let _ = sender.send(ConfirmedState { view, lt_hash });
    }

    /// Jumps to the block of an archive, and applies the banks that waited for it.
    pub(super) fn jump(&mut self, jump: Jump) -> Result<(), FollowError> {
        let confirmed = self.ledger.tip(Commitment::Confirmed);
        let refusal = if self.verification.is_stopped() {
            Some(JumpRefusal::Stopped)
        } else if jump.from != confirmed || jump.fields.slot <= confirmed.slot {
            Some(JumpRefusal::Moved { from: jump.from.slot, confirmed: confirmed.slot })
        } else {
            None
        };
        if let Some(refusal) = refusal {
            refuse(jump.done, refusal);
            return Ok(());
        }
        let blockhash = jump.fields.blockhashes.last().copied().unwrap_or_default();
        let slot = jump.fields.slot;
        self.pending_jump = Some(jump);
        // It is above the confirmed bank, which is the feed's.
        if self.feed.jump(slot, blockhash, now()).is_none()
            && let Some(jump) = self.pending_jump.take()
        {
            let confirmed = self.feed.status().confirmed.slot;
            refuse(jump.done, JumpRefusal::Moved { from: jump.from.slot, confirmed });
        }
        self.take_events()
    }

    /// The feed has jumped: its earlier events were applied.
    pub(super) fn apply_jump(&mut self, from: BlockId, to: BlockId) -> Result<(), FollowError> {
        let Some(jump) = self.pending_jump.take() else { return Ok(()) };
        let Jump { fields, lamports, changes, proof_wait_max, done, .. } = jump;
        // Earlier reverts and roots are sent first.
        self.run_deferred()?;
        self.publish();
        let failed = |err: LedgerError| FollowError::Ledger { bank: to, err };
        let Some(parent) = self.banks.get(&from) else {
            refuse(done, JumpRefusal::Lost { from: from.slot });
            // The feed is at the archive's block, which the ledger does not have.
            self.feed.apply(Decision::Retract(to));
            return Ok(());
        };
        let parent_info = Arc::clone(&parent.info);
        self.ledger.open(to, from, Arc::clone(&parent_info)).map_err(failed)?;
        let mut records = Vec::new();
        let mut writes = Vec::new();
        for (pubkey, account) in changes {
            let address = Address::from(pubkey.to_bytes());
            let before = self.ledger.record(&address);
            let record = account.and_then(|account| Account(account).into_record());
            writes.push((pubkey, record.clone(), removed_keys(&before, &record)));
            records.push(Change { address, record });
        }
        let ids = self.ledger.apply(to, records, parent_info).map_err(failed)?;
        let clock = Address::from(sysvar::clock::ID.to_bytes());
        let (block, info) = new_root_block(&fields, self.ledger.record(&clock), lamports)?;
        let info = BlockInfo { block: to, parent: from, ..info };
        let writes = writes.into_iter().zip(ids);
        let record = |account: Option<Arc<Account>>| account.map(StoredRecord::from);
        let write = |((pubkey, account, removed_keys), id)| AccountWrite {
            pubkey,
            id,
            account: record(account),
            removed_keys,
        };
        let writes = writes.map(write).collect();
        let block = Arc::new(Block { id: to, parent: from, writes, ..block });
        let info = Arc::new(info);
        self.ledger.complete(to, Arc::clone(&info)).map_err(failed)?;
        self.history.record_jump(&block);
        self.history.set_tip(to);
        let verified = self.verification.jump(to, from, &fields, self.now);
        verified.map_err(|err| FollowError::Verify { bank: to, err })?;
        let slot = to.slot;
        let accounts = block.writes.len();
        tracing::warn!(slot, from = from.slot, accounts, "the ledger jumped to an archive's slot");
        let frozen = Frozen {
            block: Arc::clone(&block),
            info: Arc::clone(&info),
            is_executed: true,
            is_confirmed: false,
        };
        self.banks.insert(to, frozen);
        self.output.unsent.push(LedgerEvent::Jumped { block, info });
        // Before a view shows the block.
        self.status.unproven_jump.store(slot, Ordering::Relaxed);
        self.publish();
        // From the published accounts.
        self.cluster.jump(&fields, &self.reader.view(Commitment::Processed));
        self.voting.accounts = VoteAccounts::default();
        let row = JumpRow { slot, parent_slot: fields.parent_slot };
        let lattice = LatticeRow { lt_hash: *fields.lt_hash, hard_forks: fields.hard_forks };
        let statuses = fields.status_cache;
        self.older_statuses.set_unproven_bytes(statuses.bytes());
        let since = self.now;
        let is_proven = false;
        self.jumped = Some(JumpedBlock {
            id: to,
            row,
            lattice,
            statuses,
            since,
            proof_wait_max,
            is_proven,
            done,
        });
        Ok(())
    }

    /// A bank is confirmed: if it is the block of an archive, it is proven.
    pub(super) fn confirm_jump(&mut self, bank: BlockId) {
        let Some(jumped) = self.jumped.as_mut().filter(|jumped| jumped.id == bank) else { return };
        jumped.is_proven = true;
        // The transactions of the gap are in no block of the history.
        self.older_statuses.replace(std::mem::take(&mut jumped.statuses), bank.slot);
        self.status.unproven_jump.store(0, Ordering::Relaxed);
        self.status.jumps.fetch_add(1, Ordering::Relaxed);
        tracing::info!(slot = bank.slot, "the archive's block is confirmed");
    }

    /// A bank becomes the root. Returns the block of an archive if it is that one. Then its row is stored with it.
    pub(super) fn root_jump(&mut self, bank: BlockId) -> Option<JumpedBlock> {
        let jumped = self.jumped.take_if(|jumped| jumped.id == bank)?;
        self.storage.last_jump = Some(jumped.row);
        Some(jumped)
    }

    /// The block of an archive has become the root: its stakes of epochs that were not known count from here on.
    pub(super) fn end_jump(&mut self, jumped: JumpedBlock) {
        let known = self.voting.stakes.clone();
        self.take_epoch_stakes();
        for stakes in known {
            self.set_epoch_stakes(stakes);
        }
        let _ = jumped.done.send(Ok(()));
    }

    /// A bank was dropped: if it is the block of an archive, the ledger is at the confirmed bank again.
    pub(super) fn drop_jump(&mut self, bank: BlockId) {
        let Some(jumped) = self.jumped.take_if(|jumped| jumped.id == bank) else { return };
        self.status.refused_jumps.fetch_add(1, Ordering::Relaxed);
        self.older_statuses.set_unproven_bytes(0);
        self.voting.accounts = VoteAccounts::default();
        let refusal = self.verification.end_jump();
        let slot = bank.slot;
        let refusal = refusal.unwrap_or_else(|| match jumped.is_late(self.now) {
            true => JumpRefusal::Unproven { slot, limit: jumped.proof_wait_max },
            false => JumpRefusal::Left { slot },
        });
        tracing::warn!(slot, "the archive's block is dropped: {refusal}");
        self.dropped_jump = Some(DroppedJump { done: jumped.done, refusal });
    }

    /// Reports a dropped block of an archive after a publication. A jump publishes before it opens its block, so the
    /// gauge is that of the dropped one.
    pub(super) fn report_dropped_jump(&mut self) {
        let Some(DroppedJump { done, refusal }) = self.dropped_jump.take() else { return };
        // After no view shows the block.
        self.status.unproven_jump.store(0, Ordering::Relaxed);
        refuse(done, refusal);
    }

    /// Drops the block of an archive if it is not proven in time.
    pub(super) fn check_jump(&mut self) {
        let Some(jumped) = &self.jumped else { return };
        if jumped.is_late(self.now) {
            self.feed.apply(Decision::Retract(jumped.id));
        }
    }
}

fn refuse(done: oneshot::Sender<Result<(), JumpRefusal>>, refusal: JumpRefusal) {
    // The gap closer may have ended.
    let _ = done.send(Err(refusal));
}
