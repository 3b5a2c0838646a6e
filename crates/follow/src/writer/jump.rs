//! The jump of the ledger to the block of an archive.
//!
//! Input: the changes of the archive. Output: a block with these changes as its writes; it is processed, confirmed and
//! the root.
//! Invariant: the changes are from the confirmed block to the archive's. If the ledger was confirmed further meanwhile,
//! it does not jump.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use chain_solana::{AccountWrite, Block, BlockInfo, LedgerEvent};
use ledger::{Address, BlockId, Change, Commitment, StoredRecord};
use query::LedgerError;
use solana::Account;
use solana_sdk_ids::sysvar;
use tokio::sync::oneshot;

use super::{Frozen, Writer};
use crate::base::new_root_block;
use crate::clock::{now, unix_ms};
use crate::error::FollowError;
use crate::jump::{ConfirmedState, Jump, JumpRefusal};
use crate::prepared_bank::removed_keys;
use crate::store_thread::RootedBank;
use crate::stored_rows::{JumpRow, LatticeRow};
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
            let _ = jump.done.send(Err(refusal));
            return Ok(());
        }
        let blockhash = jump.fields.blockhashes.last().copied().unwrap_or_default();
        let slot = jump.fields.slot;
        self.pending_jump = Some(jump);
        // It is above the confirmed bank, which is the feed's.
        self.feed.jump(slot, blockhash, now());
        self.take_events()
    }

    /// The feed has jumped: its earlier events were applied.
    pub(super) fn apply_jump(&mut self, from: BlockId, to: BlockId) -> Result<(), FollowError> {
        let Some(jump) = self.pending_jump.take() else { return Ok(()) };
        let Jump { fields, lamports, changes, done, .. } = jump;
        // Earlier reverts and roots are sent first.
        self.run_deferred()?;
        self.publish();
        let failed = |err: LedgerError| FollowError::Ledger { bank: to, err };
        let Some(parent) = self.banks.get(&from) else { return Ok(()) };
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
        self.ledger.set_tip(to).map_err(failed)?;
        self.ledger.confirm(to).map_err(failed)?;
        self.ledger.finalize(to).map_err(failed)?;
        self.history.record_jump(&block);
        self.history.set_tip(to);
        self.history.confirm(to);
        self.history.finalize(to);
        self.verification.jump(to, &fields);
        self.status.proof.confirm(to);
        let slot = to.slot;
        let accounts = block.writes.len();
        tracing::warn!(slot, from = from.slot, accounts, "the ledger jumped to an archive's slot");
        self.status.jumps.fetch_add(1, Ordering::Relaxed);
        let frozen =
            Frozen { block: Arc::clone(&block), info, is_executed: true, is_confirmed: true };
        self.banks.clear();
        self.banks.insert(to, frozen);
        let timestamp_ms = unix_ms();
        self.output.unsent.extend([
            LedgerEvent::Jumped { block: Arc::clone(&block) },
            LedgerEvent::TipMoved { block: to },
            LedgerEvent::Confirmed { block: Arc::clone(&block), timestamp_ms },
            LedgerEvent::Rooted { block, timestamp_ms },
        ]);
        self.publish();
        // From the published accounts.
        self.cluster.jump(&fields, &self.reader.view(Commitment::Finalized));
        let known = self.voting.stakes.clone();
        self.take_epoch_stakes();
        for stakes in known {
            self.set_epoch_stakes(stakes);
        }
        // It has a hash whatever is verified, so a start from it is verified too.
        let lattice = LatticeRow { lt_hash: *fields.lt_hash, hard_forks: fields.hard_forks };
        self.storage.last_jump = Some(JumpRow { slot: to.slot, parent_slot: fields.parent_slot });
        // The banks before it were stored when the one that the ledger jumped from became the root.
        let stored = self.rooted_bank(to, Some(lattice));
        let stored = stored.map(|bank| RootedBank { is_next: false, ..bank });
        self.store_banks(stored.into_iter().collect())?;
        self.voting.accounts = VoteAccounts::default();
        let _ = done.send(Ok(()));
        Ok(())
    }
}
